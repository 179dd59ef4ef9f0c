"""``verdict.json``: what the gate decided. Its shape is ``verdict.schema.json`` (JSON Schema 2020-12)."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema

from reports import strict_json
from reports.errors import ReportError
from reports.files import write_text

MAX_BYTES = 64 * 1024 * 1024

Json = dict[str, Any]


@functools.cache
def verdict_schema() -> Json:
    """Return the JSON Schema of ``verdict.json``."""
    text = Path(__file__).with_name("verdict.schema.json").read_text(encoding="utf-8")
    schema: Json = json.loads(text)
    return schema


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(verdict_schema())


def complaint(verdict: object) -> str | None:
    """Return the first thing that is wrong with a verdict, with its key path, or ``None``."""
    error = next(iter(sorted(_validator().iter_errors(verdict), key=lambda e: list(map(str, e.absolute_path)))), None)
    if error is not None:
        where = "/".join(map(str, error.absolute_path)) or "top level"
        return f"at {where}: {error.message[:300]}"
    assert isinstance(verdict, dict)  # noqa: S101 - the schema has just said so
    return _dangling(verdict)


def _dangling(verdict: Json) -> str | None:
    """Devices are named once, and everything that names a device or a pair names one that is listed."""
    names = [device["name"] for device in verdict["devices"]]
    if len(set(names)) != len(names):
        return "at devices: a device is listed twice"
    known = set(names)
    seen: set[tuple[str, str]] = set()
    for number, case in enumerate(verdict["cases"]):
        key = (case["case"], case["device"])
        if case["device"] not in known:
            return f"at cases/{number}/device: {case['device']!r} is not among the devices"
        if key in seen:
            return f"at cases/{number}: case {key[0]!r} on device {key[1]!r} is listed twice"
        seen.add(key)
    for number, pair in enumerate(verdict["chip_pairs"]):
        for end in ("a", "b"):
            if pair[end] not in known:
                return f"at chip_pairs/{number}/{end}: {pair[end]!r} is not among the devices"
    return None


def read_verdict(path: Path) -> Json:
    """Return the verdict; ``ReportError`` when the file is absent, too large, not strict JSON or of another shape."""
    hint = "run the gate again: the verdict is written by it, whole or not at all"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ReportError(f"{path}: larger than {MAX_BYTES} bytes", hint)
        verdict = strict_json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ReportError(f"{path}: no such file", "name a run folder, such as out/latest") from None
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror or error}", "check its permissions") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ReportError):
            raise
        raise ReportError(f"{path}: not strict JSON: {error}", hint) from error
    wrong = complaint(verdict)
    if wrong:
        raise ReportError(f"{path}: not a verdict: {wrong}", hint)
    result: Json = verdict
    return result


def write_verdict(path: Path, verdict: Json) -> None:
    """Write a verdict, whole or not at all; NaN and infinities become null.

    Raises ``ValueError`` naming the key path when the verdict breaks its schema: that is a programming error.
    """
    clean = strict_json.finite(verdict)
    wrong = complaint(clean)
    if wrong:
        raise ValueError(f"not a verdict: {wrong}")
    write_text(path, strict_json.dumps(clean, indent=1) + "\n")
