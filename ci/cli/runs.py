"""``lockstep runs``: what the store knows of runs; watch one, cancel one."""

from __future__ import annotations

import click

from ci.runlist import runs_table, show_run
from engine.contract.errors import UsageError
from farm.runwatch import watch_run
from farm.store import Store
from farm.store.jobs import whoami
from farm.store.runs import cancel_run, find_run, list_runs


@click.group("runs", invoke_without_command=True)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="How many, newest first.")
@click.option("--living", is_flag=True, help="Only what has not ended.")
@click.option("--sweep", metavar="ID", help="Only the runs of this sweep.")
@click.pass_context
def command(context: click.Context, limit: int, living: bool, sweep: str | None) -> int:
    """List runs: kind, owner, what they test, how far they are.

    \b
    Examples:
      lockstep runs                     the last 20 runs
      lockstep runs --living            what runs at this moment, on any host
      lockstep runs show latest         jobs, attempts, devices, errors, report
      lockstep runs watch 4f2a1c        follow it (the end of its id is enough)
      lockstep runs cancel 4f2a1c --reason "phone needed for a demo"
    """
    if context.invoked_subcommand is not None:
        return 0
    with Store() as store:
        sweep_id = find_run(store, sweep).id if sweep else None
        runs = list_runs(store, limit=limit, living=living, sweep=sweep_id)
        click.echo(runs_table(runs, store.clock()) if runs else "no runs")
    return 0


@command.command("show")
@click.argument("run", default="latest")
def show(run: str) -> int:
    """Show RUN (an id, its beginning or end, or "latest"): jobs, attempts, devices, errors, report.

    \b
    Examples:
      lockstep runs show
      lockstep runs show 20261129-023000-4f2a1c
    """
    with Store() as store:
        click.echo(show_run(store, find_run(store, run)))
    return 0


@command.command("watch")
@click.argument("run", default="latest")
def watch(run: str) -> int:
    """Follow RUN until it ends, whoever drives it: live in a terminal, else a line per job that ends.

    Leaves with 0 when the run is done, with 3 when it was cancelled or abandoned.

    \b
    Examples:
      lockstep runs watch               the newest run
      lockstep runs watch 4f2a1c 2>night.log
    """
    with Store() as store:
        ended = watch_run(store, find_run(store, run), lambda text: click.echo(text, err=True))
        click.echo(f"run {ended.id} is {ended.status}: {ended.ended} of {ended.total} jobs ended")
    return 0 if ended.status == "done" else 3


@command.command("cancel")
@click.argument("run")
@click.option("--reason", required=True, help="Why, for those who wait for it.")
@click.option("--by", help="Who cancels (default: this user on this host).")
def cancel(run: str, reason: str, by: str | None) -> int:
    """End RUN: free its devices, end what runs on them, tell the command that drives it.

    That command leaves with exit code 3 and says who cancelled it and why.

    \b
    Examples:
      lockstep runs cancel latest --reason "phone needed for a demo"
    """
    if not reason.strip():
        raise UsageError("an empty reason helps nobody", hint="say why: --reason TEXT")
    with Store() as store:
        found = find_run(store, run)
        ended = cancel_run(store, found.id, by or whoami(), reason.strip())
    click.echo(f"run {found.id} is cancelled; {ended} jobs had not ended")
    return 0
