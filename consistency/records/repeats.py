"""What a device gives when it runs again: layers that vary, and how far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consistency.records.capture import ObservedLayer


@dataclass(frozen=True)
class Floor:
    """How far apart a device's own runs of one layer are: at least ``least`` and at most ``most``, absolute.

    The two are equal where the runs were compared element by element.
    """

    least: float
    most: float


@dataclass(frozen=True)
class LayerRuns:
    """A layer that a device does not give twice the same.

    ``digests``: one a run, the first run first · ``shown``: digest → what the layer held, with statistics against the
    golden where it was measured · ``on_one``: digests of the runs on one thread, where there were any · ``width``: how
    far apart the runs are whose tensors were compared element by element, ``None`` where fewer than two were.
    """

    digests: tuple[str, ...]
    shown: Mapping[str, ObservedLayer] = field(default_factory=dict)
    on_one: tuple[str, ...] = ()
    width: float | None = None


@dataclass(frozen=True)
class LayerRepeats:
    """How the layers of a device agree over its runs.

    ``state``: ``unknown`` (they ran once) · ``same`` · ``varies`` · ``beyond`` (some layer is within its bounds in one
    run and beyond them in another). ``runs`` that were compared; ``first``: the layers that vary though none varies
    before them; ``floors``: every layer that varies, ``None`` where nobody knows how far; ``mixed``: those that
    make the state ``beyond``. ``explanation`` in words, empty unless something varies.
    """

    state: str = "unknown"
    runs: int = 0
    first: tuple[str, ...] = ()
    floors: Mapping[str, Floor | None] = field(default_factory=dict)
    mixed: frozenset[str] = frozenset()
    explanation: str = ""
