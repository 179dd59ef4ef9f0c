"""Final outputs of two devices as tensors: fetched, known from a reference, or not at hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from ci.outputs import OutputTensors
from engine.digest import tensor_digest
from farm.store.blobs import BlobStore

A, B = np.float32([1, 2, 3]), np.float32([1, 2, 3.5])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))


def record(array, *, blob=True, dtype="float32"):
    kept = BlobStore.configured().put_bytes(array.tobytes()) if blob else "0" * 64
    return {
        **{"name": "y", "dtype": dtype, "shape": list(array.shape), "path": "0.bin"},
        **{"digest": tensor_digest(array), "blob": kept},
    }


def outcome(name, told, layers=()):
    return SimpleNamespace(device=SimpleNamespace(name=name), answer={"outputs": [told], "layers": list(layers)})


def tensors(a, b):
    return OutputTensors([a, b], (None, None))


def test_what_was_fetched_is_measured():
    stats = tensors(outcome("a", record(A)), outcome("b", record(B))).apart("a", "b", "y")
    assert (stats.max_abs, stats.worst_index, stats.differing) == (0.5, 2, 1)


def test_only_outputs_are_at_hand():
    assert tensors(outcome("a", record(A)), outcome("b", record(B))).apart("a", "b", "inner") is None


def test_bytes_that_are_gone_settle_nothing():
    assert tensors(outcome("a", record(A)), outcome("b", record(B, blob=False))).apart("a", "b", "y") is None


def test_an_output_that_was_another_among_the_layers_is_not_that_layer():
    other = outcome("b", record(B), [{"id": "y", "digest": "1" * 32}])
    assert tensors(outcome("a", record(A)), other).apart("a", "b", "y") is None


def test_unlike_types_are_not_measured():
    half = outcome("b", record(B.astype(np.float16), dtype="float16"))
    assert tensors(outcome("a", record(A)), half).apart("a", "b", "y") is None
