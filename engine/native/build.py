"""Builds `refrt` for one ABI: ``python -m engine.native.build --abi ABI --flavour canonical|fast --out DIR``.

Two translation units, static binaries, the packaged tool chain only (``engine/toolchain.py``). Every ABI and compiler
flag is in the tables below; ``--sanitize`` builds the host variant that stops at undefined behaviour.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from engine.contract.errors import BuildError, LockstepError
from engine.toolchain import Toolchain

NATIVE = Path(__file__).resolve().parent
KERNEL_OPS = frozenset({"conv.cpp", "matmul.cpp", "lstm.cpp"})  # unity_kernels.cpp includes these itself
SOURCE_SUFFIXES = frozenset({".cpp", ".h", ".inc"})

COMMON = (
    *("-std=c++17", "-O2", "-fno-math-errno", "-static", "-pthread"),
    *("-Wall", "-Wextra", "-Werror"),
)
CANONICAL = ("-DREFRT_FLAVOUR_CANONICAL", "-ffp-contract=off")
# As vendors build: contraction and reassociation. Not -ffinite-math-only, which would delete the non-finite checks.
FAST = (
    *("-DREFRT_FLAVOUR_FAST", "-ffp-contract=fast", "-fassociative-math", "-freciprocal-math"),
    *("-fno-signed-zeros", "-fno-trapping-math"),
)
FLAVOURS = {"canonical": CANONICAL, "fast": FAST}
# A trap needs no run-time library, so the sanitised binary stays static. SIGILL marks undefined behaviour.
SANITIZE = (
    *("-g", "-fsanitize=undefined,bounds,float-cast-overflow", "-fsanitize-trap=all"),
    f"-fsanitize-ignorelist={NATIVE / 'sanitize.ignore'}",
)


@dataclass(frozen=True)
class Target:
    """One ABI: the compiler's triple, its machine flags, and the alignment of loaded segments in bytes."""

    triple: str
    machine: tuple[str, ...]
    page: int


# Android loads static programs with 16 KiB pages, and on Arm with up to 64 KiB.
TARGETS = {
    "x86-64": Target("x86_64-linux-gnu", ("-march=x86-64",), 16384),
    "x86-64-v3": Target("x86_64-linux-gnu", ("-march=x86-64-v3",), 16384),
    "arm64": Target("aarch64-linux-gnu", ("-march=armv8-a",), 65536),
    "arm64-sve": Target("aarch64-linux-gnu", ("-march=armv8.4-a+sve", "-msve-vector-bits=256"), 65536),
    # VFP and not NEON: armv7's NEON flushes subnormal numbers to zero
    "armv7": Target("arm-linux-gnueabihf", ("-march=armv7-a", "-mfpu=vfpv3-d16", "-mfloat-abi=hard"), 65536),
    "riscv64": Target("riscv64-linux-gnu", ("-march=rv64gc",), 16384),
}


def source_hash(native: Path) -> str:
    """SHA-256 over the paths and bytes of all C++ sources: what a binary tells about its own origin."""
    digest = hashlib.sha256()
    for path in sorted(native.rglob("*")):
        if path.suffix in SOURCE_SUFFIXES and path.is_file():
            digest.update(f"{path.relative_to(native).as_posix()}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def operator_includes(native: Path) -> str:
    """The generated ``ops/all.inc``: one include per operator file, so that a new operator is one new file."""
    names = sorted(path.name for path in (native / "ops").glob("*.cpp") if path.name not in KERNEL_OPS)
    return "".join(f'#include "ops/{name}"\n' for name in names)


def build(abi: str, flavour: str, out: Path, toolchain: Toolchain, *, sanitize: bool = False) -> Path:
    """Compile and link ``out/refrt``. Raises BuildError with the compiler's words."""
    out.mkdir(parents=True, exist_ok=True)
    target = TARGETS[abi]
    with tempfile.TemporaryDirectory(prefix="refrt-") as scratch:
        generated = Path(scratch) / "gen"
        (generated / "ops").mkdir(parents=True)
        (generated / "ops" / "all.inc").write_text(operator_includes(NATIVE))
        flags = [*compile_flags(abi, flavour, toolchain, sanitize=sanitize), f"-I{generated}", f"-I{NATIVE}"]
        objects = []
        for unit in sorted(NATIVE.glob("unity_*.cpp")):
            objects.append(Path(scratch) / f"{unit.name}.o")
            _run([*flags, "-c", str(unit), "-o", str(objects[-1])], toolchain)
        program = out / "refrt.new"
        link = [f"--sysroot={toolchain.root}", f"--target={target.triple}", "-static", "-pthread", "-fuse-ld=lld"]
        link += ["-g" if sanitize else "-s", f"-Wl,-z,max-page-size={target.page}"]
        _run([*link, *map(str, objects), "-o", str(program)], toolchain)
    return program.replace(out / "refrt")


def compile_flags(abi: str, flavour: str, toolchain: Toolchain, *, sanitize: bool = False) -> list[str]:
    """All flags of a translation unit but its include folders."""
    target = TARGETS[abi]
    defines = [f'-DREFRT_VERSION="{_version()}"', f'-DREFRT_SOURCE_HASH="{source_hash(NATIVE)}"']
    flags = [f"--target={target.triple}", f"--sysroot={toolchain.root}", *COMMON, *target.machine, *FLAVOURS[flavour]]
    return [*flags, *defines, *(SANITIZE if sanitize else ())]


def _version() -> str:
    project = tomllib.loads((NATIVE.parents[1] / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _run(arguments: list[str], toolchain: Toolchain) -> None:
    command = [str(toolchain.compiler), *arguments]
    done = subprocess.run(command, env=toolchain.environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(
            f"the compiler left with {done.returncode}:\n{done.stderr.strip()[-4000:]}",
            hint="mend the source named above",
            command=" ".join(command),
            exit_code=done.returncode,
            stderr=done.stderr[-4000:],
        )


def main(arguments: list[str] | None = None) -> int:
    """Command line; 0 or 2, the words of what went wrong on stderr."""
    parser = argparse.ArgumentParser(prog="python -m engine.native.build", description=__doc__.splitlines()[0])
    parser.add_argument("--abi", required=True, choices=sorted(TARGETS))
    parser.add_argument("--flavour", default="canonical", choices=sorted(FLAVOURS))
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--sanitize", action="store_true", help="stop at undefined behaviour (SIGILL)")
    options = parser.parse_args(arguments)
    try:
        toolchain = Toolchain.ensure(lambda line: print(line, file=sys.stderr))
        build(options.abi, options.flavour, options.out, toolchain, sanitize=options.sanitize)
    except LockstepError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
