"""``lockstep prune``: make room, by kind of evidence."""

from __future__ import annotations

from pathlib import Path

import click

from ci.prune import accepted_runs, ages, prune
from ci.prunetable import prune_table
from engine.places import cache_root, state_root
from farm.retention import AGES, KEPT_RUNS, Rules
from farm.store import Store


@click.command("prune", epilog=f"Kinds: {', '.join(AGES)} (docs/sweeps.md says what each is).")
@click.option("--dry-run", is_flag=True, help="Only tell what would go, and how many bytes.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind (may be repeated).")
@click.option("--older-than", metavar="AGE", help="One age for all kinds, for example 30d (h, d, w, y).")
@click.option("--keep", multiple=True, metavar="KIND=AGE", help="Another age for one kind (may be repeated).")
@click.option(
    "--keep-runs",
    type=click.IntRange(min=0),
    default=KEPT_RUNS,
    show_default=True,
    help="The newest runs and reports stay whatever their age.",
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), show_default=True, help="Folder of runs.")
def command(
    dry_run: bool, kinds: tuple[str, ...], older_than: str | None, keep: tuple[str, ...], keep_runs: int, out: Path
) -> int:
    """Remove old evidence: each kind has an age, failing runs stay thrice as long.

    What a living run or an unfinished sweep uses stays, and so does what an
    accepted expectation rests on.

    \b
    Examples:
      lockstep prune --dry-run                  what would go, and how many bytes
      lockstep prune                            by the default ages
      lockstep prune --kind reports --older-than 1w --keep-runs 3
      lockstep prune --keep jobs=1y --keep logs=2d
    """
    rules = Rules(ages(kinds, older_than, keep), keep_runs, accepted_runs(Path.cwd()))
    with Store() as store:
        pruned = prune(rules, store, out=out, state=state_root(), cache=cache_root(), dry_run=dry_run)
        click.echo(prune_table(pruned, rules, store.clock(), dry_run=dry_run))
    return 3 if pruned.kept_back else 0
