"""One quick pilot for the tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.sensitivity.pilot import run_pilot
from ci.sensitivity.records import Pilot


@pytest.fixture(scope="session")
def pilot() -> Pilot:
    """Seed 3, quick, undisturbed."""
    return run_pilot(Path(__file__).parents[3], 3, lambda line: None, quick=True)
