"""``docs/sensitivity.md`` from a pilot; nobody edits it by hand."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from ci.sensitivity.records import ArrayTrial, Pilot, Trial
from ci.sensitivity.subjects import SUBJECTS
from ci.sensitivity.trials import OURS
from consistency import faults as array_faults
from consistency import words
from consistency.faults import mutations
from consistency.proportion import wilson
from engine.models import faults as executed_faults
from engine.models.mutate import kinds

HEAD = """# Sensitivity

How much `lockstep compare` sees, and how often it cries wolf. `make sensitivity` breaks models on purpose, runs them,
runs healthy engines beside them, and writes this page; nothing here is written by hand. `lockstep faults run --quick`
is the same in small and writes no page. Finished trials are kept in `build/faults`: a run that was interrupted goes on
with those of the same seed and sources (`--fresh` makes them again), and a page is made of one complete run.
"""

METHOD = """## How it is measured

- A **mutant** is a model with one fault at one layer, executed by ONNX Runtime (optimisation off) or by `refrt` on
  this host; every layer is captured and judged against the golden run of the whole model.
- A **benign run** is a healthy engine on the whole model: other thread counts, optimisation levels, kernels without
  prepacking, flushed subnormals, outputs exposed sparsely so that operators are fused, ONNX's reference evaluator,
  `refrt` and `refrt-fast`. A judge that finds anything in one has given a **false alarm**.
- A mutant **counts** when it changes a final output by more than any benign run of that model did, of that output's
  largest value (the *floor* below). The others are listed apart: nobody can ask that they be found.
- **Detected**: some layer fails. **Exact**: the layers that introduced the error are those of the broken node and no
  others. All judges get the same tensors and, for the exact layer, the same graph; their rules are judged at every
  layer. Brackets hold 95 % intervals (Wilson).
- Polygraphy is the package itself, `SimpleCompareFunc()` with its defaults; `np.allclose` has rtol 1e-5 and atol
  1e-8; *cosine* fails below 0.99; *cosine + RMSE* also where the RMSE exceeds 1 % of the reference's RMS.
