"""What a gate is asked to do, read from its files: all that can be wrong in words is found before a farm starts."""

from __future__ import annotations

from dataclasses import dataclass

from ci.builds import EngineSource, base_source, head_source
from ci.options import GateOptions, Selection, select
from farm.floors import find_profile
from farm.inventory import Fleet, load_fleet
from farm.suites import Suite, find_suite, load_suite


@dataclass(frozen=True)
class Asked:
    """Engines, suite, fleet and what of them was selected; ``rules`` is the profile that all cases are judged by."""

    head: EngineSource
    base: EngineSource | None
    suite: Suite
    fleet: Fleet
    selection: Selection
    rules: str | None


def read_asked(options: GateOptions) -> Asked:
    """Read the files that ``options`` name; UsageError or ConfigError for what is not there or not right."""
    head = head_source(options.root, options.engine, options.artifacts)
    suite = load_suite(find_suite(options.root / "suites", options.suite))
    rules = find_profile(options.profile, options.root / "thresholds").name if options.profile else None
    fleet = load_fleet(options.devices_file)
    selection = select(options, fleet, suite, head.manifest)
    if options.inject:
        from engine.models.mutate import parse_injection  # noqa: PLC0415 - imports onnx, which few gates need here

        parse_injection(options.inject)
    base = base_source(options.root, options.engine, options.base) if options.base is not None else None
    return Asked(head, base, suite, fleet, selection, rules)
