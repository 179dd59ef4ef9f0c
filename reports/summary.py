"""``summary.md``: what the author of a commit reads in the pull request."""

from __future__ import annotations

import re
from typing import Any

from reports.words import NOTE_WORDS, STATUS_WORDS, WRONG, headline, is_known, named, number, plural, visible

Json = dict[str, Any]

MAX_ITEMS = 12

_SPECIAL = re.compile(r"[\\`*_{}\[\]()<>#|~$&!]")


def code(text: str) -> str:
    """Return untrusted text as a Markdown code span: markup, links and mentions in it stay text."""
    text = visible(text) or " "
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.strip(" ") and (text[0] in "` " or text[-1] in "` ") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def prose(text: str) -> str:
    """Return untrusted words for running text: markup becomes entities, an ``@`` mentions nobody."""
    escaped = _SPECIAL.sub(lambda found: f"&#{ord(found.group())};", visible(text))
    return escaped.replace("@", "@\u2060").replace("://", ":\u2060//")


def summary_markdown(verdict: Json) -> str:
    """Return the summary: verdict, new failures, changes, known failures, what was not tested, coverage."""
    head = headline(verdict)
    failures = _failures(verdict)
    blocks = [f"### Lockstep: {prose(head.title)} (exit {verdict['exit_code']})"]
    if not failures:  # the failures say it better
        blocks.append(prose(head.detail))
    if verdict["status"] != "pass" or "Nothing to do" not in head.next_step:
        blocks.append(f"**Next:** {prose(head.next_step)}")
    sections = {
        "New failures": failures,
        "Changed, within bounds": _changed(verdict),
        "Known": _known(verdict),
        "No verdict": _unknown(verdict),
        "Not tested": _not_tested(verdict),
    }
    for title, lines in sections.items():
        if lines:
            more = [f"- … and {len(lines) - MAX_ITEMS} more in the report"] if len(lines) > MAX_ITEMS else []
            blocks.append("\n".join([f"**{title}**", "", *lines[:MAX_ITEMS], *more]))
    blocks.append(_coverage(verdict))
    return "\n\n".join(blocks) + "\n"


def _failures(verdict: Json) -> list[str]:
    groups: dict[tuple[str, str, str], list[Json]] = {}
    for case in verdict["cases"]:
        if case["status"] in WRONG and not is_known(case):
            layer = case["first_deviating_layer"]
            key = (case["model"], case["status"], layer or case["reason"])
            groups.setdefault(key, []).append(case)
    return [_failure(status, members) for (_, status, _), members in groups.items()]


def _failure(status: str, members: list[Json]) -> str:
    first = members[0]
    line = f"- **{STATUS_WORDS[status]}** "
    if first["first_deviating_layer"]:
        line += f"first at {code(first['first_deviating_layer'])}"
        worst = first["worst"]
        if worst:
            line += f": {_measured(worst)}"
    else:
        line += prose(first["reason"])
    return f"{line} — {_where(members)}"


def _measured(worst: Json) -> str:
    words = f"{prose(worst['metric'])} {number(worst['measured'])}, bound {number(worst['bound'])}"
    if worst["measured"] is None:
        return f"{words} ({prose(worst.get('reason') or 'no finite number')})"
    return f"{words}, would pass at {number(worst['would_pass'])}"


def _where(members: list[Json]) -> str:
    devices = [code(name) for name in dict.fromkeys(c["device"] for c in members)]
    cases = [code(name) for name in dict.fromkeys(c["case"] for c in members)]
    return f"on {named(devices, 6)}, in {named(cases, 6)}"


def _changed(verdict: Json) -> list[str]:
    groups: dict[tuple[str, str | None], list[Json]] = {}
    for case in verdict["cases"]:
        changed = case["changed"]
        if changed and (changed["layers_changed"] or changed["outputs_changed"]):
            groups.setdefault((changed["against"], changed["first_changed_layer"]), []).append(case)
    lines = []
    for (against, layer), members in groups.items():
        count = max(c["changed"]["layers_changed"] for c in members)
        start = f", first {code(layer)}" if layer else ""
        lines.append(f"- {plural(count, 'layer')} against {against}{start} — {_where(members)}")
    return lines


def _known(verdict: Json) -> list[str]:
    lines = []
    noted = ("known_failure_passes", "known_failure", "base_fails_too", "accepted", "nondeterministic")
    for note in (*noted, "golden_suspect", "quantisation_loss", "observer_effect", "retried"):
        members = [case for case in verdict["cases"] if note in case["notes"]]
        if members:
            lines.append(f"- {NOTE_WORDS[note].capitalize()} — {_where(members)}")
    return lines


def _unknown(verdict: Json) -> list[str]:
    members = [c for c in verdict["cases"] if c["status"] not in WRONG | {"pass"} and not is_known(c)]
    return [
        f"- {STATUS_WORDS[c['status']]}: {code(c['case'])} on {code(c['device'])}: {prose(c['reason'])}"
        for c in members
    ]


def _not_tested(verdict: Json) -> list[str]:
    items = sorted(verdict["not_tested"], key=lambda item: not item["required"])
    return [
        f"- {item['kind']} {code(item['name'])}{' (required)' if item['required'] else ''}: {prose(item['reason'])}. "
        f"Next: {prose(item['next_step'])}"
        for item in items
    ]


def _coverage(verdict: Json) -> str:
    c = verdict["coverage"]
    return (
        f"<sub>Layers compared {number(c['layers_paired'])} of {number(c['layers_expected'])}, "
        f"{number(c['layers_not_observable'])} not observable · devices tested {c['devices_tested']} of "
        f"{c['devices_required']} required, {c['devices_real']} real, {c['devices_emulated']} emulated · "
        f"suite {prose(verdict['run']['suite'])} · engine {prose(verdict['run']['engine'])} "
        f"{prose(verdict['run']['engine_version'] or '')}</sub>"
    )
