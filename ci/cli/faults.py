"""``lockstep faults``: the faults that a comparison must find, and how many of them it does."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.group("faults")
def command() -> None:
    """Faults to break a model with, and the pilot that shows how many are found.

    \b
    Examples:
      lockstep faults list
      lockstep faults run --seed 1 --quick
      lockstep faults run --seed 1 --page docs/sensitivity.md
      lockstep gate --inject nan@LAYER        one of them through the whole farm
    """


@command.command("list")
def list_faults() -> int:
    """Every kind of fault, and what it stands for."""
    from ci.sensitivity.page import kind_list  # noqa: PLC0415 - heavy imports; --help stays quick

    click.echo(kind_list(), nl=False)
    return 0


@command.command("run")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="Chooses the layers.")
@click.option("--quick", is_flag=True, help="Two small models, one fault of each kind: a minute.")
@click.option("--page", "page_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the page there.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write every trial there.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("build/faults"),
    show_default=True,
    help="Keep finished trials there; a run that was interrupted goes on with them.",
)
@click.option("--fresh", is_flag=True, help="Make every trial again, whatever is kept of this seed and tree.")
@click.option("--quiet", is_flag=True, help="No progress.")
def run(
    seed: int, quick: bool, page_file: Path | None, json_file: Path | None, out: Path, fresh: bool, quiet: bool
) -> int:
    """Break models, run healthy engines beside them, and count what each judge finds.

    A run of the same seed that was interrupted goes on where it was, while sources and packages are the same; the page
    is made of one complete run. Exit code 1 when a healthy engine was blamed by ours, or a fault was missed; the page
    lists each with its reason.

    \b
    Examples:
      lockstep faults run --quick
      lockstep faults run --seed 7 --page docs/sensitivity.md --json build/pilot.json
    """
    from ci.sensitivity.journal import open_journal  # noqa: PLC0415 - heavy imports; --help stays quick
    from ci.sensitivity.page import page  # noqa: PLC0415
    from ci.sensitivity.pilot import run_pilot  # noqa: PLC0415
    from ci.sensitivity.records import document  # noqa: PLC0415
    from ci.sensitivity.trials import OURS  # noqa: PLC0415

    say = (lambda _: None) if quiet else (lambda line: click.echo(click.style(f"  {line}", dim=True), err=True))

    def tell(line: str) -> None:  # quiet or not: it says what is not new
        click.echo(line, err=True)

    with open_journal(out, Path.cwd(), seed, tell, quick=quick, fresh=fresh) as journal:
        pilot = run_pilot(Path.cwd(), seed, say, quick=quick, journal=journal)
    text = page(pilot)
    for path, content in ((page_file, text), (json_file, json.dumps(document(pilot), indent=1, allow_nan=False))):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    click.echo(text if page_file is None else f"{page_file} written; its trials took {pilot.seconds:.0f} s")
    missed = any(pilot.effective(trial) and not trial.failed[OURS] for trial in pilot.mutants)
    return int(missed or any(trial.failed[OURS] for trial in pilot.benign))
