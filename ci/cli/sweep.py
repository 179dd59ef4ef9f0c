"""``lockstep sweep``: everything on everything, resumable."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ci.console import Console
from ci.sweeptable import sweep_table
from engine.contract.errors import ConfigError, UsageError
from engine.places import state_root
from farm.driving import alone, driving
from farm.jobs import RunView
from farm.secrets import redact
from farm.session import FarmSession
from farm.store import Store
from farm.sweeps import begin, resume

_SELECTING = ("suites", "engines", "devices_file", "devices", "chips", "tiers", "profile", "fresh", "entry")


@click.command("sweep", epilog="Exit codes as of gate: 0 pass, 1 fail, 2 usage or configuration, 3 not all was tested.")
@click.option("--suite", "suites", multiple=True, help="Only this suite (may be repeated; default: all of suites/).")
@click.option("--engine", "engines", multiple=True, help="Only this engine (default: all of engines/).")
@click.option(
    "--devices", "devices_file", type=click.Path(path_type=Path), default=Path("devices.yaml"), show_default=True
)
@click.option("--device", "devices", multiple=True, help="Only this device (may be repeated; so may the next two).")
@click.option("--chip", "chips", multiple=True, help="Only devices with this chip.")
@click.option("--tier", "tiers", multiple=True, help="Only devices of this tier.")
@click.option("--profile", help="Judge all cases by it: fp32, fp16, bf16, int8, bitexact or a learned one.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), show_default=True, help="Folder of runs.")
@click.option(
    "--resume",
    "resumed",
    is_flag=False,
    flag_value="",
    metavar="[ID]",
    help="Go on with an unfinished sweep (default: the newest).",
)
@click.option("--fresh", is_flag=True, help="Begin a new sweep though the same one of this night is unfinished.")
@click.option(
    "--beat",
    is_flag=False,
    flag_value="sweeps.yaml",
    metavar="[FILE]",
    help="Stay, and start sweeps when FILE says (default: sweeps.yaml).",
)
@click.option("--entry", hidden=True, help="The entry of sweeps.yaml that starts it.")
@click.option("--quiet", is_flag=True, help="Only the verdict.")
@click.pass_context
def command(
    context: click.Context, /, resumed: str | None, out: Path, beat: str | None, quiet: bool, **asked: Any
) -> int:
    """Run every suite with every engine on every device that fits.

    All jobs are planned in the store first, at the lowest priority. Whatever
    dies in between, the sweep is gone on with: by --resume, or by starting the
    same sweep again within twelve hours. What is missing is done then, nothing
    is done twice, and the report covers all of it.

    \b
    Examples:
      lockstep sweep                             everything on everything
      lockstep sweep --suite smoke --engine refrt --engine ort-example
      lockstep sweep --resume                    after a crash, or Ctrl-C
      lockstep sweep --beat                      every night, as sweeps.yaml says
      lockstep runs watch                        follow it from elsewhere
      lockstep runs cancel ID --reason TEXT      end it for good
    """
    if resumed is not None:
        for name in _SELECTING:
            if context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
                raise UsageError("--resume goes on with what the sweep was asked", hint="leave the selection out")
    state_root().mkdir(parents=True, exist_ok=True)
    if beat is not None:
        return _beat(Path(beat), out)
    with alone(state_root()) as place, Store() as store:
        sweep = resume(store, place, resumed or None) if resumed is not None else _begin(store, place, **asked)
        with driving(store, sweep), FarmSession() as farm, Console.for_terminal(quiet) as console:
            from ci.sweep import SweepRequest, run_sweep  # noqa: PLC0415 - workers start while its heavy imports run

            console.say(f"sweep {sweep.id} (`lockstep sweep --resume {sweep.id}` goes on with it)")
            request = SweepRequest.of(dict(sweep.payload["request"]))
            done = run_sweep(sweep, request, Path.cwd(), out, console, farm)
    click.echo(sweep_table(done.document))
    click.echo(f"report: {done.folder / 'summary.md'}")
    return done.exit_code


def _beat(file: Path, out: Path) -> int:
    """Start sweeps when they are due; their arguments are checked now and not at night."""
    from farm.beat import load_schedule, run_beat  # noqa: PLC0415 - imports celery

    schedule = load_schedule(file)
    for entry in schedule.sweeps:
        try:
            command.make_context("sweep", list(entry.arguments))
        except click.ClickException as error:
            words = f"{file}: arguments of {entry.name!r}: {error.format_message()}"
            raise ConfigError(words, hint="they are those of `lockstep sweep`") from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    program = [sys.executable, "-c", "from ci.cli.main import main; main()", "sweep", "--out", str(out)]
    run_beat(schedule, program, state_root())
    return 0


def _begin(
    store: Store,
    place: str,
    suites: tuple[str, ...],
    engines: tuple[str, ...],
    devices_file: Path,
    devices: tuple[str, ...],
    chips: tuple[str, ...],
    tiers: tuple[str, ...],
    profile: str | None,
    fresh: bool,
    entry: str | None,
) -> RunView:
    """The sweep that was asked: a new one, or the unfinished one of this night."""
    from ci.sweep import SweepRequest, check_selection, everything  # noqa: PLC0415 - slow to import

    suites, engines = everything(Path.cwd(), suites, engines)
    request = SweepRequest(suites, engines, str(devices_file.absolute()), devices, chips, tiers, profile)
    check_selection(request)
    words = redact("lockstep " + " ".join(sys.argv[1:]))
    return begin(store, place, words, request.document(), fresh=fresh, entry=entry)
