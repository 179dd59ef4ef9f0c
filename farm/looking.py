"""Where looking at all layers changes the result: look at a few at a time, until the result is the plain run's.

Only layers that would be blamed are looked at again. A group whose instrumented outputs are the plain run's shows
what really happens; a group that changes them is halved, until a layer is alone or the calls are used up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.contract.result import LayerRecord, Result

#: Calls of a runner spent on one case; a group of n layers of which one disturbs needs about 2 log2 n.
MAX_CALLS = 12

Look = Callable[[tuple[str, ...]], Result]
"""Runs the instrumented pass with these layers captured."""


@dataclass
class Seen:
    """What a few at a time showed: layers by id whose capture leaves the result alone; calls spent on it."""

    direct: dict[str, LayerRecord] = field(default_factory=dict)
    calls: int = 0


def changed_by_looking(result: Result) -> bool:
    """Whether the instrumented pass gives other outputs than a plain pass that repeats itself."""
    plain = [entry.outputs for entry in result.passes if entry.kind == "plain"]
    instrumented = [entry.outputs for entry in result.passes if entry.kind == "instrumented"]
    if not plain or not instrumented or any(outputs != plain[0] for outputs in plain):
        return False
    return any(outputs != plain[0] for outputs in instrumented)


def look_again(
    wanted: Sequence[str],
    plain: Mapping[str, str],
    look: Look,
    most: int = MAX_CALLS,
    may: Callable[[], bool] = lambda: True,
) -> Seen:
    """Capture ``wanted`` in ever smaller groups; ``plain`` are the digests of the plain run's outputs.

    ``may`` is asked before each call, and ends the looking.
    """
    seen = Seen()
    groups: list[tuple[str, ...]] = [tuple(wanted)] if wanted else []
    while groups and seen.calls < most and may():
        group = groups.pop(0)
        result = look(group)
        seen.calls += 1
        if undisturbed(result, plain):
            seen.direct.update((layer.id, layer) for layer in _of_passes(result.layers) if layer.id in group)
        elif len(group) > 1:
            half = len(group) // 2
            groups += [group[:half], group[half:]]
    return seen


def undisturbed(result: Result, plain: Mapping[str, str]) -> bool:
    """Whether every instrumented pass gave the plain run's outputs."""
    passes = [entry for entry in result.passes if entry.kind == "instrumented"]
    return bool(passes) and all(dict(entry.outputs) == dict(plain) for entry in passes)


def _of_passes(layers: Iterable[LayerRecord]) -> list[LayerRecord]:
    return [layer for layer in layers if not layer.isolated]
