from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.options import GateOptions, select
from engine.contract.errors import UsageError
from farm.engines import load_engine
from farm.inventory import load_fleet
from farm.suites import load_suite

REPOSITORY = Path(__file__).parents[2]
ASKED = GateOptions(root=REPOSITORY)


def chosen(asked: GateOptions, engine: str = "refrt"):
    fleet = load_fleet(REPOSITORY / "devices.yaml")
    return select(
        asked, fleet, load_suite(REPOSITORY / "suites" / "smoke.yaml"), load_engine(REPOSITORY / "engines", engine)
    )


def test_nothing_selected_means_everything() -> None:
    found = chosen(ASKED)
    assert len(found.devices) == 6
    assert len(found.cases) == 6
    assert found.not_tested == ()


@pytest.mark.parametrize(
    ("asked", "devices"),
    [
        (replace(ASKED, devices=("cortex-a53",)), {"cortex-a53"}),
        (replace(ASKED, chips=("rv64gc",)), {"riscv64"}),
        (replace(ASKED, tiers=("low",)), {"cortex-a9", "riscv64"}),
        (replace(ASKED, tiers=("low",), chips=("rv64gc",)), {"riscv64"}),
    ],
)
def test_what_is_deselected_is_listed_and_stays_required(asked: GateOptions, devices: set[str]) -> None:
    found = chosen(asked)
    assert {device.name for device, _ in found.devices} == devices
    assert len(found.required_devices) == 6
    left = {entry.name for entry in found.not_tested}
    assert left == set(found.required_devices) - devices
    assert all(entry.required for entry in found.not_tested)


def test_a_deselected_case_is_listed_and_required() -> None:
    found = chosen(replace(ASKED, cases=("vad-noise",)))
    assert [case.id for case in found.cases] == ["vad-noise"]
    assert {entry.name for entry in found.not_tested if entry.required} == {
        "orientation-0",
        "orientation-90",
        "orientation-180",
        "orientation-270",
        "vad-speech",
    }


def test_a_device_the_engine_has_no_build_for_is_said_and_not_required() -> None:
    found = chosen(ASKED, "ort-example")
    assert {device.name for device, _ in found.devices} == {"x86-64-v3", "x86-64-v1"}
    assert {entry.kind for entry in found.not_tested} == {"engine-abi"}
    assert not any(entry.required for entry in found.not_tested)
    assert "declares no build for armv7" in next(e.reason for e in found.not_tested if e.name == "cortex-a9")


def test_a_selection_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="leaves no device to test"):
        chosen(replace(ASKED, tiers=("high",), chips=("rv64gc",)))


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown chip 'neoverse': did you mean 'neoverse-v1'"):
        chosen(replace(ASKED, chips=("neoverse",)))
