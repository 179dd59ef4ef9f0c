"""Checks of the machine: what a gate needs, whether it is here, and what to type when it is not."""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.contract.errors import LockstepError
from engine.places import cache_root, state_root
from engine.toolchain import EMULATORS, Toolchain, browser, emulator
from farm.valkey import server_binary

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 20
FREE_BYTES = 4 * 2**30
MEMORY_BYTES = 2 * 2**30
X86_64_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})
#: What the tiny programs leave with
ANSWER = 42
#: ELF machine, flags, and the code that leaves with ANSWER: one number, one system call
PROGRAMS = {
    "qemu-aarch64": (183, 0, struct.pack("<3I", 0xD2800540, 0xD2800BA8, 0xD4000001)),
    "qemu-arm": (40, 0x05000000, struct.pack("<3I", 0xE3A0002A, 0xE3A07001, 0xEF000000)),
    "qemu-riscv64": (243, 5, struct.pack("<3I", 0x02A00513, 0x05D00893, 0x00000073)),
    "qemu-x86_64": (62, 0, bytes.fromhex("bf2a000000b83c0000000f05")),
}


@dataclass(frozen=True)
class Check:
    """One finding: ``detail`` says what is here, ``next_step`` what to type when ``ok`` is False."""

    name: str
    ok: bool
    detail: str
    next_step: str = ""


def checks() -> list[Check]:
    """All findings, in the order in which they are worth mending. Changes nothing; takes about a second."""
    found = [python(), environment(), program("git", "apt-get install git"), program("make", "apt-get install make")]
    found += [compiler(), *(emulated(name) for name in EMULATORS), cpu_features(_cpu_flags()), broker(os.environ)]
    found += [writable("cache", cache_root, "LOCKSTEP_CACHE"), writable("state", state_root, "LOCKSTEP_STATE")]
    return [*found, disk(_existing(cache_root())), memory(_available_bytes()), clock(time.time()), chromium()]


def python() -> Check:
    """Python 3.11 or newer."""
    return Check("Python", sys.version_info >= (3, 11), platform.python_version(), "apt-get install python3.11")


def environment(root: Path = ROOT) -> Check:
    """Whether this runs in the environment that `make setup` made, and that was finished."""
    inside = Path(sys.prefix).resolve() == (root / ".venv").resolve()
    finished = (root / ".venv" / "setup-environment").is_file()
    detail = f"{sys.prefix}{'' if inside else ', not the .venv of this folder'}"
    return Check("environment", inside and finished, detail if finished else f"{detail}: not set up", "make setup")


def program(name: str, next_step: str) -> Check:
    """A program on the path."""
    path = shutil.which(name)
    return Check(name, path is not None, path or "not on the path", next_step)


def compiler() -> Check:
    """The unpacked compiler really starts with its own libraries."""

    def start() -> str:
        tools = Toolchain.locate()
        return _first_line([str(tools.compiler), "--version"], tools.environment())

    return _guarded("compiler", start)


def emulated(name: str) -> Check:
    """The emulator executes a program of its architecture."""

    def execute() -> str:
        machine, flags, code = PROGRAMS[name]
        path = emulator(name)
        with tempfile.TemporaryDirectory() as folder:
            tiny = Path(folder) / "tiny"
            tiny.write_bytes(elf(machine, flags, code, wide=name != "qemu-arm"))
            tiny.chmod(0o755)
            done = subprocess.run([path, tiny], capture_output=True, timeout=SECONDS, check=False)
        if done.returncode != ANSWER:
            raise OSError(f"{path} ran a program and left with {done.returncode}, not {ANSWER}")
        return _first_line([str(path), "--version"], dict(os.environ))

    return _guarded(name, execute)


