"""The how-to pages are enough to do what they say: every command of theirs is run, in a fresh clone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.adbserver import stop_server
from agents.emulation.park import Park

REPOSITORY = Path(__file__).parents[2]
PAGES = (
    "add-a-device",
    "add-a-model",
    "bring-your-engine",
    "accept-a-change",
    "compare",
    "emulate",
    "devices",
    "thresholds",
)


@dataclass(frozen=True)
class Command:
    """One command of a page, its lines joined, and the exit code the page promises."""

    text: str
    exit_code: int


def commands_of(page: str) -> list[Command]:
    """Commands in ```console blocks: lines that start with ``$ ``, continued by lines that start with ``> ``."""
    found: list[list[str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:]])
            elif line.startswith(">") and found:
                found[-1].append(line[2:])
    commands = []
    for lines in found:
        promised = re.search(r"# exits (\d+)", lines[0])
        commands.append(Command("\n".join(lines), int(promised.group(1)) if promised else 0))
    return commands


def test_every_page_has_commands() -> None:
    for page in (*PAGES, "quantised"):
        assert commands_of((REPOSITORY / "docs" / f"{page}.md").read_text()), page


@pytest.mark.e2e
@pytest.mark.qemu
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [*PAGES, pytest.param("quantised", marks=pytest.mark.long)])
def test_the_commands_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", REPOSITORY, clone], check=True, timeout=60)
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(clone),
        "LOCKSTEP_STATE": str(tmp_path / "state"),
    }
    try:
        _run_all(commands_of((clone / "docs" / f"{page}.md").read_text()), clone, environment)
    finally:
        Park(tmp_path / "state/emulation").down()
        stop_server(tmp_path / "state/adb")


def _run_all(commands: list[Command], clone: Path, environment: dict[str, str]) -> None:
    for command in commands:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command.text],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == command.exit_code, f"$ {command.text}\n{done.stdout}\n{done.stderr}"
