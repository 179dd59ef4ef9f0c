"""Every kernel against its plain version, natively under sanitizers and emulated on every other instruction set."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.native.build import NATIVE, TARGETS, compile_flags
from engine.toolchain import Toolchain

HERE = Path(__file__).parent
KERNELS = ("conv", "depthwise", "lstm", "matmul")
# What all chips and compilers gave when the kernels were written. It changes only when canonical bits change on
# purpose, or when the checks do.
DIGEST = "c8a57f2bc1dbdec0"
CPUS = {
    "arm64": ("qemu-aarch64", "cortex-a53"),
    "arm64-sve": ("qemu-aarch64", "neoverse-v1"),
    "armv7": ("qemu-arm", "cortex-a9"),
    "riscv64": ("qemu-riscv64", "rv64"),
}


def sources(folder: Path) -> list[str]:
    """One translation unit of the checks and all kernels, and where their headers are."""
    unit = folder / "unit.cpp"
    files = [*sorted(HERE.glob("*.cpp")), *(NATIVE / "kernels" / f"{name}.cpp" for name in KERNELS)]
    unit.write_text("".join(f'#include "{path}"\n' for path in files))
    return [f"-I{NATIVE / 'kernels'}", f"-I{NATIVE}", f"-I{HERE}", str(unit)]


def run(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return str(done.stdout)


def check_abi(abi: str, folder: Path, *flags: str) -> str:
    toolchain = Toolchain.ensure()
    program = folder / "checks"
    command = [str(toolchain.compiler), *compile_flags(abi, "canonical", toolchain), *flags, "-fuse-ld=lld"]
    run([*command, *sources(folder), "-o", str(program)], env=toolchain.environment())
    prefix: list[str] = []
    if abi in CPUS:
        emulator, cpu = CPUS[abi]
        prefix = [str(toolchain.emulator(emulator)), "-cpu", cpu]
    return run([*prefix, str(program)])


def test_host_under_undefined_behaviour_checks(tmp_path):
    trap = ("-fsanitize=undefined,bounds,float-cast-overflow", "-fsanitize-trap=all")
    assert check_abi("x86-64", tmp_path, *trap).endswith(f"failures 0 digest {DIGEST}\n")


def test_avx2(tmp_path):
    assert check_abi("x86-64-v3", tmp_path).endswith(f"failures 0 digest {DIGEST}\n")


def test_host_under_address_checks(tmp_path):
    """Every read and write inside its buffer. The checks need a dynamic program, on the machine's own C library."""
    toolchain = Toolchain.ensure()
    program, unit = tmp_path / "checks", tmp_path / "checks.o"
    compiler, checked = str(toolchain.compiler), ("-fsanitize=address", "-fno-sanitize-recover=all")
    flags = [flag for flag in compile_flags("x86-64", "canonical", toolchain) if flag != "-static"]
    run([compiler, *flags, *checked, "-c", *sources(tmp_path), "-o", str(unit)], env=toolchain.environment())
    libraries = toolchain.root / "usr" / "lib" / "x86_64-linux-gnu"
    # The tree's libc.so and libm.so name files of a machine with libc6-dev; these name the machine's C library itself.
    machine = Path("/lib/x86_64-linux-gnu")
    rest = f"{libraries / 'libc_nonshared.a'} AS_NEEDED ( /lib64/ld-linux-x86-64.so.2 )"
    (tmp_path / "libc.so").write_text(f"GROUP ( {machine / 'libc.so.6'} {rest} )\n")
    (tmp_path / "libm.so").write_text(f"GROUP ( {machine / 'libm.so.6'} )\n")
    found = [f"-B{libraries}", f"-L{tmp_path}", f"-L{libraries}", f"--gcc-toolchain={toolchain.root / 'usr'}"]
    link = ["--target=x86_64-linux-gnu", *found, *checked, "-static-libstdc++", "-fuse-ld=lld", "-pthread"]
    run([compiler, *link, str(unit), "-o", str(program)], env=toolchain.environment())
    assert run([str(program)]).endswith(f"failures 0 digest {DIGEST}\n")


@pytest.mark.qemu
@pytest.mark.parametrize("abi", sorted(set(TARGETS) - {"x86-64", "x86-64-v3"}))
def test_emulated(abi, tmp_path):
    assert check_abi(abi, tmp_path).endswith(f"failures 0 digest {DIGEST}\n")


def test_fast_flavour_has_other_bits(tmp_path):
    """The divergent build must diverge, or nobody learns whether the comparator sees anything."""
    toolchain = Toolchain.ensure()
    program = tmp_path / "checks"
    command = [str(toolchain.compiler), *compile_flags("x86-64-v3", "fast", toolchain), "-fuse-ld=lld"]
    run([*command, *sources(tmp_path), "-o", str(program)], env=toolchain.environment())
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1
    assert "matmul: raw result" in done.stdout
    assert "ULP off" in done.stdout or "lstm" in done.stdout
