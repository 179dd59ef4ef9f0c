"""Every kind of fault at every layer of the voice model that takes it: each is caught at that very layer."""

from __future__ import annotations

import onnx
import pytest

from engine.models.fetch import fetch_model
from engine.models.mutate import valid_targets
from engine.places import cache_root
from farm.suites import load_suite
from tests.e2e.bench import REPOSITORY, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.long, pytest.mark.timeout(1800)]


def test_every_fault_is_caught_at_its_layer(bench: Bench) -> None:
    suite = load_suite(REPOSITORY / "suites" / "smoke.yaml")
    entry = next(file for file in suite.model_files if file.id == "vad")
    model = onnx.load(fetch_model(entry, cache_root(), lambda line: None))
    missed = []
    for kind, layers in valid_targets(model).items():
        for layer in layers:
            done = bench.gate("--inject", f"{kind}@{layer}", "--device", "x86-64-v3", "--case", "vad-speech", "--quiet")
            found = done.case("vad-speech", "x86-64-v3")["first_deviating_layer"]
            if (done.exit_code, found) != (1, layer):
                missed.append((kind, layer, done.exit_code, found))
    assert missed == []
