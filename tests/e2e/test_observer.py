"""A runtime in which looking changes the result: ONNX Runtime fuses, and does not where layers are shown."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from tests.e2e.bench import HOST, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.timeout(600)]

LAYER = "p2o.pd_op.conv2d.9.0"


def test_layers_that_cannot_be_dumped_are_judged_alone(bench: Bench) -> None:
    words = ("--engine", "ort-layers", "--devices", bench.fleet(HOST), "--case", "orientation-0")
    done = bench.gate(*words, "--inject", f"scale_weights@{LAYER}")
    assert done.exit_code == 1, done.text
    entry = done.case("orientation-0", "host")
    assert "observer_effect" in entry["notes"]
    assert entry["first_deviating_layers"] == [LAYER]
    assert "it introduces this itself" in entry["reason"]
    rows = pq.read_table(done.out / "latest" / "layers.parquet").to_pylist()
    blamed = [row["layer"] for row in rows if row["introduced"]]
    assert blamed == [LAYER], "every later layer is within its bounds alone, or was not run"
    told = [row["reason"] for row in rows if row["status"] == "fail"]
    assert any("indirect: dumping the layers changes the result" in reason for reason in told)
    assert any("it only inherits" in reason for reason in told)
