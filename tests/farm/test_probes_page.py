"""docs/probes.md is held to the code: every reading is named there, and its example is a case."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from agents.localshell import local_script
from agents.probes.battery import Battery
from agents.probes.fingerprint import Fingerprint
from agents.probes.peak import Peak
from agents.probes.thermal import Temperature, Thermal
from agents.readings import Place, every_run, flat, take
from farm.suites import Case

PAGE = (Path(__file__).parents[2] / "docs" / "probes.md").read_text()


def test_every_reading_stands_in_the_table() -> None:
    table = "\n".join(line for line in PAGE.splitlines() if line.startswith("| "))
    named = set(re.findall(r"`([a-z_]+)`", table))
    found = take(local_script, [*every_run(), "fingerprint"], Place("/"))
    found |= {
        "thermal": Thermal((Temperature("cpu", "chip", 39.6),)),
        "battery": Battery(1, "full", True, "good", 30.0),
        "peak": Peak(1, 1, 1),
    }
    told = {name for name in flat(found) if not name.endswith("_reason")}
    assert told - named == set()
    assert set(Fingerprint.__dataclass_fields__) <= named


def test_the_example_is_a_case() -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    case = Case(**yaml.safe_load(example[1])["cases"][0])
    assert case.conditions.cool_to == 38
    assert case.conditions.governor == "performance"
