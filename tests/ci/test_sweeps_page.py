"""docs/sweeps.md: every command of the page is understood, its schedule is valid, its table is the product's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from ci.cli.main import cli
from farm.beat import Schedule
from farm.config import validate
from farm.retention import AGES

PAGE = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines() if line]


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) > 12


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_is_understood(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    assert program == "lockstep"
    group: click.Command = cli
    context = click.Context(cli)
    while isinstance(group, click.Group) and words and not words[0].startswith("-"):
        name, found, words = group.resolve_command(context, words)
        assert found is not None
        context, group = click.Context(found, info_name=name, parent=context), found
    group.make_context(line, words)


def test_the_schedule_of_the_page_is_valid() -> None:
    (text,) = [text for kind, text in BLOCKS if kind == "yaml"]
    found = validate(yaml.safe_load(text), Schedule, "docs/sweeps.md")
    assert [entry.name for entry in found.sweeps] == ["nightly", "weekend"]


def test_the_table_of_ages_is_what_prune_does() -> None:
    rows = re.findall(r"^\| (\w+) \| .* \| (\d+) days \|$", PAGE, re.MULTILINE)
    assert {kind: int(days) * 86400.0 for kind, days in rows} == AGES
