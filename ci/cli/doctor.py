"""``lockstep doctor``: is this machine ready?"""

from __future__ import annotations

import click

from ci.doctor import checks


@click.command("doctor")
def command() -> int:
    """Check what a gate needs on this machine; exits 3 when something is missing."""
    found = checks()
    for check in found:
        mark = click.style("ok     ", fg="green") if check.ok else click.style("MISSING", fg="red", bold=True)
        click.echo(f"{mark} {check.name}: {check.detail}")
        if not check.ok and check.next_step:
            click.echo(f"        next: {check.next_step}")
    missing = sum(not check.ok for check in found)
    click.echo("everything a gate needs is here" if not missing else f"{missing} of {len(found)} checks failed")
    return 3 if missing else 0
