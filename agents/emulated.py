"""Emulated devices: a CPU emulator (qemu-user) with a chip of its own, or the host standing in for a lesser chip."""

from __future__ import annotations

import functools
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from agents.base import AgentSpec
from agents.host import HostAgent
from engine.contract.errors import DeviceUnavailable


@dataclass
class EmulatedAgent(HostAgent):
    """Runs programs under ``emulator -cpu CPU``; without an emulator, natively on the host."""

    emulator: Path | None = None
    cpu: str = ""
    prefix: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        if self.emulator is not None:
            self.prefix = (str(self.emulator), *(("-cpu", self.cpu) if self.cpu else ()))

    def facts(self) -> dict[str, str]:
        """The emulated CPU in place of the host's."""
        facts = super().facts()
        # what the host is made of says nothing of the chip and the product that are emulated
        facts |= dict.fromkeys(("soc", "product", "abis", "drivers", "gpu", "firmware"), "none (emulated)")
        if self.emulator is None:
            return {**facts, "emulator": "none (native on the host)"}
        version = _emulator_version(self.emulator)
        return {**facts, "cpu": f"{self.emulator.name} -cpu {self.cpu}", "cpu_features": "by CPU", "emulator": version}


@functools.cache
def _emulator_version(emulator: Path) -> str:
    try:
        done = subprocess.run([emulator, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.splitlines()[0].strip() if done.stdout else "unknown"


def make(spec: AgentSpec) -> EmulatedAgent:
    """The agent of an ``emulated`` link; ``DeviceUnavailable`` when its emulator is not on this host."""
    name = spec.link.get("emulator")
    program = spec.emulators.get(str(name)) if name else None
    if name and not program:
        raise DeviceUnavailable(f"{spec.name}: {name} is not installed", hint="type: make setup", device=spec.name)
    cpu = str(spec.link.get("cpu") or "")
    return EmulatedAgent(spec.name, spec.abi, root=spec.root, emulator=Path(program) if program else None, cpu=cpu)
