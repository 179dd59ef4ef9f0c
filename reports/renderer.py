"""One run folder in, its report out: ``report/index.html``, ``junit.xml`` and ``summary.md``."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from reports.errors import ReportError
from reports.files import write_text
from reports.junit import junit_xml
from reports.layers import read_layers
from reports.page import render_page
from reports.summary import summary_markdown
from reports.tables import check_against, split_by_case
from reports.verdict import read_verdict


@dataclass(frozen=True)
class RenderedReport:
    """Where the report of one run lies; ``parts`` are data files that the page loads when a case is opened."""

    index: Path
    junit: Path
    summary: Path
    parts: tuple[Path, ...]


def render(run_folder: Path) -> RenderedReport:
    """Render the report of a run from its ``verdict.json`` and ``layers.parquet``, and nothing else.

    Everything appears whole or not at all; rendering again replaces the old report.
    Raises ``ReportError`` (with a hint) for a folder that holds no readable run, or a disk that refuses.
    """
    verdict = read_verdict(run_folder / "verdict.json")
    table = read_layers(run_folder / "layers.parquet")
    check_against(verdict, table, run_folder / "layers.parquet")
    page = render_page(verdict, split_by_case(verdict, table))
    folder = run_folder / "report"
    _replace_folder(folder, {"index.html": page.html, **page.parts})
    write_text(run_folder / "junit.xml", junit_xml(verdict))
    write_text(run_folder / "summary.md", summary_markdown(verdict))
    return RenderedReport(
        index=folder / "index.html",
        junit=run_folder / "junit.xml",
        summary=run_folder / "summary.md",
        parts=tuple(folder / name for name in page.parts),
    )


def _replace_folder(folder: Path, files: dict[str, str]) -> None:
    """Put ``files`` (name to text) under ``folder``, replacing it; the old one stays until the new one is whole."""
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        for name, text in files.items():
            write_text(part / name, text)
        if folder.exists():
            folder.replace(old)
        part.replace(folder)
    except OSError as error:
        raise ReportError(
            f"{folder}: cannot be written: {error.strerror or error}", "free some space, or make the folder writable"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
