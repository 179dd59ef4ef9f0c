"""Emulated adb devices, started when a module of tests first asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.adbd import AdbDevice
from tests.agents.adbunit import Units, adb_units


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    with adb_units(tmp_path_factory.mktemp("units")) as started:
        yield started


@pytest.fixture
def device(units: Units) -> Iterator[AdbDevice]:
    unit = units.unit("x86-64")
    yield unit
    unit.mend()
