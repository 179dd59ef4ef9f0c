"""Readings of a device: several probes joined in one round trip, parsed here.

Each probe's answer stands below a line that begins with a word drawn for this trip, so that nothing a device prints
can be taken for another probe's answer.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from agents import probes
from agents.base import Completed
from agents.probes._text import Flat, Unknown
from agents.probes.skew import DeviceClock

SECONDS = 60.0

# $1 the word, $2 $3 the roots of proc and sysfs, $4 the device's folder, $5 a process, $6 whether to ask meminfo.
# Commands of the device that hang are ended after 10 s, where it has a command for that.
_BEGIN = r"""
mark=$1 proc=$2 sys=$3 folder=$4 pid=$5 meminfo=$6
LC_ALL=C; export LC_ALL
exec 2>/dev/null
bounded() { if command -v timeout >/dev/null; then timeout 10 "$@"; else "$@"; fi; }
value() {
    if [ -r "$1" ]; then got=; read -r got <"$1" || [ -n "$got" ] || got='!read error'
    elif [ -e "$1" ]; then got='!permission denied'
    else got='!not there'; fi
}
now() { date +%s%N || date +%s; }
"""


class Reading(Protocol):
    """What a probe's parser gives."""

    def flat(self) -> Flat:
        """As JSON."""
        ...


class RunScript(Protocol):
    """Runs a constant shell script on the device: ``Agent.run_script``."""

    def __call__(self, text: str, *arguments: str, seconds: float) -> Completed:
        """Arguments are ``$1 $2 …``; DeviceUnavailable when the device does not answer within ``seconds``."""
        ...


@dataclass(frozen=True)
class Place:
    """Where probes look: the device's folder, and the roots of its proc and sysfs file systems."""

    folder: str
    proc: str = "/proc"
    sys: str = "/sys"


@functools.cache
def all_probes() -> Mapping[str, ModuleType]:
    """Every probe by name, found by its file."""
    names = [entry.name for entry in pkgutil.iter_modules(probes.__path__) if not entry.name.startswith("_")]
    return {name: importlib.import_module(f"agents.probes.{name}") for name in sorted(names)}


@functools.cache
def every_run() -> tuple[str, ...]:
    """The probes that are read before and after each run."""
    return tuple(name for name, probe in all_probes().items() if probe.EVERY_RUN)


@functools.cache
def joined(names: tuple[str, ...]) -> str:
    """One constant script of several probes: each below its line; the clock again at the end.

    Processes are what costs time on a slow device: a probe starts as few as it can, and there are no subshells.
    """
    parts = [_BEGIN]
    for name in names:
        parts.append(f'echo "$mark {name}"\n{all_probes()[name].SCRIPT}')
    if "skew" in names:
        parts.append('echo "$mark skew"\nnow\n')
    parts.append('echo "$mark end"\n')
    return "".join(parts)


def take(
    run: RunScript,
    names: Iterable[str],
    place: Place,
    *,
    pid: int = 0,
    meminfo: bool = False,
    clock: Callable[[], int] = time.time_ns,
) -> dict[str, Reading | Unknown]:
    """Read the named probes in one round trip. DeviceUnavailable when the device is gone; else nothing is raised.

    ``pid`` is whose memory is read; ``meminfo`` asks Android's service for it too (slow, and it disturbs).
    """
    wanted = tuple(sorted(names))
    mark = secrets.token_hex(8)
    sent = clock()
    place_arguments = (place.proc, place.sys, place.folder, str(pid), "1" if meminfo else "")
    done = run(joined(wanted), mark, *place_arguments, seconds=SECONDS)
    received = clock()
    told = answers(done.stdout.decode(errors="replace"), mark)
    found: dict[str, Reading | Unknown] = {}
    for name in wanted:
        reading = all_probes()[name].parse(told[name]) if name in told else Unknown("its answer did not arrive")
        found[name] = reading.against(sent, received) if isinstance(reading, DeviceClock) else reading
    return found


def answers(text: str, mark: str) -> dict[str, str]:
    """What stands below each of the trip's lines; of a name that comes twice, one after the other."""
    found: dict[str, str] = {}
    for part in text.split(f"{mark} ")[1:]:
        name, _, answer = part.partition("\n")
        name = name.strip("\r")
        found[name] = found.get(name, "") + answer
    return found


def flat(readings: Mapping[str, Reading | Unknown]) -> Flat:
    """All readings as one flat JSON object; an unknown one is null with ``NAME_reason``."""
    told: Flat = {}
    for name, reading in readings.items():
        told |= {name: None, f"{name}_reason": reading.reason} if isinstance(reading, Unknown) else reading.flat()
    return told
