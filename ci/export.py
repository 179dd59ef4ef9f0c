"""A run's layers for other tools: a table (CSV, Parquet, JSON), or the ONNX model with the metrics on its nodes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import onnx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from engine.contract.errors import ModelError, UsageError
from engine.models.graph import read_model
from farm.config import nearest

#: What a node carries, in this order: what people look for first.
NODE_COLUMNS = (
    *(
        "status",
        "introduced",
        "alone",
        "introduced_max_abs",
        "inherited_max_abs",
        "reason",
        "max_abs",
        "bound",
        "would_pass",
        "scaled_rms",
        "rmse",
        "sqnr_db",
    ),
    *("cosine", "norm_ratio", "over_bound", "count", "nan", "pos_inf", "neg_inf", "matched", "backend", "digest"),
)
FORMATS = ("csv", "parquet", "json", "onnx")


def layers_of(run: Path, case: str | None, device: str | None) -> pa.Table:
    """The rows of a run's ``layers.parquet``; ``UsageError`` for a run, case or device that is not there."""
    path = run / "layers.parquet"
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise UsageError(
            f"{path}: no layers of a finished run: {error}", hint="give a folder of out/, for example out/latest"
        ) from error
    for column, wanted in (("case", case), ("device", device)):
        if wanted is None:
            continue
        known = sorted(set(table[column].to_pylist()))
        if wanted not in known:
            raise UsageError(
                f"no {column} {wanted!r} in {run}: {nearest(wanted, known)}", hint=f"it has: {_few(known)}"
            )
        table = table.filter(pc.equal(table[column], wanted))
    return table


def write_table(table: pa.Table, target: Path) -> None:
    """Write the rows by ``target``'s suffix; the file appears only when complete. No NaN leaves as a number."""
    part = target.with_name(f".{target.name}.part")
    try:
        if target.suffix == ".parquet":
            pq.write_table(table, part)
        elif target.suffix == ".csv":
            pyarrow.csv.write_csv(table, part)
        else:
            rows = [{name: _strict(value) for name, value in row.items()} for row in table.to_pylist()]
            part.write_text(json.dumps(rows, allow_nan=False, indent=1) + "\n", encoding="utf-8")
        part.replace(target)
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror}", hint="name a file in a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)


def annotate(model: Path, table: pa.Table, target: Path) -> int:
    """Write ``model`` with each layer's row as metadata of its node; returns how many nodes got one.

    Several devices' rows of one layer all go there, under ``lockstep.DEVICE.…``. ``ModelError`` when the model has
    none of the layers: it is not the one that ran.
    """
    graph_model = read_model(model)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["layer"], []).append(row)
    devices = {row["device"] for layer in rows.values() for row in layer}
    told = 0
    for node in graph_model.graph.node:
        mine = [row for output in node.output for row in rows.get(output, ())]
        for row in mine:
            _tell(node, row, f"lockstep.{row['device']}" if len(devices) > 1 else "lockstep")
        told += bool(mine)
    if not told:
        raise ModelError(
            f"{model}: none of the {len(rows)} layers is in it", hint="give the model of that case: --model"
        )
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(graph_model.SerializeToString(deterministic=True))
        part.replace(target)
    except OSError as error:
        raise UsageError(f"{target}: {error.strerror}", hint="name a file in a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)
    return told


def _tell(node: onnx.NodeProto, row: dict[str, Any], prefix: str) -> None:
    for column in NODE_COLUMNS:
        value = _strict(row.get(column))
        if value is None or value == "":
            continue
        entry = node.metadata_props.add()
        entry.key = f"{prefix}.{column}"
        entry.value = f"{value:.6g}" if isinstance(value, float) else str(value)


def _strict(value: object) -> object:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
