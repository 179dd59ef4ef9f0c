import ast
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "ort-runner" / "ort_runner.py"


def test_the_example_needs_nothing_of_this_repository() -> None:
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(EXAMPLE.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy", "onnxruntime", "xxhash"}


class SharedBuffer:
    """A runtime that writes every result into the same buffer, as some do."""

    def __init__(self) -> None:
        self.buffer = np.zeros(4, np.float32)

    def get_outputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="y")]

    def run(self, names: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.buffer += 1
        return [self.buffer for _ in names]


def test_a18_a_later_run_does_not_change_an_earlier_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    runner = importlib.import_module("ort_runner")
    passes, kept = runner.plain_passes(SharedBuffer(), {}, 3)
    assert kept[0].tolist() == [1.0] * 4
    assert passes[0]["outputs"]["y"] == runner.digest(kept[0])
    assert len({entry["outputs"]["y"] for entry in passes}) == 3


def test_a24_the_layers_are_those_of_the_first_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    layered = importlib.import_module("ort_layers")
    engine = object.__new__(layered.Engine)
    engine.request, engine.inputs, engine.outputs = {}, {}, ["y"]
    engine.ops = {"conv": "Conv", "y": "Add"}
    engine.layers = list(engine.ops)
    monkeypatch.setattr(engine, "exposed", lambda names: SharedBuffer())
    passes, captured = engine.instrumented(3)
    assert {name: array.tolist() for name, array in captured.items()} == {"conv": [1.0] * 4, "y": [1.0] * 4}
    assert [entry["iteration"] for entry in passes] == [0, 1, 2]
    assert passes[0]["outputs"]["y"] == layered.plain.digest(captured["y"]) != passes[2]["outputs"]["y"]
