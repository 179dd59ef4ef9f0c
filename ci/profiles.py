"""Learned profiles as people meet them: the text of a file, what it says, and what changes from one to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import yaml

from consistency.proportion import clopper_pearson
from consistency.thresholds import PROFILE_NAMES, IntegerRule, Profile
from consistency.thresholds.fitting import HeldOut, Learned
from consistency.thresholds.learned import CARRIED, CARRIERS, LearnedRule
from consistency.thresholds.profile import Floor
from farm.floors import (
    FOLDER,
    Achieved,
    Evidence,
    HeldOutFamily,
    Integers,
    LearnedFile,
    Rule,
    find_profile,
    read_learned,
)

WIDTH = 110
HEAD = "# Written by `lockstep thresholds learn`; review it like code: docs/thresholds.md.\n"


def learned_file(
    name: str, base: str, rate: float, evidence: Evidence, held: Sequence[HeldOut], learned: Learned
) -> LearnedFile:
    """The file's content. ``learned`` must hold rules."""
    return LearnedFile(
        name=name,
        base=base,  # type: ignore[arg-type]  # pydantic checks it
        false_alarms_per_run=rate,
        margin=_digits(learned.margin or 1.0),
        excesses={family: _digits(learned.excesses[family]) for family in sorted(learned.excesses)},
        evidence=evidence,
        held_out=tuple(HeldOutFamily(**vars(entry)) for entry in held),
        achieved=achieved(held),
        rules=tuple(_rule(rule) for rule in learned.rules),
    )


def learned_text(file: LearnedFile) -> str:
    """The file's text; the same evidence gives the same bytes."""
    document = file.model_dump(mode="json", exclude_none=True)
    return HEAD + yaml.dump(document, Dumper=_Lines, sort_keys=False, width=WIDTH)


class _Lines(yaml.SafeDumper):
    """Lists of plain values on one line."""


def _list(dumper: _Lines, data: list[object]) -> yaml.Node:
    plain = all(isinstance(value, (str, int, float)) for value in data)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=plain)


_Lines.add_representer(list, _list)


def achieved(held: Sequence[HeldOut]) -> Achieved:
    """What became of all held-out runs."""
    runs, added = sum(entry.runs for entry in held), sum(entry.blamed - entry.by_base for entry in held)
    worse = sum(entry.blamed > entry.by_base for entry in held)
    return Achieved(
        runs=runs,
        blamed=sum(entry.blamed for entry in held),
        by_base=sum(entry.by_base for entry in held),
        added=added,
        added_interval=_interval(added, runs),
        families=len(held),
        families_added=worse,
        families_added_interval=_interval(worse, len(held)),
    )


def described(name: str, folder: Path = FOLDER) -> str:
    """A profile in words: every rule, and the evidence of a learned one."""
    found = find_profile(name, folder)
    if name in PROFILE_NAMES:
        return "\n".join(_plain(found))
    learned = read_learned(name, folder)
    head = (
        f"{'operator':18} {'dtype':9} {'backend':8} {'bound':>21} {'fitted':>8} {'base':>8} {'largest':>8} "
        f"{'base/largest':>12} {'layers':>7} {'families':>8}"
    )
    lines = [*_evidence(learned), "", head, *(_told(rule, found) for rule in learned.rules)]
    lines += ["fitted: what the stated rate would allow at the longest reduction, were the base not there"]
    lines += [f"any other operator, dtype, backend or longer reduction: the rule of {learned.base}"]
    if any(rule.op == CARRIED for rule in learned.rules):
        lines += [f"{CARRIED}: {', '.join(sorted(CARRIERS))}"]
    return "\n".join(lines)


def changes(a: str, b: str, folder: Path = FOLDER) -> tuple[list[str], bool]:
    """A line for each bound that differs from profile ``a`` to ``b``, and whether some bound gets wider.

    Each is read at every reduction length at which either of them changes its mind.
    """
    old, new = find_profile(a, folder), find_profile(b, folder)
    lines, wider = [], False
    for op, dtype, backend, length in _places(old, new):
        before, after = (_at(found, op, dtype, backend, length) for found in (old, new))
        for unit, was, now in zip(("", " LSB", " differing"), before, after, strict=True):
            if was == now:
                continue
            wider = wider or now > was
            factor = f"{now / was:.2g} times" if was else "was exact"
            place = f"{op} {dtype}{f' {backend}' if backend else ''}{f' length {length}' if length else ''}"
            lines.append(f"{place:44} {was:.1e} → {now:.1e}{unit} ({factor}{', WIDER' if now > was else ''})")
    return lines, wider


