"""Emulated adb devices for a module of tests: each started when first asked for, with an adb server of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agents.adbserver import stop_server
from agents.emulation.spec import Abi
from tests.agents.adbd import AdbDevice, running_adbd


@contextmanager
def own_server(folder: Path) -> Iterator[Path]:
    """Lockstep's state, and with it its adb server, in ``folder``; the server ends with the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKSTEP_STATE", str(folder))
        try:
            yield folder
        finally:
            assert stop_server(folder / "adb"), "somebody still uses the adb server"


@dataclass
class Units:
    """Devices by ABI; ``close`` ends them all."""

    folder: Path
    _open: ExitStack = field(default_factory=ExitStack)
    _started: dict[str, AdbDevice] = field(default_factory=dict)

    def unit(self, abi: Abi) -> AdbDevice:
        """The device of this ABI."""
        if abi not in self._started:
            if not self._started:
                self._open.enter_context(own_server(self.folder / "state"))
            self._started[abi] = self._open.enter_context(running_adbd(self.folder / abi, abi, name=f"unit-{abi}"))
        return self._started[abi]

    def close(self) -> None:
        """End the devices and the server."""
        self._open.close()


@contextmanager
def adb_units(folder: Path) -> Iterator[Units]:
    """For a module-scoped fixture."""
    units = Units(folder)
    try:
        yield units
    finally:
        units.close()
