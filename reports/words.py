"""Words and numbers as people read them; shared by the page, the summary and the JUnit file."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

#: How loud a status is when several are summed up in one: the first that occurs wins.
LOUDNESS = ("fail", "crashed", "flaky", "infra", "not_compared", "inconclusive", "unsupported", "not_tested", "pass")

#: Statuses that make the gate exit 1; the rest of the non-passes say that nothing is known.
WRONG = frozenset({"fail", "crashed", "flaky"})

STATUS_WORDS = {
    "pass": "Pass",
    "fail": "Fail",
    "crashed": "Crashed",
    "flaky": "Flaky",
    "unsupported": "Unsupported",
    "not_compared": "Not compared",
    "inconclusive": "Inconclusive",
    "infra": "Farm fault",
    "not_tested": "Not tested",
}

NOTE_WORDS = {
    "changed": "new bits, within bounds",
    "nondeterministic": "varies between runs, within bounds",
    "observer_effect": "watching the layers changes the result",
    "accepted": "accepted by a reviewed file",
    "known_failure": "known failure",
    "known_failure_passes": "known failure that now passes",
    "base_fails_too": "base fails too: not this commit",
    "golden_suspect": "golden suspect: the other referees agree with the device",
    "quantisation_loss": "quantisation loses more than the bounds: the model, not the commit",
    "retried": "after an infrastructure fault, on another attempt or unit",
}

#: A note in one or two words, for the cell of a table.
NOTE_MARKS = {
    "changed": "new bits",
    "nondeterministic": "varies",
    "observer_effect": "observer",
    "accepted": "accepted",
    "known_failure": "known",
    "known_failure_passes": "now passes",
    "base_fails_too": "base too",
    "golden_suspect": "golden?",
    "quantisation_loss": "quantised",
    "retried": "retried",
}

COLUMN_WORDS = {
    "quantisation": "quantisation (integer reference against FP32)",
    "backend": "backend (device against the integer reference)",
    "cpu": "the device's CPU backend (against the integer reference)",
}

METRIC_WORDS = {
    "max_abs": "largest absolute error",
    "scaled_rms": "scaled error (largest error / RMS of golden)",
    "scaled_p999": "scaled error (largest error / 99.9th percentile of golden)",
    "rmse": "root mean square error",
    "sqnr_db": "signal to error ratio, dB",
    "cosine": "cosine",
    "norm_ratio": "norm ratio",
}

# C0 and C1 controls, bidirectional overrides, line separators, lone surrogates and non-characters: unreadable on a
# page, and partly illegal in XML 1.0.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")


def visible(text: str) -> str:
    """Return ``text`` with every character that cannot be seen written as ``\\xNN`` or ``\\uNNNN``."""

    def escape(found: re.Match[str]) -> str:
        code = ord(found.group())
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _UNSEEN.sub(escape, text)


def number(value: float | None, digits: int = 3) -> str:
    """Return a short decimal: ``0.00012`` as ``1.2e-4``; ``"–"`` where there is no number."""
    if value is None or not math.isfinite(value):
        return "–"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"


def size(count: int) -> str:
    """Return a byte count in decimal units."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def seconds(value: float) -> str:
    """Return a duration: ``62.4`` as ``1 min 2 s``."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def plural(count: int, one: str, many: str = "") -> str:
    """Return ``1 chip`` or ``2 chips``."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def named(names: list[str], limit: int = 4) -> str:
    """Return ``a, b and c``, or ``a, b, c and 5 more``."""
    if len(names) > limit + 1:
        return ", ".join(names[:limit]) + f" and {len(names) - limit} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1] if names else ""]))


def loudest(statuses: list[str]) -> str:
    """Return the status that sums up several; ``not_tested`` when there is none."""
    return min(statuses, key=LOUDNESS.index, default="not_tested")


@dataclass(frozen=True)
class Headline:
    """The verdict in one breath."""

    status: str
    title: str
    detail: str
    next_step: str


def is_known(case: Json) -> bool:
    """Tell whether a case that is not a pass is a reviewed known failure."""
    return "known_failure" in case["notes"]


def headline(verdict: Json) -> Headline:
    """Return what a reader needs first: the verdict, the reason in words and what to do."""
    status = verdict["status"]
    if status == "pass":
        return _passed(verdict)
    if status == "fail":
        return _failed(verdict)
    open_items = [item for item in verdict["not_tested"] if item["required"]]
    step = open_items[0]["next_step"] if open_items else "read what was not tested below, mend it, run the gate again"
    unknown = [c for c in verdict["cases"] if c["status"] not in WRONG | {"pass"}]
    if status == "incomplete":
        if not verdict["cases"]:
            title = "Incomplete: nothing was compared"
        else:
            title = f"Incomplete: {plural(len(open_items) + len(unknown), 'required result')} could not be had"
        names = [item["name"] for item in open_items] or sorted({c["device"] for c in unknown})
        detail = "Nothing wrong was found, and that is not a pass: " + (named(names) or "something required")
        return Headline(status, title, f"{detail} gave no verdict.", step)
    detail = "The gate itself could not finish; what is shown below is what it had by then."
    return Headline(status, "Error: the run did not finish", detail, step)


def _passed(verdict: Json) -> Headline:
    coverage = verdict["coverage"]
    changed = [c for c in verdict["cases"] if "changed" in c["notes"]]
    chips = plural(coverage["devices_tested"], "chip")
    cases = plural(len({c["case"] for c in verdict["cases"]}), "case")
    detail = f"{number(coverage['layers_paired'])} of {plural(coverage['layers_expected'], 'layer')} compared."
    if _all_identical(verdict):
        detail += " Every layer has the same bits on every chip."
    step = "Nothing to do."
    if any("known_failure_passes" in c["notes"] for c in verdict["cases"]):
        step = "A known failure passes now: remove its entry from expectations/ in this change."
    elif changed:
        detail += f" {plural(len(changed), 'result has', 'results have')} new bits, within bounds."
        step = "Read what changed below; if it is intended, nothing else to do."
    return Headline("pass", f"Pass: {cases} agree on {chips}", detail, step)


def _all_identical(verdict: Json) -> bool:
    groups = verdict["bit_identity"]
    return bool(groups) and all(len(g["groups"]) == 1 and g["identical_layers"] == g["total_layers"] for g in groups)


def _failed(verdict: Json) -> Headline:
    wrong = [c for c in verdict["cases"] if c["status"] in WRONG and not is_known(c)]
    total = len(verdict["cases"])
    devices = list(dict.fromkeys(c["device"] for c in wrong))
    where = f"all {len(devices)} chips" if len(devices) == len(verdict["devices"]) > 1 else named(devices)
    title = f"Fail: {len(wrong)} of {plural(total, 'result')} wrong" + (f", on {where}" if where else "")
    layers = list(dict.fromkeys(c["first_deviating_layer"] for c in wrong if c["first_deviating_layer"]))
    run = verdict["run"]
    if not layers:
        detail = (
            f"{STATUS_WORDS[wrong[0]['status']]}: {wrong[0]['reason']}."
            if wrong
            else "A check outside the cases failed; see the notes below."
        )
        return Headline("fail", title, detail, "Read the failures below; the log of the device says more.")
    detail = f"First deviating layer: {named(layers, 2)}."
    if run["inject"]:
        step = f"This run broke the model on purpose ({run['inject']}); a red verdict is the right one."
    else:
        step = (
            "Look at that layer first: layers after it inherit its error. If the change is intended, "
            f"type: lockstep accept {run['id']} --case CASE --reason WHY"
        )
    return Headline("fail", title, detail, step)
