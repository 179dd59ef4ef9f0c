import json

import numpy as np
import pytest
import xxhash

from ci.captures import read_capture
from engine.contract.errors import LockstepError, UsageError
from engine.contract.result import NonFinite
from engine.contract.trace import Summary, Trace, TraceLayer


def save_trace(folder, layers):
    """``layers``: (id, op, inputs, array)."""
    (folder / "tensors").mkdir(parents=True)
    entries = []
    for name, op, inputs, values in layers:
        digest = xxhash.xxh3_128(values.tobytes()).hexdigest()
        (folder / "tensors" / digest).write_bytes(values.tobytes())
        entries.append(
            TraceLayer(
                name, op, values.dtype.name, values.shape, digest, inputs, NonFinite(0, 0, 0), Summary(1.0, 1.0, 1.0)
            )
        )
    Trace("golden", "test", tuple(entries), (), folder).save()
    return folder


def edit(folder, **changes):
    document = json.loads((folder / "trace.json").read_text())
    document["layers"][0].update(changes)
    (folder / "trace.json").write_text(json.dumps(document))


@pytest.fixture
def folder(tmp_path):
    return save_trace(tmp_path / "t", [("conv", "Conv", ("x",), np.arange(4, dtype=np.float32))])


def test_a_layer_comes_with_its_graph(folder):
    held = read_capture(folder).tensors["conv"]()
    assert (held.op, held.inputs, held.values.tolist()) == ("Conv", ("x",), [0, 1, 2, 3])


def test_content_is_checked_against_its_digest(folder):
    (file,) = (folder / "tensors").iterdir()
    file.write_bytes(np.ones(4, np.float32).tobytes())
    with pytest.raises(UsageError, match="does not have the digest"):
        read_capture(folder).tensors["conv"]()


def test_bytes_that_are_not_kept_are_not_compared(folder):
    (file,) = (folder / "tensors").iterdir()
    file.unlink()
    held = read_capture(folder).tensors["conv"]()
    assert held.values is None
    assert "only its digest" in held.reason
    assert held.inputs == ("x",)


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "../../../etc/passwd"},
        {"digest": 7},
        {"shape": [-4]},
        {"shape": ["4"]},
        {"id": None},
        {"inputs": [1]},
        {"shape": 4},
        {"nonfinite": []},
    ],
)
def test_a_hostile_index_is_refused(folder, changes):
    edit(folder, **changes)
    with pytest.raises(LockstepError) as told:
        read_capture(folder)
    assert told.value.hint


def test_a_size_that_is_not_the_shape_is_refused(folder):
    edit(folder, shape=[5])
    with pytest.raises(UsageError, match=r"16 bytes where float32\[5\] needs 20"):
        read_capture(folder).tensors["conv"]()
