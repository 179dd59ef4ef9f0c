"""The layers of a run with several iterations are the first one's: a program around the recorder, no model needed."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from engine.native.build import NATIVE, compile_flags
from engine.toolchain import Toolchain

SOURCE = Path(__file__).with_name("check_recorder.cpp")


def test_digest_and_tensor_are_those_of_the_first_iteration(tmp_path):  # A24
    toolchain = Toolchain.ensure()
    program = tmp_path / "check"
    flags = [*compile_flags("x86-64", "canonical", toolchain), "-O0", "-fuse-ld=lld", f"-I{NATIVE}"]
    command = [str(toolchain.compiler), *flags, str(SOURCE), "-o", str(program)]
    built = subprocess.run(
        command, env=toolchain.environment(), capture_output=True, text=True, check=False, timeout=240
    )
    assert built.returncode == 0, built.stderr[-3000:]
    done = subprocess.run([str(program), str(tmp_path)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "first iteration\n")
    (kept,) = (tmp_path / "tensors").iterdir()
    assert struct.unpack("<2f", kept.read_bytes()) == (1.0, 2.0)
