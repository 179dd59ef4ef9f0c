"""``lockstep thresholds``: bounds learned from healthy engines, as files that people review."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click


@click.group("thresholds")
def command() -> None:
    """Noise floors learned from healthy engines; `--profile NAME` judges by one.

    \b
    Examples:
      lockstep thresholds learn my-floor --false-alarms 0.001
      lockstep thresholds show my-floor
      lockstep thresholds diff fp32 my-floor
      lockstep compare golden.npz phone.npz --profile my-floor
    """


@command.command("learn")
@click.argument("name")
@click.option(
    "--false-alarms", type=float, default=0.001, show_default=True, help="Runs of healthy engines that may be blamed."
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("thresholds"), show_default=True)
@click.option("--quiet", is_flag=True, help="No progress.")
def learn_command(name: str, false_alarms: float, out: Path, quiet: bool) -> int:
    """Run every healthy engine of this host and write thresholds/NAME.yaml.

    Each model is also judged by what the others taught; exit code 1 when more of those runs are blamed than stated.
    """
    from ci.learning import observe, write_learned  # noqa: PLC0415 - heavy imports; --help stays quick
    from engine.contract.errors import UsageError  # noqa: PLC0415

    if not 0.0 < false_alarms < 1.0:
        raise UsageError(
            f"--false-alarms {false_alarms} is no rate", hint="give a number between 0 and 1, such as 0.001"
        )
    say = (lambda _: None) if quiet else (lambda line: click.echo(click.style(f"  {line}", dim=True), err=True))
    command_line = "lockstep " + " ".join(sys.argv[1:])
    today = datetime.now(UTC).date().isoformat()
    path, held = write_learned(observe(Path.cwd(), say), name, false_alarms, out, today, command_line)
    click.echo(path.read_text(encoding="utf-8"), nl=False)
    runs, blamed = sum(entry.runs for entry in held), sum(entry.false_alarms for entry in held)
    click.echo(f"{path}: {blamed} of {runs} held-out runs blamed", err=True)
    return int(blamed > false_alarms * runs)


@command.command("show")
@click.argument("name")
def show(name: str) -> int:
    """Print the bounds of a profile, and what they were learned from."""
    from ci.profiles import described  # noqa: PLC0415

    click.echo(described(name))
    return 0


@command.command("diff")
@click.argument("a")
@click.argument("b")
def diff(a: str, b: str) -> int:
    """Print what changes from profile A to B; exit code 1 when some bound gets wider."""
    from ci.profiles import changes  # noqa: PLC0415

    lines, wider = changes(a, b)
    click.echo("\n".join(lines) or "the same bounds")
    return int(wider)
