"""The layer table of a run: ``layers.parquet``, one row per case x device x expected layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reports.errors import ReportError
from reports.files import whole

MAX_ROWS = 5_000_000

STATUSES = ("pass", "fail", "not_observable", "missing", "not_compared")
MATCHES = ("canonical", "golden", "none")

_TEXT = ("case", "device", "chip", "model", "layer")
_FLOATS = ("max_abs", "scaled_rms", "scaled_p999", "rmse", "sqnr_db", "cosine", "norm_ratio")

#: Columns in order. Numbers that do not exist are null (never NaN); ``shape`` is "1x3x224x224"; errors are against
#: the golden: ``scaled_rms`` = max_abs / RMS of the golden, ``scaled_p999`` = max_abs / its 99.9th percentile;
#: ``bound`` and ``would_pass`` are in units of the judged metric; ``covers`` is newline separated; ``introduced``
#: marks a layer to blame, where a failing layer without it inherited its error. ``alone`` is the status of the layer
#: on a reference's inputs (run alone, or fed their bits in the whole model), ``introduced_max_abs`` its error there,
#: and ``inherited_max_abs`` what at least came in with its inputs (max_abs - introduced_max_abs, not below 0); null
#: where nobody knows. ``paired_by`` tells by what the device's layer was found, ``confidence`` how sure that is.
LAYER_COLUMNS: pa.Schema = pa.schema(
    [
        *(pa.field(name, pa.string(), nullable=False) for name in _TEXT),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("op", pa.string()),
        pa.field("dtype", pa.string()),
        pa.field("shape", pa.string()),
        pa.field("backend", pa.string()),
        pa.field("segment", pa.int32()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("matched", pa.string()),
        pa.field("digest", pa.string()),
        pa.field("canonical_digest", pa.string()),
        pa.field("base_digest", pa.string()),
        *(pa.field(name, pa.float64()) for name in _FLOATS),
        pa.field("over_bound", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("worst_index", pa.int64()),
        pa.field("worst_got", pa.float64()),
        pa.field("worst_ref", pa.float64()),
        pa.field("bound", pa.float64()),
        pa.field("would_pass", pa.float64()),
        pa.field("nan", pa.int64()),
        pa.field("pos_inf", pa.int64()),
        pa.field("neg_inf", pa.int64()),
        pa.field("covers", pa.string()),
        pa.field("introduced", pa.bool_()),
        pa.field("alone", pa.string()),
        pa.field("introduced_max_abs", pa.float64()),
        pa.field("inherited_max_abs", pa.float64()),
        pa.field("paired_by", pa.string()),
        pa.field("confidence", pa.float64()),
        pa.field("reason", pa.string()),
    ]
)


def write_layers(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the layer table, whole or not at all; a column absent from a row is null, NaN and infinities too.

    Raises ``ValueError`` when a row has an unknown column or lacks a required one.
    """
    kept = list(rows)
    unknown = set().union(*kept) - set(LAYER_COLUMNS.names)
    if unknown:
        raise ValueError(f"layer row has unknown columns {sorted(unknown)}")
    columns = {name: [row.get(name) for row in kept] for name in LAYER_COLUMNS.names}
    for field in LAYER_COLUMNS:
        if not field.nullable and None in columns[field.name]:
            raise ValueError(f"layer row {columns[field.name].index(None)} lacks {field.name!r}")
    _require_words(columns["status"], STATUSES, "status")
    _require_words(columns["matched"], (*MATCHES, None), "matched")
    table = _null_where_not_finite(pa.table(columns, schema=LAYER_COLUMNS))
    with whole(path) as part:
        pq.write_table(table, part, compression="zstd")


def read_layers(path: Path) -> pa.Table:
    """Return the layer table with exactly ``LAYER_COLUMNS``; floats that are not finite come back as null.

    Raises ``ReportError`` when the file is absent, broken, too long or of another shape.
    """
    hint = "run the gate again: the layer table is written by it, whole or not at all"
    try:
        rows = pq.read_metadata(path).num_rows
        if rows > MAX_ROWS:
            raise ReportError(f"{path}: {rows} rows are more than the {MAX_ROWS} a report can show", hint)
        table = pq.read_table(path)
    except FileNotFoundError:
        raise ReportError(f"{path}: no such file", hint) from None
    except (OSError, pa.ArrowException) as error:
        raise ReportError(f"{path}: not a readable Parquet file: {_one_line(error)}", hint) from error
    absent = [name for name in LAYER_COLUMNS.names if name not in table.column_names]
    if absent:
        raise ReportError(f"{path}: the layer table lacks {', '.join(absent)}", hint)
    try:
        table = table.select(LAYER_COLUMNS.names).cast(LAYER_COLUMNS)
    except (pa.ArrowException, ValueError) as error:
        raise ReportError(f"{path}: the layer table has a column of another type: {_one_line(error)}", hint) from error
    try:
        _require_words(pc.unique(table["status"]).to_pylist(), STATUSES, "status")
        _require_words(pc.unique(table["matched"]).to_pylist(), (*MATCHES, None), "matched")
    except ValueError as error:
        raise ReportError(f"{path}: {error}", hint) from None
    return _null_where_not_finite(table)


def _require_words(values: Sequence[Any], allowed: Sequence[Any], column: str) -> None:
    for value in set(values) - set(allowed):
        raise ValueError(f"{column} {value!r} is none of {', '.join(word for word in allowed if word)}")


def _null_where_not_finite(table: pa.Table) -> pa.Table:
    for position, field in enumerate(LAYER_COLUMNS):
        if field.type == pa.float64():
            column = table.column(position)
            kept = pc.if_else(pc.is_finite(column), column, pa.scalar(None, pa.float64()))
            table = table.set_column(position, field, kept)
    return table


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
