"""A real sshd in an emulated Linux device: what ``lockstep emulate`` starts, and no other.

::

    with running_ssh_device(tmp_path / "board", "arm64") as device:
        address_of(device)             # for SshAgent: host key known, user's key beside it
        device.cut(); device.mend()    # as for adb: see adbd.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agents.emulation.linux import USER, known_host
from agents.emulation.spec import Abi, Spec
from agents.emulation.units import Unit, start
from agents.sshlogin import Address

SshDevice = Unit


@contextmanager
def running_ssh_device(
    folder: Path, abi: Abi = "x86-64", *, name: str = "board", cpu: str = "", data_mb: int | None = None
) -> Iterator[SshDevice]:
    """A device with its daemon listening; ended also when the test fails or is killed."""
    device = start(Spec(name, "ssh", abi, cpu, data_mb), folder, orphan="dies")
    try:
        yield device
    finally:
        device.down()


def address_of(device: SshDevice) -> Address:
    """How an agent reaches it, its key known."""
    known = device.folder / "known_hosts"
    known.write_text(known_host(device.folder, device.port))
    return Address("127.0.0.1", device.port, USER, known, device.folder / "user_key")


@dataclass
class SshUnits:
    """Devices by ABI for a module of tests, each started when first asked for."""

    folder: Path
    _open: ExitStack = field(default_factory=ExitStack)
    _started: dict[str, SshDevice] = field(default_factory=dict)

    def unit(self, abi: Abi) -> SshDevice:
        """The device of this ABI."""
        if abi not in self._started:
            self._started[abi] = self._open.enter_context(running_ssh_device(self.folder / abi, abi))
        return self._started[abi]


@contextmanager
def ssh_units(folder: Path) -> Iterator[SshUnits]:
    """For a module-scoped fixture."""
    units = SshUnits(folder)
    with units._open:
        yield units
