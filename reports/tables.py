"""The layer table cut into what the page shows: a map per case, and the numbers of one case on one device.

Numbers are kept by column and by position of the layer, so that a case of thousands of layers costs no loop per value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reports.cells import cell
from reports.errors import ReportError
from reports.layers import LAYER_COLUMNS, STATUSES

Json = dict[str, Any]

#: What is shown of one layer on one device.
RECORD_FIELDS = (
    "status",
    "matched",
    "introduced",
    "introduced_max_abs",
    "inherited_max_abs",
    "paired_by",
    "confidence",
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
    "canonical_digest",
    "base_digest",
    "covers",
    "reason",
)
LAYER_FIELDS = ("layer", "op", "dtype", "shape", "index")

_FLOATS = frozenset(field.name for field in LAYER_COLUMNS if field.type == pa.float64())
_DIGITS = {"cosine": 10}


@dataclass(frozen=True)
class CaseTable:
    """The layers of one case: ``layers`` and, per device, ``records`` by column, each as long as every layer column.

    ``totals`` counts the rows of ``layers.parquet`` by status, ``identical`` those with the bits of a reference. A
    layer that a device has no row of has ``None`` in all its columns.
    """

    case: str
    model: str
    devices: tuple[str, ...]
    layers: dict[str, list[Any]]
    records: tuple[dict[str, list[Any]], ...]
    totals: dict[str, int]
    identical: int

    @property
    def rows(self) -> int:
        """Rows of ``layers.parquet`` in this case."""
        return sum(self.totals.values())

    @property
    def count(self) -> int:
        """Layers of the case."""
        return len(self.layers["layer"])

    def map_data(self) -> Json:
        """What the heat map is drawn from, JSON-ready."""
        return {
            "case": self.case,
            "devices": self.devices,
            "layers": {name: _short(values) for name, values in self.layers.items()},
            "count": self.count,
            "cells": [_cells(record) for record in self.records],
            "totals": {status: self.totals.get(status, 0) for status in STATUSES},
        }

    def details_data(self, device: int) -> Json:
        """Every number of one device, JSON-ready: six digits are enough to read, ``layers.parquet`` keeps them all."""
        return {name: _short(_rounded(name, values)) for name, values in self.records[device].items()}


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
        rows = table.filter(pc.equal(table["case"], case)).sort_by([("index", "ascending"), ("layer", "ascending")])
        ran = {c["device"] for c in verdict["cases"] if c["case"] == case}
        parts.append(_case_table(case, model, rows, tuple(name for name in order if name in ran)))
    return parts


def _case_table(case: str, model: str, rows: pa.Table, devices: tuple[str, ...]) -> CaseTable:
    keys = list(zip(rows["index"].to_pylist(), rows["layer"].to_pylist(), strict=True))
    place = {key: position for position, key in enumerate(dict.fromkeys(keys))}
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    layers = rows.select(LAYER_FIELDS).take([first[key] for key in place]) if keys else rows.select(LAYER_FIELDS)
    matched = Counter(rows["matched"].to_pylist())
    return CaseTable(
        case=case,
        model=model,
        devices=devices,
        layers=layers.to_pydict(),
        records=tuple(_records(rows.filter(pc.equal(rows["device"], device)), place) for device in devices),
        totals=dict(Counter(rows["status"].to_pylist())),
        identical=matched["canonical"] + matched["golden"],
    )


def _records(rows: pa.Table, place: dict[tuple[int, str], int]) -> dict[str, list[Any]]:
    """The columns of one device, each value at the position of its layer."""
    columns: dict[str, list[Any]] = rows.select(RECORD_FIELDS).to_pydict()
    keys = zip(rows["index"].to_pylist(), rows["layer"].to_pylist(), strict=True)
    places = [place[key] for key in keys]
    if places == list(range(len(place))):
        return columns
    return {name: _scattered(values, places, len(place)) for name, values in columns.items()}


def _scattered(values: Sequence[Any], places: Sequence[int], length: int) -> list[Any]:
    spread: list[Any] = [None] * length
    for value, place in zip(values, places, strict=True):
        spread[place] = value
    return spread


def _cells(record: dict[str, list[Any]]) -> str:
    """Two characters a layer, see ``reports.cells``."""
    marks = zip(record["status"], record["matched"], record["introduced"], strict=True)
    numbers = zip(record["scaled_rms"], record["max_abs"], strict=True)
    nonfinite = zip(record["nan"], record["pos_inf"], record["neg_inf"], strict=True)
    return "".join(cell(*mark, pair, bad) for mark, pair, bad in zip(marks, numbers, nonfinite, strict=True))


def _short(values: list[Any]) -> list[Any]:
    """A column that says one thing all along says it once."""
    return values[:1] if values and values.count(values[0]) == len(values) else values


def _rounded(name: str, values: list[Any]) -> list[Any]:
    if name not in _FLOATS:
        return values
    form = f".{_DIGITS.get(name, 6)}g"
    return [None if value is None else float(format(value, form)) for value in values]
