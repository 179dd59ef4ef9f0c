"""What a device is like around one run: read before and after; cooled and governed where the case asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from agents.base import Agent
from agents.cooling import cool_down
from agents.governor import governor, restore_left_over
from agents.probes._text import Flat, Unknown
from agents.probes.clocks import Clocks
from agents.probes.thermal import Thermal
from agents.readings import Place, Reading, every_run, flat, take
from engine.contract.errors import InfraError, TooHot
from farm.conditions import Conditions
from farm.inventory import Device

log = logging.getLogger("lockstep.worker")


@dataclass
class Surroundings:
    """Wraps a run on ``agent``'s device. TooHot when it is not known to be cool in time, as ``conditions`` ask."""

    agent: Agent
    device: Device
    conditions: Conditions
    guard: Callable[[], None]
    notes: list[str] = field(default_factory=list)
    before: Flat = field(default_factory=dict)
    after: Flat = field(default_factory=dict)
    memory: Flat = field(default_factory=dict)
    _exits: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> Self:
        found = {} if self._behind_a_link else self._read()
        settled = self._settle(found)
        with ExitStack() as undo:
            if self.conditions.governor and self._own_chip("governor"):
                held = undo.enter_context(governor(self.agent.run_script, self.conditions.governor, self._place()))
                self.notes = held.notes = [*self.notes, *held.notes]
                settled = True
            if settled:
                found = self._read()
            self._exits = undo.pop_all()
        found.pop("peak", None)  # of whatever ran before
        self.before = self._told(found)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.__exit__(kind, error, trace)
        if kind is None:
            self.after = self._afterwards()

    def answer(self) -> dict[str, Any]:
        """As JSON, once the run is over: ``readings``, and the ``memory`` of the runner."""
        told = {"of": told_of(self.device), "before": self.before, "after": self.after, "notes": self.notes}
        memory = {"of": "runner under its emulator" if self.device.emulated else "runner", **self.memory}
        return {"readings": told, "memory": memory}

    def _settle(self, found: dict[str, Reading | Unknown]) -> bool:
        """Put back what a dead holder left, and wait until it is cool; True when the readings are old by then."""
        clocks, changed = found.get("clocks"), False
        if isinstance(clocks, Clocks) and clocks.left_over:
            self.notes += ["governors of an earlier run were put back"]
            self.notes += restore_left_over(self.agent.run_script, self._place())
            changed = True
        if self.conditions.cool_to is not None and self._own_chip("cool_to"):
            changed |= self._cool(self.conditions.cool_to)
        return changed

    def _cool(self, to_celsius: float) -> bool:
        cooled = cool_down(self._thermal, to_celsius, self.conditions.cool_seconds, guard=self.guard)
        if not cooled.cool:
            raise TooHot(
                f"{self.device.name}: {cooled.note}",
                hint="let it cool, ask for less (`conditions.cool_to`), or wait longer (`conditions.cool_seconds`)",
                device=self.device.name,
                celsius=cooled.celsius,
            )
        self.notes.append(f"waited for a cool chip: {cooled.note}")
        return cooled.waited_seconds > 0

    def _own_chip(self, asked: str) -> bool:
        own = told_of(self.device) == "device"
        if not own:
            self.notes.append(f"{asked}: not applied, the device is emulated or the host itself")
        return own

    def _thermal(self) -> Thermal | Unknown:
        found = take(self.agent.run_script, ["thermal"], self._place())["thermal"]
        assert isinstance(found, Thermal | Unknown)  # noqa: S101 - what the probe's parser gives
        return found

    def _read(self) -> dict[str, Reading | Unknown]:
        return take(self.agent.run_script, EMULATED_RUN if self._behind_a_link else every_run(), self._place())

    @property
    def _behind_a_link(self) -> bool:
        """An emulated device that is reached as a real one is: each of its processes is an emulator's start."""
        return self.device.link.emulated

    def _afterwards(self) -> Flat:
        """The run is over and its result is here: a device that is lost now does not undo it."""
        try:
            found = self._read()
            self.memory = flat({"peak": found.pop("peak")})
            return self._told(found)
        except InfraError as error:
            log.warning("device=%s no readings after the run: %s", self.device.name, error.message)
            return {"reason": "the device was lost after the run"}

    def _told(self, found: dict[str, Reading | Unknown]) -> Flat:
        told = flat(found)
        if told_of(self.device) == "device":
            return told
        return {_HOST_NAMES.get(name, name): value for name, value in told.items()}

    def _place(self) -> Place:
        return Place(self.agent.home)


#: What is worth a round trip to an emulated device: it has no temperature, battery or clocks of its own.
EMULATED_RUN = ("peak", "skew", "storage")
#: The temperature of the machine beneath an emulated chip is not the chip's.
_HOST_NAMES = {"chip_celsius": "host_celsius", "chip_sensor": "host_sensor", "chip_reason": "host_reason"}


def told_of(device: Device) -> str:
    """Whose temperature, clocks and battery are read: the ``device``'s own, or the ``host``'s beneath or itself."""
    return "device" if device.real and device.link.kind != "local" else "host"
