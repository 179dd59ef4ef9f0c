"""A quick pilot with real models and engines, the page made of it, and the page that is in the repository."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from ci.cli.main import cli
from ci.sensitivity.page import kind_list, page
from ci.sensitivity.pilot import run_pilot
from ci.sensitivity.records import Pilot, document
from ci.sensitivity.trials import OURS
from consistency.faults import mutations
from engine.models.mutate import kinds

ROOT = Path(__file__).parents[3]


def test_faults_are_found_at_their_layer_and_healthy_engines_are_not_blamed(pilot: Pilot) -> None:
    counted = [trial for trial in pilot.mutants if pilot.effective(trial)]
    missed = [(trial.engine, trial.kind, trial.layer, trial.note) for trial in counted if not trial.exact[OURS]]
    # the smallest of the faults, weights of 16 bits, may stay below the bounds; no other may
    assert [entry for entry in missed if entry[1] != "half_weights"] == []
    assert len(counted) >= 25
    assert {trial.engine for trial in counted} == {"ONNX Runtime", "refrt"}
    assert [trial.note for trial in pilot.benign if trial.failed[OURS]] == []
    assert any(trial.differs for trial in pilot.benign)


def test_every_kind_that_these_models_can_have_was_tried(pilot: Pilot) -> None:
    assert {trial.kind for trial in pilot.mutants} == set(kinds()) - {"wrong_epsilon"}
    assert {trial.kind for trial in pilot.arrays} == set(mutations())
    # a tail of tiny numbers may be zeroed, and a number may lie on the grid of 16 bits, within the bounds
    assert {trial.kind for trial in pilot.arrays if not trial.failed[OURS]} <= {"half_precision", "zero_tail"}
    assert sum(trial.failed[OURS] for trial in pilot.arrays) >= 0.95 * len(pilot.arrays)


def test_all_judges_saw_the_same_and_the_others_are_blinder_or_cry_wolf(pilot: Pilot) -> None:
    assert pilot.judges == (OURS, "Polygraphy", "np.allclose", "cosine", "cosine + RMSE")
    found = {judge: sum(trial.failed[judge] for trial in pilot.mutants) for judge in pilot.judges}
    assert found["cosine"] < found["cosine + RMSE"] < found[OURS]
    assert any(trial.failed["np.allclose"] for trial in pilot.benign)


def test_the_page_lists_what_was_missed_with_its_reason(pilot: Pilot) -> None:
    first = next(trial for trial in pilot.mutants if pilot.effective(trial))
    blind = replace(first, failed={**first.failed, OURS: False}, exact={**first.exact, OURS: False}, note="too small")
    blamed = replace(pilot.benign[0], failed={**pilot.benign[0].failed, OURS: True}, note="named `x`")
    told = page(replace(pilot, mutants=(blind, *pilot.mutants[1:]), benign=(blamed, *pilot.benign[1:])))
    assert f"`{first.kind}@{first.layer}`: missed; too small" in told
    assert f"- {blamed.subject}, {blamed.engine}: named `x`" in told
    assert all(len(line) < 4000 for line in told.splitlines())


def test_the_trials_are_strict_json(pilot: Pilot) -> None:
    text = json.dumps(document(pilot), allow_nan=False)
    lost = [trial for trial in json.loads(text)["mutants"] if trial["change"] is None]
    assert lost
    assert "nan" in {trial["kind"] for trial in lost}


def test_the_page_of_the_repository_lists_the_faults_of_the_code() -> None:
    told = (ROOT / "docs" / "sensitivity.md").read_text(encoding="utf-8")
    assert kind_list() in told
    assert re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE) == [*kinds(), *mutations()]
    mutants, benign = (int(number) for number in re.findall(r"(\d+) mutants and (\d+) benign runs", told)[0])
    assert mutants >= 150
    assert benign >= 300


def test_the_list_on_the_command_line_is_the_page_s() -> None:
    done = CliRunner().invoke(cli, ["faults", "list"], standalone_mode=False)
    assert done.output == kind_list()
    assert "- `drop_bias`: the bias of the layer is zero" in done.output


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_whole_pilot_of_another_seed_reaches_the_aims() -> None:
    pilot = run_pilot(ROOT, 2, lambda line: None)
    counted = [trial for trial in pilot.mutants if pilot.effective(trial) and trial.kind != "half_weights"]
    found = [trial for trial in counted if trial.failed[OURS]]
    assert (len(pilot.mutants) >= 150, len(pilot.benign) >= 300) == (True, True)
    assert [trial.note for trial in pilot.benign if trial.failed[OURS]] == []
    assert len(found) >= 0.99 * len(counted)
    assert sum(trial.exact[OURS] for trial in found) >= 0.95 * len(found)
