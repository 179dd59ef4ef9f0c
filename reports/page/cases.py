"""One section per case: its heat map, its failing layers, and the details of each device."""

from __future__ import annotations

from typing import Any

from reports.layers import STATUSES
from reports.page.readings import readings_in_words
from reports.tables import LAYER_FIELDS, CaseTable
from reports.words import LOUDNESS, loudest, number, plural

Json = dict[str, Any]

MAX_FAILING = 40

#: What the list of failing layers shows of the worst device.
_WORST = ("scaled_rms", "max_abs", "introduced_max_abs", "inherited_max_abs", "bound", "would_pass")


def case_sections(verdict: Json, tables: list[CaseTable]) -> list[Json]:
    """Return the sections of all cases: failing ones first, then in the order of the verdict."""
    numbers = {device["name"]: d for d, device in enumerate(verdict["devices"])}
    chips = {device["name"]: device for device in verdict["devices"]}
    sections = []
    for c, table in enumerate(tables):
        records = [case for case in verdict["cases"] if case["case"] == table.case]
        failing, first, more = _failing_layers(table)
        sections.append(
            {
                "number": c,
                "case": table.case,
                "model": table.model,
                "status": loudest([record["status"] for record in records]),
                "layers": table.count,
                "rows": table.rows,
                "totals": [(status, table.totals[status]) for status in STATUSES if table.totals.get(status)],
                "caption": _caption(table, len(records)),
                "first": first,
                "failing": failing,
                "failing_more": more,
                "results": [
                    {
                        "id": f"c{c}d{numbers[r['device']]}",
                        "part": part_key(c, table.devices.index(r["device"])) if table.rows else "",
                        "device": chips[r["device"]],
                        "case": r,
                        "differs": _differs(r),
                        "surroundings": readings_in_words(r),
                    }
                    for r in records
                ],
            }
        )
    return sorted(sections, key=lambda section: LOUDNESS.index(section["status"]))


def _caption(table: CaseTable, devices: int) -> str:
    if not table.rows:
        return "No layer was seen: this engine shows only its final outputs, or nothing ran."
    if table.identical == table.rows:
        if all(not any(record["max_abs"]) for record in table.records):
            return f"No difference: every layer has the golden's own bits on {plural(devices, 'chip')}."
        return f"Every layer has the same bits as the reference on {plural(devices, 'chip')}."
    parts = [f"{number(table.identical)} of {number(table.rows)} results have the bits of a reference"]
    if table.totals.get("fail"):
        parts.append(f"{number(table.totals['fail'])} are beyond their bound")
    return "; ".join(parts) + "."


def part_key(case: int, device: int | None = None) -> str:
    """The name of the data of one case, or of one device in it: numbers, for names are untrusted."""
    return str(case) if device is None else f"{case}-{device}"


def _failing_layers(table: CaseTable) -> tuple[list[Json], int, int]:
    """A line per failing layer, first deviating ones first, then in the order of the model.

    Beside them: how many are first deviating, and how many more there are than the page lists.
    """
    hit: dict[int, list[int]] = {}
    for device, record in enumerate(table.records):
        for place, status in enumerate(record["status"]):
            if status == "fail":
                hit.setdefault(place, []).append(device)
    introduced = {place for place, on in hit.items() if any(table.records[d]["introduced"][place] for d in on)}
    order = sorted(hit, key=lambda place: (place not in introduced, place))
    lines = [
        {
            **{name: table.layers[name][place] for name in LAYER_FIELDS},
            "devices": [table.devices[device] for device in hit[place]],
            "introduced": place in introduced,
            **_worst(table, place, hit[place]),
        }
        for place in order[:MAX_FAILING]
    ]
    return lines, len(introduced), len(order) - len(lines)


def _worst(table: CaseTable, place: int, devices: list[int]) -> Json:
    """The numbers of the device that is worst at one layer: non-finite values first, then the scaled error."""

    def severity(device: int) -> tuple[int, float]:
        return nonfinite(device), table.records[device]["scaled_rms"][place] or 0.0

    def nonfinite(device: int) -> int:
        return sum(table.records[device][kind][place] or 0 for kind in ("nan", "pos_inf", "neg_inf"))

    worst = max(devices, key=severity)
    return {"nonfinite": nonfinite(worst), "worst": {name: table.records[worst][name][place] for name in _WORST}}


def _differs(record: Json) -> list[str]:
    """Requested and effective settings that are not the same, in words."""
    asked, got = record["requested"], record["effective"]
    return [
        f"{key}: asked for {asked[key]}, got {got.get(key, 'no answer')}" for key in asked if got.get(key) != asked[key]
    ]
