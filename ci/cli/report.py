"""``lockstep report``: render a run again."""

from __future__ import annotations

from pathlib import Path

import click

from engine.contract.errors import UsageError
from reports import ReportError, render


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path), default=Path("out/latest"))
def command(run: Path) -> int:
    """Render the report of RUN (default out/latest) again from verdict.json and layers.parquet."""
    try:
        rendered = render(run)
    except ReportError as error:
        raise UsageError(error.message, hint=error.hint) from error
    click.echo(f"report: {rendered.index}")
    return 0