"""


def page(pilot: Pilot) -> str:
    """The whole page."""
    counted = [trial for trial in pilot.mutants if pilot.effective(trial)]
    parts = [
        HEAD,
        _origin(pilot),
        "## Who finds what\n",
        _summary(pilot, counted),
        "## By kind of fault\n",
        _by_kind(counted),
        "## By model and engine\n",
        _by_model(pilot),
        "## Missed, or another layer named\n",
        _misses(counted),
        "## False alarms\n",
        _alarms(pilot),
        "## Mutations of captured arrays\n",
        _arrays(pilot),
        METHOD,
        "## Kinds of fault\n",
        kind_list(),
    ]
    return "\n".join(parts)


def kind_list() -> str:
    """Every kind with the first line of its file, executed ones and those of arrays."""
    lines = ["Executed, at `KIND@LAYER` of `lockstep gate --inject`, too:\n"]
    lines += [f"- `{name}`: {_said(executed_faults.__name__, name)}" for name in kinds()]
    lines += ["\nOf captured arrays:\n"]
    lines += [f"- `{name}`: {_said(array_faults.__name__, name)}" for name in mutations()]
    return "\n".join(lines) + "\n"


def _said(package: str, name: str) -> str:
    told = (importlib.import_module(f"{package}.{name}").__doc__ or "").splitlines()[0]
    return told.partition(": ")[2]


def _origin(pilot: Pilot) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in pilot.versions.items())
    return (
        f"Seed {pilot.seed}{', quick' if pilot.quick else ''}; {versions}; {len(pilot.mutants)} mutants and "
        f"{len(pilot.benign)} benign runs.\n"
    )


def _summary(pilot: Pilot, counted: Sequence[Trial]) -> str:
    rows = [["judge", f"detected of {len(counted)}", "exact layer of those", f"false alarms of {len(pilot.benign)}"]]
    for judge in pilot.judges:
        found = [trial for trial in counted if trial.failed[judge]]
        rows.append(
            [
                judge,
                _share(len(found), len(counted)),
                _share(sum(trial.exact[judge] for trial in found), len(found)),
                _share(sum(trial.failed[judge] for trial in pilot.benign), len(pilot.benign)),
            ]
        )
    unlike = sum(trial.differs for trial in pilot.benign)
    rest = len(pilot.mutants) - len(counted)
    return _table(rows) + (
        f"\n{unlike} of the benign runs differ from the golden in some bit. {rest} mutants stay within the floor "
        f"and are not counted; ours failed {sum(_failed(pilot, OURS, within=True))} of them.\n"
    )


def _failed(pilot: Pilot, judge: str, *, within: bool) -> list[bool]:
    return [trial.failed[judge] for trial in pilot.mutants if pilot.effective(trial) != within]


def _by_kind(counted: Sequence[Trial]) -> str:
    rows = [["kind", "counted", "detected", "exact layer"]]
    for kind in kinds():
        of_kind = [trial for trial in counted if trial.kind == kind]
        rows.append(
            [
                f"`{kind}`",
                str(len(of_kind)),
                str(sum(trial.failed[OURS] for trial in of_kind)),
                str(sum(trial.exact[OURS] for trial in of_kind)),
            ]
        )
    return _table(rows)


def _by_model(pilot: Pilot) -> str:
    rows = [["model", "engine", "mutants", "counted", "detected", "exact layer", "benign runs", "floor"]]
    for subject in SUBJECTS:
        own = [trial for trial in pilot.mutants if trial.subject == subject.name]
        benign = sum(trial.subject == subject.name for trial in pilot.benign)
        for engine in dict.fromkeys(trial.engine for trial in own):
            made = [trial for trial in own if trial.engine == engine]
            counted = [trial for trial in made if pilot.effective(trial)]
            rows.append(
                [
                    f"{subject.name} ({subject.what})",
                    engine,
                    str(len(made)),
                    str(len(counted)),
                    str(sum(trial.failed[OURS] for trial in counted)),
                    str(sum(trial.exact[OURS] for trial in counted)),
                    str(benign),
                    words.number(pilot.floors[subject.name]),
                ]
            )
    return _table(rows)


def _misses(counted: Sequence[Trial]) -> str:
    wrong = [trial for trial in counted if not trial.exact[OURS]]
    if not wrong:
        return "None.\n"
    return "".join(
        f"- {trial.subject}, {trial.engine}, `{trial.kind}@{trial.layer}`: "
        f"{'another layer' if trial.failed[OURS] else 'missed'}; {trial.note} "
        f"(final output changed by {words.number(trial.change)})\n"
        for trial in wrong
    )


def _alarms(pilot: Pilot) -> str:
    rows = [["judge", "false alarms by kind of run"]]
    for judge in pilot.judges:
        engines = [trial.engine for trial in pilot.benign if trial.failed[judge]]
        told = ", ".join(f"{engine} {engines.count(engine)}" for engine in dict.fromkeys(engines))
        rows.append([judge, told or "none"])
    ours = [trial for trial in pilot.benign if trial.failed[OURS]]
    return _table(rows) + "".join(f"\n- {trial.subject}, {trial.engine}: {trial.note}" for trial in ours)


def _arrays(pilot: Pilot) -> str:
    judges = pilot.judges
    rows = [["kind", "arrays", *judges]]
    for kind in mutations():
        own = [trial for trial in pilot.arrays if trial.kind == kind]
        rows.append([f"`{kind}`", str(len(own)), *(str(_found(own, judge)) for judge in judges)])
    rows.append(["all", str(len(pilot.arrays)), *(str(_found(pilot.arrays, judge)) for judge in judges)])
    missed = [trial for trial in pilot.arrays if not trial.failed[OURS]]
    told = "".join(
        f"- missed: {trial.subject}, `{trial.kind}@{trial.layer}`: {trial.note or 'within the bounds'}\n"
        for trial in missed
    )
    lead = "One layer is changed after the run, where no engine is at fault; nothing behind it changes. Found:\n\n"
    return f"{lead}{_table(rows)}\n{told}"


def _found(trials: Sequence[ArrayTrial], judge: str) -> int:
    return sum(trial.failed[judge] for trial in trials)


def _share(hits: int, trials: int) -> str:
    low, high = wilson(hits, trials)
    percent = 100 * hits / trials if trials else 0.0
    return f"{hits} = {percent:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join([head, f"|{'---|' * len(rows[0])}", *body]) + "\n"