def elf(machine: int, flags: int, code: bytes, *, wide: bool) -> bytes:
    """The smallest static program: one loaded segment that holds the headers and the code."""
    base, header, segment = 0x10000, *((64, 56) if wide else (52, 32))
    entry, size = base + header + segment, header + segment + len(code)
    identity = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    word = "Q" if wide else "I"
    head = struct.pack(
        f"<HHI{word}{word}{word}IHHHHHH", 2, machine, 1, entry, header, 0, flags, header, segment, 1, 0, 0, 0
    )
    if wide:
        load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    else:
        load = struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 0x1000)
    return identity + head + load + code


def cpu_features(flags: frozenset[str]) -> Check:
    """Whether the host can run the x86-64-v3 build natively."""
    missing = sorted(X86_64_V3 - flags)
    detail = f"lacks {', '.join(missing)}" if missing else "has all of x86-64-v3"
    step = "take another machine, or deselect the chip: lockstep gate --device … (the gate then exits 3)"
    return Check("processor", not missing, detail, step)


def broker(variables: Mapping[str, str]) -> Check:
    """The user's broker is left alone here; the embedded one must start."""
    if variables.get("LOCKSTEP_BROKER_URL") or variables.get("LOCKSTEP_BROKER_URL_FILE"):
        return Check("broker", ok=True, detail="LOCKSTEP_BROKER_URL names one; a gate tries it before it plans")
    return _guarded("broker", lambda: _first_line([str(server_binary()), "--version"], dict(os.environ)))


def writable(name: str, place: Callable[[], Path], variable: str) -> Check:
    """A folder of ours, or the nearest parent that exists, can be written."""
    step = f"make it writable, or set {variable} to a folder that is"
    try:
        path = place()
        with tempfile.TemporaryFile(dir=_existing(path)):
            return Check(f"{name} folder", ok=True, detail=str(path))
    except (OSError, RuntimeError) as error:
        return Check(f"{name} folder", ok=False, detail=f"cannot be written: {error}", next_step=step)


def disk(folder: Path, needed: int = FREE_BYTES) -> Check:
    """Room for tool chain, environment, builds and runs."""
    free = shutil.disk_usage(folder).free
    detail = f"{free / 2**30:.1f} GiB free at {folder}; {needed / 2**30:.0f} are needed from empty caches"
    return Check("disk", free >= needed, detail, "free some space, or set LOCKSTEP_CACHE to another disk")


def memory(available: int) -> Check:
    """Room for two compilers or two emulated runs."""
    detail = f"{available / 2**30:.1f} GiB available; {MEMORY_BYTES / 2**30:.0f} are needed"
    return Check("memory", available >= MEMORY_BYTES, detail, "end other programs, or add memory or swap")


def clock(now: float, root: Path = ROOT) -> Check:
    """Leases, certificates and expiry dates need a clock that is not far in the past."""
    earliest = (root / "requirements.lock").stat().st_mtime - 86400
    said = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    return Check("clock", now >= earliest, said, "set the clock (timedatectl set-ntp true)")


def chromium() -> Check:
    """Only `make test` needs the browser, so its absence is told and not counted."""
    try:
        path, variables = browser()
        return Check("browser", ok=True, detail=_first_line([str(path), "--version"], variables))
    except (LockstepError, OSError, subprocess.SubprocessError):
        return Check("browser", ok=True, detail="not here; only the tests need it, and `make test` fetches it")


def _guarded(name: str, ask: Callable[[], str]) -> Check:
    try:
        return Check(name, ok=True, detail=ask())
    except LockstepError as error:
        return Check(name, ok=False, detail=error.message, next_step=error.hint.removeprefix("type: "))
    except (OSError, subprocess.SubprocessError) as error:
        return Check(name, ok=False, detail=str(error), next_step="rm -r what is named above, then: make setup")


def _first_line(command: list[str], variables: Mapping[str, str]) -> str:
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=True)
    return done.stdout.strip().split("\n")[0]


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _cpu_flags() -> frozenset[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return frozenset(next((line.split(":")[1] for line in lines if line.startswith("flags")), "").split())


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
