"""``lockstep gate``: one commit, every chip, a verdict."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ci.asked import read_asked
from ci.console import Console
from ci.options import GateOptions
from ci.table import verdict_table
from engine.places import state_root
from farm.jobs import Priority
from farm.secrets import redact
from farm.session import FarmSession


@click.command("gate", epilog="Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 not everything was tested.")
@click.option("--suite", default="smoke", show_default=True, help="Suite to run: suites/NAME.yaml or a path.")
@click.option("--engine", default="refrt", show_default=True, help="Engine under test: engines/NAME.yaml or a path.")
@click.option("--artifacts", type=click.Path(path_type=Path), help="Take the engine's files from here, unchanged.")
@click.option(
    "--base", metavar="REF|DIR", help="Engine of the commit before: a git reference or a folder of artifacts."
)
@click.option("--inject", metavar="KIND@LAYER", help="Break the model at a layer; the gate must go red and name it.")
@click.option(
    "--profile",
    help="Judge all cases by this profile instead of the suite's: fp32, fp16, bf16, int8, bitexact or a learned one.",
)
@click.option("--device", "devices", multiple=True, help="Only this device (may be repeated; so may the next three).")
@click.option("--chip", "chips", multiple=True, help="Only devices with this chip.")
@click.option("--tier", "tiers", multiple=True, help="Only devices of this tier.")
@click.option("--case", "cases", multiple=True, help="Only this case.")
@click.option(
    "--devices", "devices_file", type=click.Path(path_type=Path), default=Path("devices.yaml"), show_default=True
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), show_default=True, help="Folder of runs.")
@click.option(
    "--priority",
    type=click.Choice([level.word for level in Priority]),
    default=lambda: (Priority.PULL_REQUEST if os.environ.get("CI") == "true" else Priority.INTERACTIVE).word,
    help="Whose turn it is on a device others want too; interactive unless given, pull-request where CI=true.",
)
@click.option("--quiet", is_flag=True, help="Only the verdict.")
def command(devices_file: Path, out: Path, priority: str, quiet: bool, **asked: object) -> int:
    """Build, deploy, run, compare every layer on every chip, report.

    \b
    Examples:
      lockstep gate                              everything
      lockstep gate --base HEAD~1                what did this commit change?
      lockstep gate --engine ort-example         another engine
      lockstep gate --inject nan@LAYER           prove that the gate can fail
      lockstep gate --device cortex-a53 --case vad-noise
    """
    options = GateOptions(
        root=Path.cwd(),
        devices_file=devices_file,
        out=out,
        priority=Priority.of(priority),
        command=redact("lockstep " + " ".join(sys.argv[1:])),
        **asked,  # type: ignore[arg-type]  # click's own types; the names are those of GateOptions
    )
    read_asked(options)  # a wrong word is told at once, not after a farm has started
    state_root().mkdir(parents=True, exist_ok=True)
    with FarmSession() as farm, Console.for_terminal(quiet) as console:
        from ci.gate import run_gate  # noqa: PLC0415 - workers start while its heavy imports run

        run = run_gate(options, console, farm)
    click.echo(verdict_table(run.document))
    click.echo(f"report: {run.folder / 'report' / 'index.html'}")
    return run.outcome.exit_code
