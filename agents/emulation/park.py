"""All emulated devices of one folder: bring up as many as asked, list them, end them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agents.emulation.roots import remove_tree
from agents.emulation.spec import Abi, Kind, Spec
from agents.emulation.units import Unit, start
from engine.contract.errors import LockstepError, UsageError
from engine.debian import Progress, silent
from engine.locking import exclusive

Counts = Mapping[tuple[Kind, Abi], int]


@dataclass(frozen=True)
class Park:
    """``folder`` holds one folder per device. The constructor does no I/O."""

    folder: Path

    def up(self, counts: Counts, *, cpu: str = "", progress: Progress = silent) -> list[LockstepError]:
        """See to it that so many of each kind run; those that do are left alone. What could not start is returned."""
        failed: list[LockstepError] = []
        with self._alone(progress):
            for spec in _wanted(counts, cpu):
                try:
                    self._see_to(spec, progress)
                except LockstepError as error:
                    failed.append(error)
                    progress(f"{spec.name}: could not start")
        return failed

    def units(self) -> list[Unit]:
        """Every device that was started and not ended, by name; those that died are among them."""
        found = (_load(path.parent) for path in sorted(self.folder.glob("*/unit.json")))
        return [unit for unit in found if unit is not None]

    def down(self, names: Sequence[str] = (), progress: Progress = silent) -> list[str]:
        """End the named devices, all without names; returns whom. UsageError for a name that is not there."""
        with self._alone(progress):
            units = {unit.name: unit for unit in self.units()}
            for name in names:
                if name not in units:
                    near = difflib.get_close_matches(name, list(units), 1)
                    raise UsageError(
                        f"no emulated device {name!r}" + (f": did you mean {near[0]}?" if near else ""),
                        hint="`lockstep emulate list` shows them",
                    )
            chosen = [unit for name, unit in units.items() if not names or name in names]
            for unit in chosen:
                unit.down()
            if not names:
                self._sweep()
        return [unit.name for unit in chosen]

    def _see_to(self, spec: Spec, progress: Progress) -> None:
        folder = self.folder / spec.name
        there = _load(folder)
        port = 0
        if there is not None and there.spec == spec and there.alive:
            progress(f"{spec.name}: runs already at {there.serial}")
            return
        if there is not None:
            port = there.port
            there.down()
        unit = start(spec, folder, port=port, progress=progress)
        progress(f"{spec.name}: runs at {unit.serial}")

    def _sweep(self) -> None:
        """Folders of starts that were interrupted."""
        for path in self.folder.glob("*/boot.json"):
            remove_tree(path.parent)

    @contextmanager
    def _alone(self, progress: Progress) -> Iterator[None]:
        with exclusive(self.folder / "lock", lambda: progress("waiting for another `lockstep emulate`")):
            yield


def _wanted(counts: Counts, cpu: str) -> Iterator[Spec]:
    for (kind, abi), count in counts.items():
        for number in range(1, count + 1):
            spec = Spec(f"{kind}-{abi}-{number}", kind, abi)
            yield replace(spec, cpu=cpu) if abi == "arm64" else spec


def _load(folder: Path) -> Unit | None:
    """The device that was started in a folder; None where there is none, or its record is not whole."""
    try:
        facts = json.loads((folder / "unit.json").read_text())
        return Unit(folder, Spec(**facts["spec"]), int(facts["pid"]), int(facts["started"]), int(facts["port"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