def _rule(rule: LearnedRule) -> Rule:
    integer = Integers(**vars(rule.integer)) if rule.integer else None
    told = {key: value for key, value in vars(rule).items() if key != "integer"}
    told |= {"largest": _digits(rule.largest)}
    if rule.sharper_above is not None:
        told["sharper_above"] = _digits(rule.sharper_above)
    return Rule(**told, integer=integer)


def _digits(value: float) -> float:
    return float(f"{value:.3g}")


def _interval(hits: int, trials: int) -> tuple[float, float]:
    low, high = clopper_pearson(hits, trials)
    return _digits(low), _digits(high)


def _plain(found: Profile) -> list[str]:
    lines = [f"{'operator':24} {'rtol':>9}"]
    lines += [f"{op:24} {found.by_op[op].rtol:9.1e}" for op in sorted(found.by_op)]
    lines += [f"{'any other':24} {found.floats.rtol:9.1e}"]
    integers = {**dict(sorted(found.integers.items())), "other integers": found.other_integers}
    return lines + [
        f"{dtype:24} {rule.max_lsb} LSB in at most {100 * rule.max_differing:g} % of the elements"
        for dtype, rule in integers.items()
    ]


def _told(rule: Rule, found: Profile) -> str:
    if rule.integer:
        base = found.integers.get(rule.dtype, found.other_integers).max_differing
        bound = f"{rule.integer.max_lsb} LSB, {rule.integer.max_differing:.1e}"
    else:
        base = found.by_op.get(rule.op, found.floats).rtol
        grown = f" × n^{rule.growth:g} to {rule.longest}" if rule.growth else ""
        bound = f"{rule.rtol:.1e}{grown}"
    notes = []
    if rule.capped:
        above = f", sharper above a rate of {rule.sharper_above:g}" if rule.sharper_above is not None else ""
        notes += [f"the bound of {found.base} stays{above}"]
    notes += [f"{rule.beyond} layers beyond {found.base}"] if rule.beyond else []
    fitted = f"{rule.fitted:8.1e}" if rule.fitted else f"{'':8}"
    line = (
        f"{rule.op:18} {rule.dtype:9} {rule.backend:8} {bound:>21} {fitted} {base:8.1e} {rule.largest:8.1e} "
        f"{base / rule.largest:12.1f} {rule.layers:7}"
    )
    return f"{line} {rule.families:8}  {'; '.join(notes)}".rstrip()


def _evidence(learned: LearnedFile) -> list[str]:
    told, all_ = learned.evidence, learned.achieved
    low, high = all_.added_interval
    held = [
        f"  {e.family}: {e.blamed} of {e.runs} blamed, {e.by_base} of them by {learned.base} too"
        for e in learned.held_out
    ]
    return [
        f"{learned.full_name}: over {learned.base}, stated rate {learned.false_alarms_per_run:g} false alarms a run",
        f"margin {learned.margin:g} over the largest error seen, from the excesses of {len(learned.excesses)} families",
        f"learned {told.date} from {told.layers} layers of {told.runs} runs",
        *(f"  {family}: {', '.join(models)}" for family, models in told.families.items()),
        "engines:",
        *(f"  {ran.engine}: {ran.runs} runs of {len(ran.models)} models on {ran.chip}" for ran in told.engines),
        f"held out, {all_.added} of {all_.runs} runs blamed that {learned.base} passes (95 %: {low:g} … {high:g})",
        *held,
        f"command: {told.command}",
    ]


def _places(old: Profile, new: Profile) -> list[tuple[str, str, str, int]]:
    """Where two profiles may differ: each rule of either, and each learned bound at the lengths where one ends."""
    learned: dict[tuple[str, str, str], set[int]] = {}
    for found in (old, new):
        for key, floor in found.floors.items():
            ends = {1, floor.longest, floor.longest + 1} if floor.rtol is not None and floor.longest > 1 else {0}
            learned.setdefault(key, set()).update(ends)
    places = [(op, "float32", "", 0) for op in [*sorted({*old.by_op, *new.by_op}), "any other"]]
    places += [("any", dtype, "", 0) for dtype in sorted({*old.integers, *new.integers, "int32"})]
    return places + [(*key, length) for key, lengths in sorted(learned.items()) for length in sorted(lengths)]


def _at(found: Profile, op: str, dtype: str, backend: str, length: int) -> tuple[float, float, float]:
    """The bound there: of the scale, in LSB, and the share that may differ."""
    floor = found.floors.get((op, dtype, backend), Floor())
    if dtype.startswith(("float", "bfloat")):
        return min(found.by_op.get(op, found.floats).rtol, floor.share(length)), 0.0, 0.0
    rule = found.integers.get(dtype, found.other_integers)
    learned = floor.integer or IntegerRule(rule.max_lsb, math.inf)
    return 0.0, float(min(rule.max_lsb, learned.max_lsb)), min(rule.max_differing, learned.max_differing)
