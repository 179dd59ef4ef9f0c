"""Readers of captures: what is written comes back, and a hostile file is an error and never a crash."""

import contextlib
import json
import zipfile

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from ci.captures import read_capture
from consistency.tensors import Tensor
from engine.contract.errors import LockstepError, UsageError

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def safetensors(tensors, header=None):
    """Bytes of a file; ``tensors`` name → (dtype, shape, data)."""
    entries, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps({"__metadata__": {"by": "test"}, **entries, **(header or {})}).encode()
    return len(text).to_bytes(8, "little") + text + data


def load_all(path) -> dict[str, Tensor]:
    return {name: load() for name, load in read_capture(path).tensors.items()}


def write(path, name, values):
    if name.endswith(".npy"):
        np.save(path / name, values)
    elif name.endswith(".npz"):
        np.savez(path / name, y=values)
    elif name.endswith(".pb"):
        (path / name).write_bytes(numpy_helper.from_array(values).SerializeToString())
    else:
        kind = {"float32": "F32", "float16": "F16", "int64": "I64", "bool": "BOOL", "int8": "I8"}[values.dtype.name]
        (path / name).write_bytes(safetensors({"y": (kind, list(values.shape), values.tobytes())}))
    return path / name


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.pb", "y.safetensors"])
@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        VALUES.astype(np.float16),
        np.array([2**62, -1]),
        np.array([True, False]),
        np.zeros((0, 4), np.float32),
        np.array(1.5, np.float32),
        VALUES.T,
    ],
    ids=["float32", "float16", "int64", "bool", "empty", "scalar", "fortran"],
)
def test_what_is_written_comes_back(tmp_path, name, values):
    values = np.ascontiguousarray(values).reshape(values.shape) if name.endswith("safetensors") else values
    held = load_all(write(tmp_path, name, values))["y"]
    assert (held.dtype, held.shape) == (values.dtype.name, values.shape)
    assert np.array_equal(held.values, values)


def test_a_large_npy_is_mapped_and_not_read(tmp_path):
    np.save(tmp_path / "y.npy", np.zeros(2**19, np.float32))
    assert isinstance(load_all(tmp_path / "y.npy")["y"].values, np.memmap)


def test_big_endian_is_read_as_numbers(tmp_path):
    np.save(tmp_path / "y.npy", VALUES.astype(">f4"))
    held = load_all(tmp_path / "y.npy")["y"]
    assert held.values.dtype.isnative
    assert np.array_equal(held.values, VALUES)


@pytest.mark.parametrize("name", ["y.npy", "y.npz"])
def test_a_pickle_is_not_loaded_and_not_compared(tmp_path, name):
    held = load_all(write(tmp_path, name, np.array([{"a": 1}], dtype=object)))["y"]
    assert held.values is None
    assert "pickle" in held.reason


def test_bfloat16_and_unknown_types_of_safetensors(tmp_path):
    bits = np.array([0x3F80, 0xC000], "<u2").tobytes()
    path = tmp_path / "y.safetensors"
    path.write_bytes(safetensors({"b": ("BF16", [2], bits), "f8": ("F8_E4M3", [3], b"abc")}))
    held = load_all(path)
    assert (held["b"].dtype, held["b"].values.tolist()) == ("bfloat16", [1.0, -2.0])
    assert held["f8"].values is None
    assert "F8_E4M3" in held["f8"].reason


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "a header of 0 bytes in a file of 0"),
        ((2**63).to_bytes(8, "little") + b"{}", "a header of"),
        ((2).to_bytes(8, "little") + b"[]", "the header is no mapping"),
        ((4).to_bytes(8, "little") + b"{,,}", "Expecting"),
        (safetensors({"y": ("F32", [2], b"1234")}), "has 4 bytes where F32[2] needs 8"),
        (safetensors({"y": ("F32", [-1], b"1234")}), "no size"),
        (safetensors({"y": ("F32", [2**40, 2**40], b"1234")}), "needs"),
        (safetensors({"y": ("F32", [1], b"1234")}) + b"more", "the tensors take 4 bytes of the 8"),
        (safetensors({}, {"y": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]}}), "begins at byte 4"),
        (safetensors({"y": ("U8", [1], b"1")}, {"z": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}), "begins"),
        (safetensors({}, {"y": 7}), "needs dtype, shape and data_offsets"),
        (safetensors({}, {"y": {"dtype": "U8", "shape": "x", "data_offsets": [0, 0]}}), "a shape is a list"),
        (safetensors({}, {"y": {"dtype": "U8", "shape": [0], "data_offsets": [0]}}), "offsets [0]"),
        ((36).to_bytes(8, "little") + b'{"y": {"a": 1, "a": 2, "b": 333333}}', "names something twice"),
    ],
)
def test_a_hostile_safetensors_header_is_refused(tmp_path, content, words):
    path = tmp_path / "y.safetensors"
    path.write_bytes(content)
    with pytest.raises(UsageError) as told:
        read_capture(path)
    assert words in told.value.message
    assert told.value.hint


