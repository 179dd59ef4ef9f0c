"""One section per case: its heat map, its failing layers, and the details of each device."""

from __future__ import annotations

from typing import Any

from reports.layers import STATUSES
from reports.page.readings import readings_in_words
from reports.tables import LAYER_FIELDS, RECORD_FIELDS, CaseTable
from reports.words import LOUDNESS, loudest, number, plural

Json = dict[str, Any]

MAX_FAILING = 40

_STATUS = RECORD_FIELDS.index("status")
_FAIL = STATUSES.index("fail")


def case_sections(verdict: Json, tables: list[CaseTable]) -> list[Json]:
    """Return the sections of all cases: failing ones first, then in the order of the verdict."""
    numbers = {device["name"]: d for d, device in enumerate(verdict["devices"])}
    chips = {device["name"]: device for device in verdict["devices"]}
    sections = []
    for c, table in enumerate(tables):
        records = [case for case in verdict["cases"] if case["case"] == table.case]
        failing = _failing_layers(table)
        sections.append(
            {
                "number": c,
                "case": table.case,
                "model": table.model,
                "status": loudest([record["status"] for record in records]),
                "layers": len(table.data["layers"]),
                "rows": table.rows,
                "totals": [(status, table.totals[status]) for status in STATUSES if table.totals.get(status)],
                "caption": _caption(table, len(records)),
                "first": sum(layer["introduced"] for layer in failing),
                "failing": failing[:MAX_FAILING],
                "failing_more": max(0, len(failing) - MAX_FAILING),
                "results": [
                    {
                        "id": f"c{c}d{numbers[r['device']]}",
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
        if all(record[RECORD_FIELDS.index("max_abs")] == 0 for record in table.data["records"]):
            return f"No difference: every layer has the golden's own bits on {plural(devices, 'chip')}."
        return f"Every layer has the same bits as the reference on {plural(devices, 'chip')}."
    parts = [f"{number(table.identical)} of {number(table.rows)} results have the bits of a reference"]
    if table.totals.get("fail"):
        parts.append(f"{number(table.totals['fail'])} are beyond their bound")
    return "; ".join(parts) + "."


def _failing_layers(table: CaseTable) -> list[Json]:
    """One line per failing layer, first deviating ones first, then in the order of the model."""
    found = []
    devices = table.data["devices"]
    records = [dict(zip(RECORD_FIELDS, record, strict=True)) for record in table.data["records"]]
    failing = {number for number, record in enumerate(table.data["records"]) if record[_STATUS] == _FAIL}
    for column, layer in enumerate(table.data["layers"]):
        cells = [(devices[line], row[column]) for line, row in enumerate(table.data["cells"]) if row[column] in failing]
        if not cells:
            continue
        hit = [records[cell] for _, cell in cells]
        worst = max(hit, key=_severity)
        found.append(
            {
                **dict(zip(LAYER_FIELDS, layer, strict=True)),
                "devices": [device for device, _ in cells],
                "introduced": any(record["introduced"] for record in hit),
                "nonfinite": max(_nonfinite(record) for record in hit),
                "worst": worst,
            }
        )
    return sorted(found, key=lambda layer: not layer["introduced"])


def _nonfinite(record: Json) -> int:
    return sum(record[key] or 0 for key in ("nan", "pos_inf", "neg_inf"))


def _severity(record: Json) -> tuple[int, float]:
    return _nonfinite(record), record["scaled_rms"] or 0.0


def _differs(record: Json) -> list[str]:
    """Requested and effective settings that are not the same, in words."""
    asked, got = record["requested"], record["effective"]
    return [
        f"{key}: asked for {asked[key]}, got {got.get(key, 'no answer')}" for key in asked if got.get(key) != asked[key]
    ]
