"""Makes ``tests.reports.sample`` importable however pytest is started, and gives run folders to the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.reports import parts


@pytest.fixture
def written(tmp_path: Path) -> Callable[[parts.RunSample], Path]:
    """Write a sample as a run folder and return the folder."""

    def write(run: parts.RunSample) -> Path:
        return run.write(tmp_path / "out" / "run")

    return write
