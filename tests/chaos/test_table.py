"""The page on faults is what the suite tries, and the suite's choice covers what it must."""

from __future__ import annotations

import pytest

from tests.chaos import table
from tests.chaos.scenario import LINKS, MOMENTS, all_combinations, chosen, faults, kinds, share


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


@pytest.mark.parametrize("seed", range(10))
def test_a_handful_has_every_kind_of_fault_and_every_moment_over_every_link(seed: int) -> None:
    picked = chosen(20, seed)
    assert picked == chosen(20, seed)
    assert len(set(picked)) == 20
    known = kinds()
    assert {known[entry.fault] for entry in picked} == set(known.values())
    assert {(entry.moment, entry.link) for entry in picked} == {(moment, link) for moment in MOMENTS for link in LINKS}


def test_of_faults_that_are_one_to_a_handful_each_has_its_turn() -> None:
    assert {entry.fault for seed in range(10) for entry in chosen(20, seed)} == set(faults())


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_the_parts_of_a_whole_run_leave_nothing_out_and_do_nothing_twice(parts: int) -> None:
    shares = [share(number, parts) for number in range(1, parts + 1)]
    assert sorted(entry for one in shares for entry in one) == sorted(all_combinations())
    assert all({entry.link for entry in one} == set(LINKS) for one in shares)


def test_a_combination_that_was_not_run_is_never_shown_as_survived(
    tmp_path: table.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "RESULTS", tmp_path)
    links = [entry for entry in all_combinations() if (entry.fault, entry.moment) == ("worker_killed", "running")]
    fault = faults()["worker_killed"]
    for number, entry in enumerate(links):
        assert table.cell("worker_killed", fault, "running") == table.NOT_RUN
        table.record(entry, "pass", 1.25 + number)
    assert table.cell("worker_killed", fault, "running") == "pass 3.2"
    table.forget(links[0])
    assert table.cell("worker_killed", fault, "running") == table.NOT_RUN
    assert table.cell("runner_crash", faults()["runner_crash"], "storing") == "–"
