"""Chip against chip, groups of equal bits, and what changed against a base."""

from __future__ import annotations

from typing import Any

from reports.words import loudest

Json = dict[str, Any]


def changes(verdict: Json) -> Json:
    """Return what this engine version changed: one line per case and device with new bits."""
    against = sorted({c["changed"]["against"] for c in verdict["cases"] if c["changed"]} - {"none"})
    rows = [
        case
        for case in verdict["cases"]
        if case["changed"] and (case["changed"]["layers_changed"] or case["changed"]["outputs_changed"])
    ]
    return {"against": against, "rows": rows, "compared": sum(_has_base(case) for case in verdict["cases"])}


def _has_base(case: Json) -> bool:
    return bool(case["changed"]) and case["changed"]["against"] != "none"


def pair_matrix(verdict: Json) -> Json:
    """Return devices x devices with the loudest status over all cases, and every pair that is not bit-identical."""
    tested = [device["name"] for device in verdict["devices"] if device["tested"]]
    found: dict[frozenset[str], list[Json]] = {}
    for pair in verdict["chip_pairs"]:
        found.setdefault(frozenset((pair["a"], pair["b"])), []).append(pair)
    rows = []
    for i, a in enumerate(tested[1:], start=1):
        cells = []
        for b in tested[:i]:
            pairs = found.get(frozenset((a, b)), [])
            identical = sum(pair["bit_identical"] for pair in pairs)
            cells.append(
                {
                    "other": b,
                    "status": loudest([pair["status"] for pair in pairs]),
                    "identical": identical,
                    "total": len(pairs),
                }
            )
        rows.append({"device": a, "cells": cells})
    differing = [pair for pair in verdict["chip_pairs"] if not pair["bit_identical"]]
    differing.sort(key=lambda pair: pair["status"] == "pass")
    return {"columns": tested[:-1], "rows": rows, "differing": differing, "total": len(verdict["chip_pairs"])}


def identity_rows(verdict: Json) -> list[Json]:
    """Return the bit-identity groups per case; cases with the same groups share one line."""
    rows: dict[str, Json] = {}
    for item in verdict["bit_identity"]:
        shape = [group["devices"] for group in item["groups"]]
        key = repr((shape, item["identical_layers"], item["total_layers"], item["first_split_layer"]))
        rows.setdefault(key, {**item, "cases": []})["cases"].append(item["case"])
    return list(rows.values())
