"""Accepting a result: from a run's verdict to the file that a pull request carries."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any

from ci.expectations import ExpectationFile, write_expectation
from consistency.expectation import extent_of, layers_digest
from engine.contract.errors import UsageError
from farm.config import nearest
from reports import ReportError, read_layers, read_verdict

#: What can be accepted: a result. A device that did not answer gave none.
ACCEPTABLE = ("pass", "fail")


def accept(
    root: Path,
    run: Path,
    case: str,
    devices: tuple[str, ...],
    reason: str,
    owner: str | None,
    expires: datetime.date | None,
    known_failure: bool,
) -> list[Path]:
    """Write one expectation per chip and model on which ``case`` ran; returns the paths."""
    try:
        verdict = read_verdict(run / "verdict.json")
        table = read_layers(run / "layers.parquet")
    except ReportError as error:
        raise UsageError(error.message, hint=error.hint) from error
    entries = [entry for entry in verdict["cases"] if entry["case"] == case]
    if not entries:
        known = sorted({entry["case"] for entry in verdict["cases"]})
        raise UsageError(f"{run} has no case {case!r}: {nearest(case, known)}", hint="one case at a time")
    for device in devices:
        if device not in [entry["device"] for entry in entries]:
            ran = sorted(entry["device"] for entry in entries)
            raise UsageError(f"{case} did not run on {device!r}: {nearest(device, ran)}", hint=f"see {run}/summary.md")
    if expires is not None and expires < datetime.date.today():
        raise UsageError(f"--expires {expires} is in the past", hint="give the last day on which it should hold")
    chosen = [entry for entry in entries if not devices or entry["device"] in devices]
    unusable = [entry for entry in chosen if entry["status"] not in ACCEPTABLE]
    if unusable:
        raise UsageError(
            f"{case} on {unusable[0]['device']} is {unusable[0]['status']}: there is no result to accept",
            hint="mend that first, or choose devices with --device",
        )
    models = {entry["name"]: f"{entry['chip']}-{entry['model']}" for entry in verdict["devices"]}
    rows = table.to_pylist()
    made = []
    for entry in chosen:
        own = [row for row in rows if row["case"] == case and row["device"] == entry["device"]]
        made.append(
            ExpectationFile(
                case=case,
                chip_model=models[entry["device"]],
                engine=verdict["run"]["engine"],
                kind="known_failure" if known_failure else "accepted",
                owner=owner or _git_email(root),
                reason=reason,
                accepted=datetime.date.today(),
                expires=expires,
                run=verdict["run"]["id"],
                outputs={output["name"]: output["digest"] for output in entry["outputs"]},
                layers_digest=layers_digest({row["layer"]: row["digest"] for row in own if row["digest"]}),
                first_deviating=tuple(entry["first_deviating_layers"]),
                max_scaled=_extents(own),
                tasks=tuple(task["name"] for task in entry["tasks"] if task["status"] == "fail"),
            )
        )
    return [write_expectation(root, entry) for entry in made]


def _extents(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Failing layers with how far each was off; non-finite values have no extent."""
    extents = {
        row["layer"]: extent_of(
            row["dtype"],
            max_abs=row["max_abs"],
            scaled_p999=row["scaled_p999"],
            scaled_rms=row["scaled_rms"],
            rmse=row["rmse"],
        )
        for row in rows
        if row["status"] == "fail" and not (row["nan"] or row["pos_inf"] or row["neg_inf"])
    }
    return {layer: value for layer, value in extents.items() if value is not None}


def _git_email(root: Path) -> str:
    done = subprocess.run(
        ["git", "config", "user.email"], cwd=root, capture_output=True, text=True, timeout=10, check=False
    )
    email = done.stdout.strip()
    if not email:
        raise UsageError("nobody answers for this result", hint="give --owner NAME, or set git's user.email")
    return email
