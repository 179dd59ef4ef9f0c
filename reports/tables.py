"""The layer table cut into what the page draws: one compact, deduplicated block per case.

Six chips with the same bits have the same numbers, so a case stores each distinct record once and, per device and
layer, the number of its record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.errors import ReportError
from reports.layers import MATCHES, STATUSES

Json = dict[str, Any]

#: Fields of one record, in order. ``status`` and ``matched`` are positions in ``STATUSES`` and ``MATCHES``.
RECORD_FIELDS = (
    "status",
    "matched",
    "introduced",
    "max_abs",
    "scaled_rms",
    "scaled_p999",
    "rmse",
    "sqnr_db",
    "cosine",
    "norm_ratio",
    "over_bound",
    "count",
    "worst_index",
    "worst_got",
    "worst_ref",
    "bound",
    "would_pass",
    "nan",
    "pos_inf",
    "neg_inf",
    "digest",
    "base_digest",
    "covers",
    "reason",
)
LAYER_FIELDS = ("layer", "op", "dtype", "shape", "index", "canonical_digest")

_DIGITS = {"cosine": 10}


@dataclass(frozen=True)
class CaseTable:
    """The layers of one case on every device: ``data`` is JSON-ready, ``totals`` counts rows by status."""

    case: str
    model: str
    data: Json
    totals: dict[str, int]
    identical: int

    @property
    def rows(self) -> int:
        """Rows of ``layers.parquet`` in this case."""
        return sum(self.totals.values())


def check_against(verdict: Json, table: pa.Table, path: Path) -> None:
    """Raise ``ReportError`` when the layer table speaks of a case and device that the verdict does not know."""
    known = {(case["case"], case["device"]) for case in verdict["cases"]}
    pairs = table.select(["case", "device"]).group_by(["case", "device"]).aggregate([])
    for case, device in zip(pairs["case"].to_pylist(), pairs["device"].to_pylist(), strict=True):
        if (case, device) not in known:
            raise ReportError(
                f"{path}: has layers of case {case!r} on device {device!r}, which verdict.json does not list",
                "both files must come from the same run; run the gate again",
            )


def split_by_case(verdict: Json, table: pa.Table) -> list[CaseTable]:
    """Return one table per case, in the order of the verdict; a case without layer rows has an empty one."""
    models = {case["case"]: case["model"] for case in verdict["cases"]}
    order = [device["name"] for device in verdict["devices"]]
    parts = []
    for case, model in models.items():
        rows = table.filter(pc.equal(table["case"], case)).to_pylist()
        ran = {c["device"] for c in verdict["cases"] if c["case"] == case}
        parts.append(_case_table(case, model, rows, [name for name in order if name in ran]))
    return parts


def _case_table(case: str, model: str, rows: list[Json], devices: list[str]) -> CaseTable:
    layers: dict[tuple[int, str], list[Any]] = {}
    for row in sorted(rows, key=lambda row: (row["index"], row["layer"])):
        layers.setdefault((row["index"], row["layer"]), [row[name] for name in LAYER_FIELDS])
    column = {key: position for position, key in enumerate(layers)}
    line = {name: position for position, name in enumerate(devices)}
    cells = [[-1] * len(layers) for _ in devices]
    records: dict[tuple[Any, ...], int] = {}
    for row in rows:
        record = _record(row)
        cells[line[row["device"]]][column[row["index"], row["layer"]]] = records.setdefault(record, len(records))
    totals = Counter(row["status"] for row in rows)
    data = {
        "case": case,
        "devices": devices,
        "layer_fields": LAYER_FIELDS,
        "layers": list(layers.values()),
        "record_fields": RECORD_FIELDS,
        "records": [list(record) for record in records],
        "cells": cells,
        "totals": {status: totals[status] for status in STATUSES},
    }
    identical = sum(row["matched"] in ("canonical", "golden") for row in rows)
    return CaseTable(case, model, data, dict(totals), identical)


def _record(row: Json) -> tuple[Any, ...]:
    values = dict(row)
    values["status"] = STATUSES.index(row["status"])
    values["matched"] = MATCHES.index(row["matched"] or "none")
    values["introduced"] = int(bool(row["introduced"]))
    return tuple(_rounded(name, values[name]) for name in RECORD_FIELDS)


def _rounded(name: str, value: Any) -> Any:
    """Six digits are enough to read; ``layers.parquet`` keeps them all."""
    return float(f"{value:.{_DIGITS.get(name, 6)}g}") if isinstance(value, float) else value
