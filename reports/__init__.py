"""What a run found, for people and for CI: reads only ``verdict.json`` and ``layers.parquet`` of one run folder."""

from reports.errors import ReportError
from reports.layers import LAYER_COLUMNS, read_layers, write_layers
from reports.renderer import RenderedReport, render
from reports.verdict import read_verdict, verdict_schema, write_verdict

__all__ = [
    "LAYER_COLUMNS",
    "RenderedReport",
    "ReportError",
    "read_layers",
    "read_verdict",
    "render",
    "verdict_schema",
    "write_layers",
    "write_verdict",
]
