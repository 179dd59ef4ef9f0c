"""The whole runner built to stop at undefined behaviour, through every test of the operators and of the session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.native.build import build
from engine.toolchain import Toolchain

HERE = Path(__file__).parent


@pytest.mark.long
def test_no_operator_and_no_session_relies_on_undefined_behaviour(tmp_path: Path) -> None:
    build("x86-64", "canonical", tmp_path, Toolchain.ensure(), sanitize=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not long", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(HERE / "ops"), str(HERE / "session")],
        env={**os.environ, "REFRT_UNDER_TEST": str(tmp_path / "refrt")},
        cwd=HERE.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
