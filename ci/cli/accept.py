"""``lockstep accept``: write an expectation for review."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from ci.accept import accept


@click.command("accept")
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.option("--case", "case", required=True, help="The case to accept.")
@click.option("--device", "devices", multiple=True, help="Only on these devices (default: wherever it ran).")
@click.option("--reason", required=True, help="Why this result is right, or known; reviewers read it.")
@click.option("--owner", help="Who answers for it (default: git's user.email).")
@click.option("--expires", type=click.DateTime(["%Y-%m-%d"]), help="Last day it holds.")
@click.option("--known-failure", is_flag=True, help="It is wrong and known: do not turn red, report when it passes.")
def command(
    run: Path,
    case: str,
    devices: tuple[str, ...],
    reason: str,
    owner: str | None,
    expires: datetime.datetime | None,
    known_failure: bool,
) -> int:
    """Write expectations/CHIP-MODEL/CASE.yaml from RUN, to be reviewed in the same pull request.

    One case at a time: nothing is accepted in bulk.
    """
    last_day = expires.date() if expires else None
    for path in accept(Path.cwd(), run, case, devices, reason, owner, last_day, known_failure):
        click.echo(f"wrote {path}")
    click.echo("next: review the file, commit it with the change that needs it")
    return 0
