"""What the page shows, section by section, as plain data for the template."""

from __future__ import annotations

from typing import Any

from reports.page.cases import case_sections
from reports.page.compare import changes, identity_rows, pair_matrix
from reports.tables import CaseTable
from reports.words import WRONG, headline, is_known, loudest, number, plural, size

Json = dict[str, Any]


def page_context(verdict: Json, tables: list[CaseTable]) -> Json:
    """Return every variable of ``index.html.j2`` that depends on the run."""
    order = {table.case: position for position, table in enumerate(tables)}
    return {
        "verdict": verdict,
        "run": verdict["run"],
        "head": headline(verdict),
        "tiles": _tiles(verdict),
        "matrix": _matrix(verdict, order),
        "failures": failure_groups(verdict, order),
        "changes": changes(verdict),
        "sections": case_sections(verdict, tables),
        "pairs": pair_matrix(verdict),
        "identity": identity_rows(verdict),
        "not_tested": sorted(verdict["not_tested"], key=lambda item: not item["required"]),
        "fingerprints": _fingerprints(verdict),
        "phases": _phases(verdict),
        "warnings": _warnings(verdict, tables),
        "rows_total": sum(table.rows for table in tables),
    }


def anchor(case: int, device: int) -> str:
    """Return the id of the details of one case on one device: numbers, for names are untrusted."""
    return f"c{case}d{device}"


def _tiles(verdict: Json) -> list[Json]:
    c = verdict["coverage"]
    t = verdict["traffic"]
    share = f"{100 * c['layers_paired'] / c['layers_expected']:.3g} %" if c["layers_expected"] else "none"
    moved = t["bytes_to_devices"] + t["bytes_from_devices"]
    return [
        {
            "label": "Layers compared",
            "value": f"{number(c['layers_paired'])} / {number(c['layers_expected'])}",
            "note": f"{share} of those expected",
            "bad": c["layers_paired"] + c["layers_not_observable"] < c["layers_expected"],
        },
        {
            "label": "Not observable",
            "value": number(c["layers_not_observable"]),
            "note": "fused or folded away; never counted as equal",
            "bad": False,
        },
        {
            "label": "Devices tested",
            "value": f"{c['devices_tested']} / {c['devices_required']}",
            "note": f"required; {c['distinct_dispatch']} distinct dispatch paths",
            "bad": c["devices_tested"] < c["devices_required"],
        },
        {
            "label": "Real / emulated",
            "value": f"{c['devices_real']} / {c['devices_emulated']}",
            "note": "an emulated chip proves numbers, not speed",
            "bad": False,
        },
        {
            "label": "Moved",
            "value": size(moved),
            "note": f"{100 * moved / t['layer_bytes']:.2g} % of {size(t['layer_bytes'])} of layers"
            if t["layer_bytes"]
            else "both directions",
            "bad": False,
        },
    ]


def _matrix(verdict: Json, order: dict[str, int]) -> Json:
    records = {(case["device"], case["case"]): case for case in verdict["cases"]}
    models = {case["case"]: case["model"] for case in verdict["cases"]}
    rows = []
    for d, device in enumerate(verdict["devices"]):
        cells = []
        for case, c in order.items():
            record = records.get((device["name"], case))
            cells.append(
                {
                    "status": record["status"] if record else "not_tested",
                    "notes": record["notes"] if record else [],
                    "href": f"#{anchor(c, d)}" if record else "#not-tested",
                    "case": case,
                }
            )
        rows.append({"device": device, "cells": cells, "status": loudest([cell["status"] for cell in cells])})
    return {
        "cases": [{"name": case, "model": models[case], "href": f"#case-{order[case]}"} for case in order],
        "rows": rows,
    }


def failure_groups(verdict: Json, order: dict[str, int]) -> list[Json]:
    """Group what is wrong by model, status and first deviating layer: one cause is told once."""
    device_order = {device["name"]: d for d, device in enumerate(verdict["devices"])}
    groups: dict[tuple[str, str, str], Json] = {}
    for case in verdict["cases"]:
        if case["status"] == "pass":
            continue
        layer = case["first_deviating_layer"]
        key = (case["model"], case["status"], layer or case["reason"])
        group = groups.setdefault(
            key,
            {
                "status": case["status"],
                "wrong": case["status"] in WRONG and not is_known(case),
                "known": is_known(case),
                "layer": layer,
                "model": case["model"],
                "reason": case["reason"],
                "members": [],
            },
        )
        group["members"].append({"case": case, "href": f"#{anchor(order[case['case']], device_order[case['device']])}"})
    for group in groups.values():
        members = [member["case"] for member in group["members"]]
        group["devices"] = list(dict.fromkeys(case["device"] for case in members))
        group["cases"] = list(dict.fromkeys(case["case"] for case in members))
    return sorted(groups.values(), key=lambda group: not group["wrong"])


def _fingerprints(verdict: Json) -> Json:
    devices = verdict["devices"]
    keys = list(dict.fromkeys(key for device in devices for key in device["fingerprint"]))
    rows = []
    for key in keys:
        values = [device["fingerprint"].get(key, "–") for device in devices]
        rows.append({"key": key, "values": values, "same": len(set(values)) == 1})
    return {"devices": devices, "rows": rows}


def _phases(verdict: Json) -> Json:
    phases = verdict["run"]["phases"]
    longest = max((phase["seconds"] for phase in phases), default=0) or 1
    emulated = {device["name"] for device in verdict["devices"] if device["emulated"]}
    latency = [case for case in verdict["cases"] if case["latency_ms"]["plain"] is not None]
    return {
        "rows": [{**phase, "width": round(100 * phase["seconds"] / longest, 1)} for phase in phases],
        "latency": [{**case, "emulated": case["device"] in emulated} for case in latency],
        "any_emulated": bool(emulated),
    }


def _warnings(verdict: Json, tables: list[CaseTable]) -> list[str]:
    """Totals must equal the sum of their parts; where they do not, the page says so."""
    found = []
    compared = sum(table.totals.get("pass", 0) + table.totals.get("fail", 0) for table in tables)
    claimed = verdict["coverage"]["layers_paired"]
    if compared != claimed:
        found.append(
            f"The verdict counts {plural(claimed, 'compared layer')}, the layer table holds {number(compared)}. "
            "Trust neither until the gate has run again."
        )
    return found
