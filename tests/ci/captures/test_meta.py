"""Declarations: what they make of a dump, and which of them are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.captures import declare, load_meta
from ci.captures.meta import LAYOUTS, Declared, Meta, check_names
from consistency.tensors import Tensor, dequantise
from engine.contract.errors import ConfigError

ORDER = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


def raw(values):
    data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
    return Tensor("y", "raw", data.shape, data)


def typed(values):
    return Tensor("y", values.dtype.name, values.shape, values)


def meta(tmp_path, text):
    (tmp_path / "meta.yaml").write_text(text)
    return load_meta(tmp_path / "meta.yaml")


def test_a_raw_dump_needs_a_declaration():
    held = declare(raw(ORDER), None)
    assert held.values is None
    assert "declare its dtype and shape in --meta" in held.reason


def test_a_raw_dump_is_read_as_declared():
    held = declare(raw(ORDER), Declared(dtype="float32", shape=(1, 2, 3, 4)))
    assert (held.dtype, held.shape) == ("float32", (1, 2, 3, 4))
    assert np.array_equal(held.values, ORDER)


@pytest.mark.parametrize("held", [raw, typed])
def test_a10_a_declared_layout_leads_back_to_the_reference(held):
    stored = np.ascontiguousarray(ORDER.transpose(0, 2, 3, 1))
    for way in ({"layout": "NHWC"}, {"permutation": (0, 2, 3, 1)}):
        found = declare(held(stored), Declared(dtype="float32", shape=(1, 3, 4, 2), **way))
        assert np.array_equal(found.values, ORDER)


@given(st.permutations(range(4)))
def test_every_permutation_leads_back(order):
    stored = np.ascontiguousarray(ORDER.transpose(order))
    found = declare(typed(stored), Declared(permutation=tuple(order)))
    assert np.array_equal(found.values, ORDER)


def test_padded_rows_are_left_out():
    padded = np.full((2, 3, 8), np.nan, np.float32)
    padded[:, :, :4] = ORDER[0]
    found = declare(raw(padded), Declared(dtype="float32", shape=(1, 2, 3, 4), strides=(48, 24, 8, 1)))
    assert np.array_equal(found.values, ORDER)


@pytest.mark.parametrize(
    ("shape", "strides"), [((1, 2, 3, 4), (48, 24, 8, 2)), ((9, 9, 9), (1, 1, 1)), ((5, 5), (1, 1))]
)
def test_strides_beyond_the_dump_are_refused(shape, strides):
    with pytest.raises(ConfigError, match="shape and strides reach element"):
        declare(raw(ORDER), Declared(dtype="float32", shape=shape, strides=strides))


def test_bfloat16_is_widened_from_its_bits():
    bits = np.array([0x3F80, 0xC000], np.uint16)
    for held in (raw(bits), typed(bits)):
        found = declare(held, Declared(dtype="bfloat16", shape=(2,)))
        assert (found.dtype, found.values.tolist()) == ("bfloat16", [1.0, -2.0])


def test_a23_codes_are_read_with_their_zero_point(tmp_path):
    text = "both: {y: {shape: [1], quantisation: {scale: 1.161671, zero_point: -16, dtype: int8}}}"
    found = declare(raw(np.array([31], np.int8)), meta(tmp_path, text).of("B", "y"))
    assert dequantise(found).values[0] == pytest.approx(54.5985, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "B: {y: {quantisation: {scale: 1.161671, zero_point: -16, dtype: uint8}}}",
            "B.y.quantisation: Value error, zero point -16 is outside the range of uint8 (0 to 255)",
        ),
        ("A: {y: {quantisation: {scale: [1, 2], zero_point: 0, dtype: int8}}}", "several scales need an axis"),
        ("A: {y: {quantisation: {scale: 0, dtype: int8}}}", "every scale must be a positive number"),
        ("A: {y: {quantisation: {scale: .nan, dtype: int8}}}", "every scale must be a positive number"),
        ("A: {y: {dtype: float33}}", "dtype 'float33' is not known"),
        ("A: {y: {layout: NHCW}}", "layout 'NHCW' is not known"),
        ("A: {y: {permutation: [0, 0, 1]}}", "does not name each axis once"),
        ("A: {y: {layout: NHWC, permutation: [0]}}", "layout or permutation, not both"),
        ("A: {y: {strides: [1]}}", "strides need a shape"),
        ("A: {y: {shape: [-1]}}", "greater than or equal to 0"),
        ("A: {y: {shap: [1]}}", "did you mean 'shape'?"),
        ("A: {y: {dtype: int8}}\nboth: {y: {dtype: int8}}", "declared for both and for one side"),
        ("A: {y: {dtype: int8}, y: {dtype: int8}}", "given twice"),
        ("[1]", "not a mapping"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_key_path(tmp_path, text, words):
    with pytest.raises(ConfigError) as told:
        meta(tmp_path, text)
    assert words in told.value.message
    assert "meta.yaml" in told.value.message


@pytest.mark.parametrize(
    ("held", "declared", "words"),
    [
        (typed(ORDER), Declared(dtype="int8"), "dtype int8 is declared, the file holds float32"),
        (typed(ORDER), Declared(shape=(5, 5)), r"shape \[5, 5\] has 25 elements, the file holds 24"),
        (typed(ORDER), Declared(layout="HWC"), "a layout of 3 axes is declared for shape"),
        (raw(ORDER), Declared(shape=(24,)), "needs a dtype and a shape"),
        (raw(ORDER), Declared(dtype="float64", shape=(24,)), "the file holds 12"),
        (raw(np.zeros(3, np.int8)), Declared(dtype="int16", shape=(1,)), "3 bytes are no whole number of int16"),
    ],
)
def test_a_declaration_that_contradicts_the_file_is_refused(held, declared, words):
    with pytest.raises(ConfigError, match=words):
        declare(held, declared)


def test_a_name_that_is_not_in_the_capture_is_refused(tmp_path):
    declared = meta(tmp_path, "B: {conv_1: {dtype: int8}}")
    with pytest.raises(ConfigError) as told:
        check_names(declared, tmp_path / "meta.yaml", ["x"], ["conv1", "conv2"])
    assert "B.conv_1: no such tensor" in told.value.message
    assert told.value.hint == "did you mean 'conv1'?"


def test_layouts_name_each_axis_once():
    for name, order in LAYOUTS.items():
        assert sorted(order) == list(range(len(name)))


def test_an_empty_declaration_declares_nothing():
    assert Meta().of("A", "y") is None


def test_boxes_of_other_than_four_numbers_are_refused():
    three = Tensor("y", "float32", (2, 3), np.zeros((2, 3), np.float32))
    with pytest.raises(ConfigError, match="boxes have four numbers each"):
        declare(three, Declared(content="boxes"))
    four = Tensor("y", "float32", (2, 4), np.zeros((2, 4), np.float32))
    assert declare(four, Declared(content="boxes")).content == "boxes"
