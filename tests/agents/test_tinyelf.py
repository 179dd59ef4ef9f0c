from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agents.tinyelf import tiny_program
from engine.contract.errors import UnsupportedError
from engine.toolchain import emulator

EMULATORS = {"arm64": "qemu-aarch64", "arm64-sve": "qemu-aarch64", "armv7": "qemu-arm", "riscv64": "qemu-riscv64"}


def run(folder: Path, abi: str, prefix: list[str]) -> subprocess.CompletedProcess[bytes]:
    program = folder / "tiny"
    program.write_bytes(tiny_program(abi, "0123456789abcdef"))
    program.chmod(0o755)
    return subprocess.run([*prefix, program], capture_output=True, timeout=30, check=False)


@pytest.mark.parametrize("abi", ["x86-64", "x86-64-v3"])
def test_it_prints_the_nonce_on_the_host(tmp_path: Path, abi: str) -> None:
    done = run(tmp_path, abi, [])
    assert (done.returncode, done.stdout) == (0, b"0123456789abcdef\n")


@pytest.mark.qemu
@pytest.mark.parametrize("abi", sorted(EMULATORS))
def test_it_prints_the_nonce_under_the_emulator_of_its_abi(tmp_path: Path, abi: str) -> None:
    done = run(tmp_path, abi, [str(emulator(EMULATORS[abi]))])
    assert (done.returncode, done.stdout) == (0, b"0123456789abcdef\n")


def test_an_abi_nobody_assembled_for_is_named() -> None:
    with pytest.raises(UnsupportedError, match="no preflight program for ABI 'mips'"):
        tiny_program("mips", "x")
