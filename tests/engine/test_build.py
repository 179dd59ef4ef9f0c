"""The build script on a tiny program in place of refrt: every ABI, really compiled and really run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.contract.errors import BuildError
from engine.native import build as script
from engine.native.build import TARGETS, build, compile_flags, main, operator_includes, source_hash
from engine.toolchain import Toolchain

CPUS = {
    "arm64": ("qemu-aarch64", "cortex-a53"),
    "arm64-sve": ("qemu-aarch64", "neoverse-v1"),
    "armv7": ("qemu-arm", "cortex-a9"),
    "riscv64": ("qemu-riscv64", "rv64"),
}
PROGRAM = """
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <rapidjson/reader.h>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include "ops/all.inc"
int twice(int x);
int main(int argc, char**) {
  std::string said = REFRT_VERSION;
  std::thread([&] { said += " thread"; }).join();
  try { throw std::runtime_error(" caught"); } catch (const std::exception& e) { said += e.what(); }
  volatile float a = 1.0f + 1.0f / 4096, b = a;
  const float product = a * b - 1.0f;   // contracted and plain results differ
  int big = 2147483646 + argc;
  if (argc > 1) big += argc;
  std::printf("%s %s %.8g %d %d\\n", said.c_str(), operator_name(), product, twice(big > 0), XXH3_64bits("a", 1) != 0);
}
"""


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tree" / "engine" / "native"
    (folder / "ops").mkdir(parents=True)
    (folder.parents[1] / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (folder / "ops" / "add.cpp").write_text('static const char* operator_name() { return "add"; }\n')
    (folder / "ops" / "conv.cpp").write_text("#error included by the kernel unit only\n")
    (folder / "unity_core.cpp").write_text(PROGRAM)
    (folder / "unity_kernels.cpp").write_text("int twice(int x);\nint twice(int x) { return 2 * x; }\n")
    monkeypatch.setattr(script, "NATIVE", folder)
    return folder


def run(program: Path, abi: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    prefix: list[str] = []
    if abi in CPUS:
        emulator, cpu = CPUS[abi]
        prefix = [str(Toolchain.locate().emulator(emulator)), "-cpu", cpu]
    return subprocess.run([*prefix, str(program), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.qemu
@pytest.mark.parametrize("abi", sorted(TARGETS))
def test_every_abi_builds_a_static_program_that_runs(abi: str, native: Path, tmp_path: Path) -> None:
    program = build(abi, "canonical", tmp_path / "out", Toolchain.locate())
    done = run(program, abi)
    assert done.stdout.startswith("1.2.3 thread caught add 0.00048828125 2 1"), done.stderr
    header = program.read_bytes()
    assert header[:4] == b"\x7fELF"
    assert header[16] == 2, "ET_EXEC: Android loads it without a linker"
    assert list((tmp_path / "out").iterdir()) == [program]


@pytest.mark.qemu
@pytest.mark.parametrize(("abi", "page"), [("arm64", 65536), ("x86-64", 16384)])
def test_segments_are_aligned_for_android(abi: str, page: int, native: Path, tmp_path: Path) -> None:
    data = build(abi, "canonical", tmp_path / "out", Toolchain.locate()).read_bytes()
    start, count = int.from_bytes(data[32:40], "little"), int.from_bytes(data[56:58], "little")
    headers = [data[start + 56 * index : start + 56 * (index + 1)] for index in range(count)]
    alignments = {int.from_bytes(header[48:56], "little") for header in headers if header[:4] == b"\x01\0\0\0"}
    assert alignments == {page}


@pytest.mark.qemu
def test_the_fast_flavour_contracts_and_the_canonical_one_does_not(native: Path, tmp_path: Path) -> None:
    tools = Toolchain.locate()
    done = run(build("arm64", "fast", tmp_path / "out", tools), "arm64")
    assert done.stdout.startswith("1.2.3 thread caught add 0.00048834085 2 1"), done.stderr
    assert "-ffp-contract=off" in compile_flags("arm64", "canonical", tools)
    fast = compile_flags("arm64", "fast", tools)
    assert "-ffp-contract=fast" in fast
    assert "-fassociative-math" in fast
    assert "-ffinite-math-only" not in fast


@pytest.mark.qemu
def test_the_sanitised_build_stops_at_undefined_behaviour(native: Path, tmp_path: Path) -> None:
    program = build("x86-64", "canonical", tmp_path / "out", Toolchain.locate(), sanitize=True)
    assert run(program, "x86-64").returncode == 0
    assert run(program, "x86-64", "overflow").returncode == -4, "SIGILL"


@pytest.mark.qemu
def test_a_compiler_error_reaches_the_user(native: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (native / "unity_kernels.cpp").write_text("int twice(int x) { return undeclared; }\n")
    with pytest.raises(BuildError, match="use of undeclared identifier 'undeclared'") as caught:
        build("x86-64", "canonical", tmp_path / "out", Toolchain.locate())
    assert caught.value.fields["exit_code"] == 1
    assert main(["--abi", "x86-64", "--out", str(tmp_path / "out")]) == 2
    assert "unity_kernels.cpp:1" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_a_new_operator_is_one_new_file(native: Path) -> None:
    before = source_hash(native)
    (native / "ops" / "abs.cpp").write_text("// abs\n")
    assert operator_includes(native) == '#include "ops/abs.cpp"\n#include "ops/add.cpp"\n'
    assert source_hash(native) != before


def test_an_unknown_abi_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--abi", "mips", "--out", "x"])
    assert caught.value.code == 2
    assert "riscv64" in capsys.readouterr().err
