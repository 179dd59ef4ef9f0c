"""Signs of life of whoever drives a sweep."""

import os

import pytest

from engine.contract.errors import InfraError
from farm import driving as module
from farm.driving import alone, driving
from farm.store import Store
from farm.store.runs import find_run
from farm.sweeps import begin, resume
from tests.waiting import wait_until

REQUEST = {"suites": ["smoke"], "engines": ["refrt"]}


def test_only_one_sweep_at_a_time_on_a_host_whose_name_stays(tmp_path):
    words = f"running already .process {os.getpid()}."
    with alone(tmp_path) as first, pytest.raises(InfraError, match=words), alone(tmp_path):
        pass
    with alone(tmp_path) as again, alone(tmp_path / "other") as other:
        assert first == again != other


def test_a_sweep_that_only_plans_gives_signs_of_life_until_it_is_left(store_url, monkeypatch):
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)
    with Store(store_url) as store:
        sweep = begin(store, "lab1/a", "c", REQUEST)
        with driving(store, sweep):
            wait_until(lambda: find_run(store, sweep.id).seen > sweep.seen)
            with pytest.raises(InfraError, match="is driven from lab1"):
                resume(store, "lab2/b", sweep.id)
        assert (find_run(store, sweep.id).status, find_run(store, sweep.id).driver) == ("open", "")
        assert resume(store, "lab2/b", sweep.id).driver == "lab2/b", "left in order: nobody need wait"


def test_who_was_silent_for_long_does_not_take_a_sweep_back_by_a_sign_of_life(store_url, monkeypatch):
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)
    ahead = [0.0]
    with Store(store_url) as store, Store(store_url, lambda: store.clock() + ahead[0]) as other:
        sweep = begin(store, "lab1/a", "c", REQUEST)
        ahead[0] = 3600.0
        taken = resume(other, "lab2/b", sweep.id)
        beats = []
        monkeypatch.setattr(module, "_touch", lambda *words, touch=module._touch: (touch(*words), beats.append(words)))
        with driving(store, sweep):
            wait_until(lambda: len(beats) >= 2)
        assert (find_run(store, sweep.id).driver, find_run(store, sweep.id).seen) == ("lab2/b", taken.seen)
