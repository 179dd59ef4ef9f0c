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
      lockstep thresholds learn cpu-fp16 --base fp16
      lockstep thresholds show cpu-fp16
      lockstep thresholds diff fp16 cpu-fp16
      lockstep compare golden.npz phone.npz --profile cpu-fp16
      lockstep gate --profile cpu-fp16
    """


@command.command("learn")
@click.argument("name")
@click.option(
    "--base",
    type=click.Choice(["fp32", "fp16", "bf16", "int8"]),
    default="fp32",
    show_default=True,
    help="Precision of the engines, and the profile whose bounds are never widened.",
)
@click.option(
    "--false-alarms",
    type=float,
    default=0.01,
    show_default=True,
    help="Runs of healthy engines that may be blamed, on models never seen.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("thresholds"), show_default=True)
@click.option(
    "--devices",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("devices.yaml"),
    show_default=True,
    help="Its emulated devices are the other chips.",
)
@click.option("--host-only", is_flag=True, help="Learn from engines of this host's chip alone.")
@click.option("--quiet", is_flag=True, help="No progress.")
def learn_command(
    name: str, base: str, false_alarms: float, out: Path, devices: Path, host_only: bool, quiet: bool
) -> int:
    """Run every healthy engine on this host and on emulated chips, and write thresholds/NAME.yaml.

    Each family of models is also judged by what the others taught; exit code 1 when more of those runs are blamed,
    beyond those that the base blames itself, than stated.
    """
    from ci.learning.chips import chip_engines  # noqa: PLC0415 - heavy imports; --help stays quick
    from ci.learning.observe import observe  # noqa: PLC0415
    from ci.learning.write import write_learned  # noqa: PLC0415
    from engine.contract.errors import UsageError  # noqa: PLC0415

    if not 0.0 < false_alarms <= 0.5:
        raise UsageError(
            f"--false-alarms {false_alarms} is no rate", hint="give a number above 0 and at most 0.5, such as 0.01"
        )
    say = (lambda _: None) if quiet else (lambda line: click.echo(click.style(f"  {line}", dim=True), err=True))
    command_line = "lockstep " + " ".join(sys.argv[1:])
    today = datetime.now(UTC).date().isoformat()
    chips = chip_engines(Path.cwd(), base, None if host_only else devices, say)
    observed = observe(Path.cwd(), base, say, chips=chips)
    for line in observed.left_out:
        click.echo(f"left out: {line}", err=True)
    path, file = write_learned(observed, name, base, false_alarms, out, today, command_line)
    click.echo(path.read_text(encoding="utf-8"), nl=False)
    all_ = file.achieved
    low, high = all_.added_interval
    click.echo(
        f"{path}: {all_.added} of {all_.runs} held-out runs blamed that {base} passes "
        f"(95 % interval {low:g} … {high:g}; stated {false_alarms:g}), {all_.by_base} that it blames too",
        err=True,
    )
    return int(all_.added > false_alarms * all_.runs)


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
