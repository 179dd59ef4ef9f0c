"""A real adbd in an emulated Android device for one test, gone with it: what ``lockstep emulate`` starts, and no other.

::

    with running_adbd(tmp_path / "phone") as device:
        adb connect device.serial      # 127.0.0.1:PORT
        device.cut(); device.mend()    # the line; cut(silent=True): connected, and nothing comes through
        device.kill(); device.restart()  # the daemon
        device.reboot()                # every process of the device; its files stay
        device.root / "data/local/tmp" # its files as the host sees them, while it runs
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agents.emulation.spec import Abi, Spec
from agents.emulation.units import Unit, start

AdbDevice = Unit


@contextmanager
def running_adbd(
    folder: Path, abi: Abi = "x86-64", *, name: str = "phone", cpu: str = "", data_mb: int | None = None
) -> Iterator[AdbDevice]:
    """A device with its daemon listening; ended also when the test fails or is killed."""
    device = start(Spec(name, "adb", abi, cpu, data_mb), folder, orphan="dies")
    try:
        yield device
    finally:
        device.down()
