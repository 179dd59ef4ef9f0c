"""The page on faults is what the suite tries, and the suite's choice covers what it must."""

from __future__ import annotations

import pytest

from tests.chaos import table
from tests.chaos.scenario import LINKS, MOMENTS, all_combinations, chosen, faults


def test_the_page_has_every_fault_and_moment_of_the_code_and_no_other() -> None:
    rows = [line.strip("|").split(" | ") for line in table.PAGE.read_text().splitlines() if line.startswith("| ")]
    head, *body = [[cell.strip() for cell in row] for row in rows]
    assert head == table.columns()
    assert [row[0] for row in body] == [fault.words for fault in faults().values()]
    for row, fault in zip(body, faults().values(), strict=True):
        tried = [moment for moment, cell in zip(MOMENTS, row[1:-1], strict=True) if cell != "–"]
        assert tried == [moment for moment in MOMENTS if moment in fault.moments]
        assert row[-1] == ", ".join(fault.links)


def test_the_pages_words_are_those_of_its_maker() -> None:
    assert table.PAGE.read_text().startswith(table.HEAD)


@pytest.mark.parametrize("seed", range(5))
def test_a_handful_has_every_fault_every_moment_and_every_link(seed: int) -> None:
    picked = chosen(20, seed)
    assert picked == chosen(20, seed)
    assert len(set(picked)) == 20
    assert {entry.fault for entry in picked} == set(faults())
    assert {entry.moment for entry in picked} == set(MOMENTS)
    assert {entry.link for entry in picked} == set(LINKS)


def test_a_combination_that_was_not_run_is_never_shown_as_survived(
    tmp_path: table.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    local, ssh = (entry for entry in all_combinations() if (entry.fault, entry.moment) == ("worker_killed", "running"))
    fault = faults()["worker_killed"]
    table.record(local, "pass", 1.25)
    assert table.cell("worker_killed", fault, "running") == table.NOT_RUN
    table.record(ssh, "pass", 2.25)
    assert table.cell("worker_killed", fault, "running") == "pass 2.2"
    table.forget(local)
    assert table.cell("worker_killed", fault, "running") == table.NOT_RUN
    assert table.cell("runner_crash", faults()["runner_crash"], "storing") == "–"
