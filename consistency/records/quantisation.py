"""The three columns of a quantised model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ColumnName = Literal["quantisation", "backend", "cpu"]
Blame = Literal["none", "model", "backend", "engine", "unknown"]


@dataclass(frozen=True)
class Column:
    """One comparison of a case's final outputs, told by the output that uses most of its bound.

    ``quantisation``: the integer reference against FP32, no device in it · ``backend``: what ran on the device against
    the integer reference · ``cpu``: the same device's CPU backend against the integer reference. ``status`` is
    ``within``, ``beyond`` or ``unknown``.

    ``first`` names the layers beyond their bounds that lie behind no other such layer, of ``compared`` layers that are
    on both sides: those of the FP32 model for ``quantisation``, of the quantised one for ``backend``. The CPU backend
    is told by its outputs alone.
    """

    name: ColumnName
    status: str
    layer: str = ""
    max_abs: float | None = None
    scaled_rms: float | None = None
    sqnr_db: float | None = None
    cosine: float | None = None
    bound: float | None = None
    reason: str = ""
    first: tuple[str, ...] = ()
    compared: int = 0


@dataclass(frozen=True)
class Quantisation:
    """All columns, and who is to blame: nobody, the model, the backend, or the engine on any backend."""

    columns: tuple[Column, ...]
    blame: Blame
    reason: str
