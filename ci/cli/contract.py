"""``lockstep contract``: does a runner keep the contract?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from ci.contract_check import check_runner


@click.group("contract")
def command() -> None:
    """The runner contract (docs/bring-your-engine.md)."""


@command.command("check", context_settings={"ignore_unknown_options": True})
@click.option("--model-format", type=click.Choice(["onnx", "refrt"]), default="onnx", show_default=True)
@click.argument("runner", nargs=-1, required=True, type=click.UNPROCESSED)
def check(model_format: str, runner: tuple[str, ...]) -> int:
    """Ask RUNNER good and bad questions and check its answers; exits 1 when a check fails."""
    with tempfile.TemporaryDirectory(prefix="lockstep-contract-") as folder:
        results = check_runner(list(runner), model_format, Path(folder))
    for result in results:
        mark = click.style("ok  ", fg="green") if result.ok else click.style("FAIL", fg="red", bold=True)
        click.echo(f"{mark} {result.name}: {result.detail}")
    failed = sum(not result.ok for result in results)
    click.echo(f"{len(results) - failed} of {len(results)} checks hold")
    return 1 if failed else 0
