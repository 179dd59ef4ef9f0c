"""Chip against chip."""

from __future__ import annotations

from dataclasses import dataclass

from consistency.records.verdict import Worst


@dataclass(frozen=True)
class ChipLayer:
    """One layer of a chip pair; ``status`` is ``identical``, ``pass``, ``fail`` or ``needs_tensors``."""

    id: str
    status: str
    difference: float | None
    bound: float | None
    reason: str = ""


@dataclass(frozen=True)
class ChipPairVerdict:
    """Two chips on one case. ``needs_tensors`` lists layers that statistics alone cannot settle.

    ``status`` is ``pass``, ``fail``, ``inconclusive_needs_tensors`` or ``not_compared``.
    """

    status: str
    bit_identical: bool
    layers_equal: int
    layers_compared: int
    first_deviating: tuple[str, ...]
    first_split: str | None
    needs_tensors: tuple[str, ...]
    worst: Worst | None
    reason: str
    layers: tuple[ChipLayer, ...] = ()


@dataclass(frozen=True)
class BitGroup:
    """Devices whose compared layers all have equal digests; a shared binary and dispatch counts once."""

    devices: tuple[str, ...]
    dispatches: tuple[str, ...]
    layers: int


@dataclass(frozen=True)
class BitIdentity:
    """Bit-identity of one case over devices; ``identical_layers`` have one digest on every device."""

    groups: tuple[BitGroup, ...]
    identical_layers: int
    total_layers: int
    first_split_layer: str | None
