from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from reports.picture import main
from tests.reports import parts, sample


@pytest.mark.browser
def test_a_picture_is_taken_from_a_run_folder(
    written: Callable[[parts.RunSample], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "docs" / "report.png"
    assert main([str(written(sample.all_pass())), str(picture)]) == 0
    with Image.open(picture) as image:
        assert image.size == (1240, 1600)
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 100
    assert capsys.readouterr().out == f"{picture}\n"
    assert [path.name for path in picture.parent.iterdir()] == ["report.png"]


@pytest.mark.parametrize(
    ("program", "path", "words"),
    [
        ("/nowhere/chromium", "/usr/bin", "LOCKSTEP_CHROMIUM=/nowhere/chromium is no program"),
        (None, "/nowhere", "Chromium is not installed"),
    ],
)
def test_an_absent_browser_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: str | None,
    path: str,
    words: str,
) -> None:
    monkeypatch.delenv("LOCKSTEP_CHROMIUM", raising=False)
    if program:
        monkeypatch.setenv("LOCKSTEP_CHROMIUM", program)
    monkeypatch.setenv("PATH", path)
    assert main(["out/latest", "docs/report.png"]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "type: apt-get install chromium" in error


@pytest.mark.browser
def test_an_absent_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path / "a.png")]) == 2
    assert "verdict.json: no such file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
