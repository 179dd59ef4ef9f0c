from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.dtypes import decode
from engine.contract.errors import ModelError, RunnerNonsense
from engine.contract.names import inside


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a\\b", "a\0b"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunnerNonsense, match="outside its folder"):
        inside(tmp_path, name)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "leak").symlink_to("/etc")
    with pytest.raises(RunnerNonsense, match="outside its folder"):
        inside(tmp_path, "leak/passwd")


@given(st.text())
def test_any_name_stays_inside_or_is_refused(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        path = inside(folder, name)
    except RunnerNonsense:
        return
    assert path.is_relative_to(folder)


def test_bfloat16_is_widened_exactly() -> None:
    assert decode(b"\x80\x3f\x00\xc0", "bfloat16", (2,)).tolist() == [1.0, -2.0]


@pytest.mark.parametrize("shape", [(3,), (2**40, 2**40), (2**32, 2**32)])
def test_a_shape_that_does_not_fit_its_bytes_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="holds 0 bytes"):
        decode(b"", "float32", shape)


def test_an_unknown_type_lists_the_known_ones() -> None:
    with pytest.raises(ModelError, match="unknown dtype 'complex77'"):
        decode(b"", "complex77", (0,))


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=20))
def test_bytes_come_back_as_the_array_they_were(values: list[float]) -> None:
    array = np.array(values, dtype="<f4")
    assert decode(array.tobytes(), "float32", array.shape).tolist() == array.tolist()
