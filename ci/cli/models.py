"""``lockstep models``: the models and inputs of a suite."""

from __future__ import annotations

from pathlib import Path

import click

from engine.models.fetch import fetch_suite
from engine.places import cache_root
from farm.suites import find_suite, load_suite


@click.group("models")
def command() -> None:
    """List and fetch the models and inputs of a suite (pinned by version and SHA-256)."""


@command.command("list")
@click.option("--suite", default="smoke", show_default=True)
def list_models(suite: str) -> int:
    """Show what a suite is made of."""
    found = load_suite(find_suite(Path("suites"), suite))
    for file in (*found.model_files, *found.input_files):
        click.echo(f"{file.id:24} {file.sha256[:12]}  {file.origin.describe()}")
    for model in found.models:
        if model.quantise is not None:
            click.echo(f"{model.id:24} {'made here':12}  the quantised form of {model.fp32}")
    for case in found.cases:
        click.echo(f"case {case.id:19} {case.model}, profile {case.profile}, {len(case.tasks)} task checks")
    return 0


@command.command("fetch")
@click.option("--suite", default="smoke", show_default=True)
def fetch(suite: str) -> int:
    """Fetch everything a suite needs into the cache; offline once it is there."""
    found = load_suite(find_suite(Path("suites"), suite))
    fetched = fetch_suite(found.model_files, found.input_files, cache_root(), click.echo)
    for name, path in {**fetched.models, **fetched.files}.items():
        click.echo(f"{name:24} {path}")
    return 0