def test_a_npy_that_claims_more_than_it_holds_is_refused(tmp_path):
    np.save(tmp_path / "y.npy", VALUES)
    content = (tmp_path / "y.npy").read_bytes()
    (tmp_path / "y.npy").write_bytes(content.replace(b"(2, 3)", b"(9, 9)"))
    with pytest.raises(UsageError, match=r"24 bytes of data where float32\[9, 9\] needs 324"):
        load_all(tmp_path / "y.npy")


@pytest.mark.parametrize("header", [b"{'descr': '<f4', ((((((\n", b"7\n", b"{1: 2}\n", b"[" * 500 + b"\n", b"\xff\n"])
def test_a_npy_header_that_is_no_header_is_refused(tmp_path, header):
    (tmp_path / "y.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UsageError, match="cannot be read"):
        load_all(tmp_path / "y.npy")


def test_a_npz_entry_given_twice_is_refused(tmp_path):
    path = tmp_path / "y.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("y.npy", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("y.npy", b"2")
    with pytest.raises(UsageError, match="given twice"):
        read_capture(path)


@pytest.mark.parametrize("location", [TensorProto.EXTERNAL, TensorProto.DEFAULT])
def test_a_tensor_of_onnx_never_reads_another_file(tmp_path, location):
    tensor = numpy_helper.from_array(VALUES)
    tensor.ClearField("raw_data")
    tensor.data_location = location
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    (tmp_path / "y.pb").write_bytes(tensor.SerializeToString())
    with pytest.raises(UsageError, match="another file, which is not followed"):
        load_all(tmp_path / "y.pb")


def test_types_of_onnx_that_numpy_does_not_have(tmp_path):
    cases = {
        "b": helper.make_tensor("b", TensorProto.BFLOAT16, [2], [1.0, -2.0]),
        "i": helper.make_tensor("i", TensorProto.INT4, [3], [1, -2, 3]),
        "s": helper.make_tensor("s", TensorProto.STRING, [2], [b"a/b", "\u732b".encode()]),
        "f": helper.make_tensor("f", TensorProto.FLOAT8E4M3FN, [1], [1.0]),
    }
    for name, proto in cases.items():
        (tmp_path / f"{name}.pb").write_bytes(proto.SerializeToString())
    held = load_all(tmp_path)
    assert (held["b"].dtype, held["b"].values.tolist()) == ("bfloat16", [1.0, -2.0])
    assert (held["i"].dtype, held["i"].values.tolist()) == ("int4", [1, -2, 3])
    assert (held["s"].dtype, held["s"].values.tolist()) == ("string", ["a/b", "\u732b"])
    assert held["f"].values is None


def test_a_model_is_no_tensor(tmp_path):
    graph = helper.make_graph([], "g", [], [])
    (tmp_path / "y.pb").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    with pytest.raises(UsageError, match="cannot be read"):
        load_all(tmp_path / "y.pb")


def test_a_folder_is_read_by_stem_and_below(tmp_path):
    (tmp_path / "block").mkdir()
    np.save(tmp_path / "block" / "conv.npy", VALUES)
    (tmp_path / "out.pb").write_bytes(numpy_helper.from_array(VALUES).SerializeToString())
    (tmp_path / "notes.txt").write_text("not a tensor")
    assert sorted(load_all(tmp_path)) == ["block/conv", "out"]
    assert load_all(tmp_path)["block/conv"].name == "block/conv"
    np.save(tmp_path / "out.npy", VALUES)
    with pytest.raises(UsageError, match="two files are called out"):
        read_capture(tmp_path)


@pytest.mark.parametrize(
    ("name", "words"), [("gone.npz", "no such file"), ("empty", "holds no tensor"), ("x.txt", "no known kind")]
)
def test_what_is_no_capture_is_told(tmp_path, name, words):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(UsageError, match=words) as told:
        read_capture(tmp_path / name)
    assert told.value.hint


@given(st.sampled_from(["npy", "npz", "pb", "safetensors"]), st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_a_lockstep_error(tmp_path, suffix, data):
    path = write(tmp_path, f"y.{suffix}", VALUES)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(LockstepError):
        load_all(path)
