"""A run's layers for other tools."""

import csv
import json
import math

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from ci.cli.export import command
from ci.export import annotate, layers_of
from engine.contract.errors import LockstepError, ModelError, UsageError


def row(layer, device="a53", case="one", **more):
    return {"case": case, "device": device, "layer": layer, "status": "pass", "max_abs": 0.25, "reason": "", **more}


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    rows = [row("y"), row("z", status="fail", max_abs=math.inf, reason='says "no", twice'), row("y", device="v1")]
    pq.write_table(pa.Table.from_pylist(rows), folder / "layers.parquet")
    return folder


@pytest.fixture
def model(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "z")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def invoke(*words):
    return CliRunner().invoke(command, list(map(str, words)), standalone_mode=False)


def test_csv_keeps_every_row_and_every_quote(run, tmp_path):
    assert invoke(tmp_path / "l.csv", "--run", run).return_value == 0
    with (tmp_path / "l.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [entry["layer"] for entry in rows] == ["y", "z", "y"]
    assert rows[1]["reason"] == 'says "no", twice'


def test_json_is_strict(run, tmp_path):
    invoke(tmp_path / "l.json", "--run", run, "--device", "a53")
    rows = json.loads((tmp_path / "l.json").read_text(), parse_constant=pytest.fail)
    assert [entry["max_abs"] for entry in rows] == [0.25, None]


def test_parquet_keeps_the_types(run, tmp_path):
    invoke(tmp_path / "l.parquet", "--run", run)
    assert pq.read_table(tmp_path / "l.parquet") == pq.read_table(run / "layers.parquet")


def test_each_node_carries_the_metrics_of_its_layer(run, model, tmp_path):
    assert annotate(model, layers_of(run, None, "a53"), tmp_path / "out.onnx") == 2
    relu, neg = onnx.load(tmp_path / "out.onnx").graph.node
    assert {entry.key: entry.value for entry in relu.metadata_props} == {
        "lockstep.status": "pass",
        "lockstep.max_abs": "0.25",
    }
    assert {entry.key for entry in neg.metadata_props} == {"lockstep.status", "lockstep.reason"}
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"))


def test_several_devices_are_told_apart(run, model, tmp_path):
    annotate(model, layers_of(run, None, None), tmp_path / "out.onnx")
    keys = {entry.key for entry in onnx.load(tmp_path / "out.onnx").graph.node[0].metadata_props}
    assert {"lockstep.a53.status", "lockstep.v1.status"} <= keys


def test_another_model_is_refused(run, model, tmp_path):
    table = pa.Table.from_pylist([row("elsewhere")])
    with pytest.raises(ModelError, match="none of the 1 layers is in it"):
        annotate(model, table, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["l.txt"], "unknown kind of file"),
        (["l.csv", "--case", "on"], "no case 'on'"),
        (["l.csv", "--device", "a54"], "did you mean"),
        (["l.csv", "--run", "nowhere"], "no layers of a finished run"),
        (["no/such/folder/l.csv"], "No such file or directory"),
    ],
)
def test_faults_are_named(run, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    result = invoke("--run", run, *words)
    assert isinstance(result.exception, UsageError)
    assert says in f"{result.exception.message} {result.exception.hint}"
    assert isinstance(result.exception, LockstepError)


def test_the_model_of_the_case_is_found_by_the_runs_suite(run, model, tmp_path):
    np.testing.assert_equal(invoke(tmp_path / "m.onnx", "--run", run).exception.exit_code, 2)  # no verdict.json
    assert invoke(tmp_path / "n.onnx", "--run", run, "--model", model, "--device", "a53").return_value == 0
