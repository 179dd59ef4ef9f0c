from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.shells import NAMES, Shell, shell_named


@pytest.fixture
def sample() -> Callable[[str], str]:
    """What a device printed, by file name."""
    return lambda name: (Path(__file__).parent / "samples" / name).read_bytes().decode()


@pytest.fixture(params=NAMES)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return shell_named(request.param, tmp_path / "tools")
