"""The model file is untrusted: whatever its bytes, the runner says what is wrong and leaves with 2, 3 or 4."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from engine.contract.request import Limits
from engine.models.export import export_refrt
from engine.models.flatfile import HEADER_BYTES

SECTIONS = ("strings", "tensors", "nodes", "layers", "ends", "weights")


class Sample(bytes):
    """The bytes of a good file; short when a failing example is printed."""

    def __repr__(self) -> str:
        return f"Sample of {len(self)} bytes"


def sample(folder: Path) -> Sample:
    node = helper.make_node
    weights = np.linspace(-1, 1, 4 * 2 * 3 * 3).astype(np.float32).reshape(4, 2, 3, 3)
    nodes = [
        node("Conv", ["x", "w", "b"], ["conv"], pads=[1, 1, 1, 1], group=1),
        node("Relu", ["conv"], ["relu"]),
        node("Pad", ["relu", "pads"], ["padded"], mode="reflect"),
        node("Transpose", ["padded"], ["turned"], perm=[0, 2, 3, 1]),
        node("Softmax", ["turned"], ["soft"], axis=-1),
        node("Concat", ["soft", "soft"], ["twice"], axis=1),
        node("Flatten", ["twice"], ["flat"]),
        node("MatMul", ["flat", "m"], ["y"]),
    ]
    initial = [
        numpy_helper.from_array(weights, "w"),
        numpy_helper.from_array(np.arange(4, dtype=np.float32), "b"),
        numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], dtype=np.int64), "pads"),
        numpy_helper.from_array(np.ones((2 * 7 * 7 * 4, 3), dtype=np.float32), "m"),
    ]
    graph = helper.make_graph(
        nodes,
        "sample",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        initial,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    export_refrt(model, {}, folder / "m.refrt")
    return Sample((folder / "m.refrt").read_bytes())


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return sample(tmp_path_factory.mktemp("sample"))


@pytest.fixture
def load(refrt):
    """Run a file of these bytes; never a signal, never silence."""
    requests: list[str] = []
    feeds = {"x": np.ones((1, 2, 5, 5), dtype=np.float32)}

    def run(data: bytes):
        path = refrt.folder / "model.refrt"
        path.write_bytes(data)
        if not requests:
            requests.append(refrt.request(path, feeds, limits=Limits(seconds=5.0)).to_json())
        done = refrt.send(requests[0])
        assert done.returncode in (0, 2, 3, 4), (done.returncode, done.stderr)
        if done.returncode:
            assert done.stderr.startswith("refrt: ")
            assert done.stderr.count("\n") == 1
            assert not (refrt.folder / "out" / "result.json").exists()
        return done

    return run


def section_of(data: bytes, name: str) -> tuple[int, int]:
    return struct.unpack_from("<QQ", data, 24 + 16 * SECTIONS.index(name))


def test_the_sample_itself_runs(load, good):
    assert load(good).returncode == 0


def test_truncation_at_every_border(load, good):
    borders = {0, 7, 8, HEADER_BYTES - 1, HEADER_BYTES, len(good) - 1}
    for name in SECTIONS:
        offset, size = section_of(good, name)
        borders |= {offset, offset + 1, offset + size // 2, offset + size - 1}
    for border in sorted(borders):
        done = load(good[:border])
        assert done.returncode == 2
        assert "model model.refrt: " in done.stderr


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_that_shrank_or_moved(load, good, name):
    at = 24 + 16 * SECTIONS.index(name)
    offset, size = section_of(good, name)
    moved = [(offset, 2**63), (2**63, size), (offset + 1, size)]
    shrunk = [(offset, size // 2), (offset, 0), (offset + 64, size)]
    for entry in moved if name == "layers" else moved + shrunk:  # fewer layers are no contradiction
        data = bytearray(good)
        struct.pack_into("<QQ", data, at, *entry)
        assert load(bytes(data)).returncode == 2


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (0, b"ELF", "not a refrt model file"),
        (8, struct.pack("<I", 9), "format version 9; this runner reads 1"),
        (16, struct.pack("<Q", 5), "truncated"),
        (120, struct.pack("<I", 2**31), "section nodes claims more entries than it holds"),
    ],
)
def test_the_header(load, good, offset, value, words):
    data = bytearray(good)
    data[offset : offset + len(value)] = value
    done = load(bytes(data))
    assert done.returncode == 2
    assert words in done.stderr


def test_every_word_of_the_tables(load, good):
    """Set to values that break careless readers, in turn."""
    for position in range(HEADER_BYTES, section_of(good, "weights")[0], 4):
        data = bytearray(good)
        struct.pack_into("<I", data, position, (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000)[position // 4 % 3])
        load(bytes(data))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_bit_flips(load, good, data):
    end = section_of(good, "weights")[0]
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, 8 * end - 1))
        changed[bit // 8] ^= 1 << bit % 8
    load(bytes(changed))


def test_texts_are_printable(load, good):
    data = good.replace(b"softtwice", b"so\nttwice")
    assert data != good
    assert "section strings has a text that is not printable UTF-8" in load(data).stderr


@pytest.mark.parametrize("data", [b"", b"REFRTMDL", b"\0" * 4096, b"\xff" * 4096])
def test_no_model_at_all(load, data):
    assert load(data).returncode == 2
