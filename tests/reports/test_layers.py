from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports import LAYER_COLUMNS, ReportError, read_layers, write_layers
from tests.reports import parts, sample


def rows() -> list[parts.Row]:
    return sample.one_layer().rows


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "layers.parquet"
    write_layers(path, rows())
    table = read_layers(path)
    assert table.schema.equals(LAYER_COLUMNS)
    assert table.to_pylist() == [dict.fromkeys(LAYER_COLUMNS.names) | rows()[0]]
    assert [p.name for p in tmp_path.iterdir()] == ["layers.parquet"]


def test_numbers_that_do_not_exist_are_null_and_names_stay(tmp_path: Path) -> None:
    path = tmp_path / "layers.parquet"
    write_layers(path, [rows()[0] | {"layer": "BaNaNa_Infinity", "max_abs": math.nan, "rmse": math.inf}])
    row = read_layers(path).to_pylist()[0]
    assert (row["layer"], row["max_abs"], row["rmse"]) == ("BaNaNa_Infinity", None, None)


def test_nan_written_by_others_is_read_as_null(tmp_path: Path) -> None:
    path = tmp_path / "layers.parquet"
    table = pa.Table.from_pylist([rows()[0] | {"cosine": math.nan, "bound": -math.inf}], schema=LAYER_COLUMNS)
    pq.write_table(table, path)
    row = read_layers(path).to_pylist()[0]
    assert (row["cosine"], row["bound"]) == (None, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colour": "red"}, r"unknown columns \['colour'\]"),
        ({"layer": None}, "lacks 'layer'"),
        ({"status": "good"}, "status 'good' is none of pass, fail"),
        ({"matched": "base"}, "matched 'base' is none of canonical, golden, none"),
    ],
)
def test_a_wrong_row_is_refused_and_nothing_is_written(tmp_path: Path, change: parts.Row, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        write_layers(tmp_path / "layers.parquet", [rows()[0] | change])
    assert list(tmp_path.iterdir()) == []


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"layers\.parquet: no such file\n  next: run the gate again"):
        read_layers(tmp_path / "layers.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"<html>", b"PAR1" + bytes(64) + b"PAR1"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "layers.parquet"
    path.write_bytes(content)
    with pytest.raises(ReportError, match="not a readable Parquet file"):
        read_layers(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "layers.parquet"
    write_layers(path, rows())
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(ReportError):
            read_layers(path)


def test_a_table_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "layers.parquet"
    pq.write_table(pa.table({"case": ["a"]}), path)
    with pytest.raises(ReportError, match="lacks device, chip, model"):
        read_layers(path)
    table = pa.Table.from_pylist(rows(), schema=LAYER_COLUMNS)
    at = table.schema.get_field_index("index")
    pq.write_table(table.set_column(at, "index", pa.array(["first"])), path)
    with pytest.raises(ReportError, match="a column of another type"):
        read_layers(path)
    at = table.schema.get_field_index("status")
    pq.write_table(table.set_column(at, "status", pa.array(["<b>"])), path)
    with pytest.raises(ReportError, match="status '<b>' is none of"):
        read_layers(path)


def test_dictionary_encoded_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "layers.parquet"
    table = pa.Table.from_pylist(rows(), schema=LAYER_COLUMNS)
    at = table.schema.get_field_index("op")
    pq.write_table(table.set_column(at, "op", table["op"].dictionary_encode()), path)
    assert read_layers(path)["op"].to_pylist() == ["Identity"]
