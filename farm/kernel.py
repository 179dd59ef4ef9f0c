"""Builds the comparison's compiled kernel for this host and hands it to ``consistency``."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path

from consistency.metrics import kernel
from engine.contract.errors import BuildError, LockstepError
from engine.locking import exclusive
from engine.places import cache_root
from engine.toolchain import Toolchain

SOURCE = Path(kernel.__file__).resolve().parents[1] / "native" / "measure.c"
# No contraction: the sums must have the bits of the numpy form. psabi: no vector crosses the library's border.
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-nostdlib", "-ffp-contract=off", "-fno-math-errno", "-fuse-ld=lld")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-psabi")
AVX2 = "-march=x86-64-v3"


def install() -> bool:
    """Measure with the compiled kernel from now on; False, and numpy stays, where this host cannot have it."""
    if kernel.loaded() is None:
        try:
            kernel.use(build(Toolchain.locate()))
        except (LockstepError, OSError, AttributeError):
            return False
    return True


def build(toolchain: Toolchain) -> Path:
    """The library in the cache, compiled unless it is there. ``BuildError``; only hosts with x86-64 have one."""
    if platform.machine() != "x86_64":
        raise BuildError(f"no comparison kernel for {platform.machine()}", hint="numpy measures the same, more slowly")
    flags = [*FLAGS, *WARNINGS, *([AVX2] if _has_avx2() else [])]
    key = hashlib.sha256(b"\0".join([SOURCE.read_bytes(), *map(str.encode, flags), toolchain.identity.encode()]))
    folder = cache_root() / "builds" / f"measure-{key.hexdigest()[:16]}"
    library = folder / "measure.so"
    if library.is_file():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "lock"):
        if not library.is_file():
            _compile(toolchain, flags, library)
    return library


def _compile(toolchain: Toolchain, flags: list[str], library: Path) -> None:
    part = library.with_suffix(f".{os.getpid()}.part")
    compiler = toolchain.compiler.with_name("clang")
    command = [str(compiler), "--target=x86_64-linux-gnu", f"--sysroot={toolchain.root}", *flags]
    done = subprocess.run(
        [*command, str(SOURCE), "-o", str(part)],
        env=toolchain.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(
            f"the compiler left with {done.returncode}:\n{done.stderr.strip()[-2000:]}",
            hint=f"mend {SOURCE.name}",
            exit_code=done.returncode,
        )
    part.replace(library)


def _has_avx2() -> bool:
    try:
        return " avx2 " in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
