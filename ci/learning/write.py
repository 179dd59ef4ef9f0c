"""What was observed as a file that people review."""

from __future__ import annotations

from pathlib import Path

from ci.learning.observe import Observed
from ci.profiles import learned_file, learned_text
from consistency.thresholds import profile
from consistency.thresholds.fitting import LEAST_FAMILIES, held_out, learn
from engine.contract.errors import UsageError
from engine.runtimes import onnxruntime as runtime
from farm.floors import EngineRan, Evidence, LearnedFile


def write_learned(
    observed: Observed, name: str, base: str, rate: float, folder: Path, date: str, command: str
) -> tuple[Path, LearnedFile]:
    """Learn, judge each family by the others, and write ``folder/NAME.yaml``. ``date`` as YYYY-MM-DD.

    ``UsageError`` when there is too little to learn from; nothing is written then.
    """
    rules, seen = profile(base), observed.observations
    learned = learn(seen, rate, rules)
    families: dict[str, set[str]] = {}
    for entry in seen:
        families.setdefault(entry.family, set()).add(entry.model)
    if not learned.rules:
        raise UsageError(
            f"nothing can be learned from {len(families)} families of models",
            hint=f"an operator needs {LEAST_FAMILIES} families that have it and show some error",
        )
    evidence = Evidence(
        date=date,
        command=command,
        families={family: tuple(sorted(models)) for family, models in sorted(families.items())},
        engines=tuple(
            EngineRan(engine=ran.engine, chip=ran.chip, models=tuple(ran.models), runs=ran.runs)
            for ran in observed.engines
        ),
        versions={"onnxruntime": runtime.version()},
        runs=len({entry.run for entry in seen}),
        layers=len(seen),
    )
    file = learned_file(name, base, rate, evidence, held_out(seen, rate, rules), learned)
    path = folder / f"{name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(learned_text(file), encoding="utf-8")
    return path, file
