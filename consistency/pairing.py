"""Pairing what a device reported with what was expected: by id, never by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consistency.records import ObservedLayer, ReferenceLayer


@dataclass(frozen=True)
class Pairing:
    """``pairs`` id → observed layer · ``covered`` id → the layer that covers it (fused, not observable) ·
    ``missing`` expected and neither · ``extra`` observed and not expected · ``ambiguous`` reported twice ·
    ``remarks`` oddities in words."""

    pairs: Mapping[str, ObservedLayer]
    covered: Mapping[str, str]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    ambiguous: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paired:
    """By what two tensors were taken for one another, and how sure that is: an order from 0 to 1, no probability."""

    by: str
    confidence: float


DECLARED = Paired("declared", 1.0)
#: The values under this name are those of a later layer, whose own name is absent: a fused layer kept its first name.
SURVIVOR = Paired("values of a fused layer", 0.7)
#: Two captures of one tensor each.
ONLY = Paired("the only tensor of each side", 0.4)


def paired_by_name(op: str, other: str) -> Paired:
    """A pair of one name; ``op`` and ``other`` are the operators as either side tells them, empty where it does not."""
    if not op or not other:
        return Paired("name", 0.9)
    return Paired("name and operator", 1.0) if op == other else Paired(f"name only: {op} and {other}", 0.5)


def pair(reference: Sequence[ReferenceLayer], observed: Sequence[ObservedLayer]) -> Pairing:
    """Pair by id; the order of ``observed`` does not matter. A layer both covered and observed is observed."""
    expected = {layer.id for layer in reference}
    times = Counter(layer.id for layer in observed)
    ambiguous = {name for name, count in times.items() if count > 1}
    pairs = {layer.id: layer for layer in observed if layer.id in expected and layer.id not in ambiguous}
    covered: dict[str, str] = {}
    remarks: set[str] = set()
    for layer in sorted(observed, key=lambda layer: layer.id):
        for name in layer.covers:
            if name in pairs:
                remarks.add(f"`{layer.id}` says it covers `{name}`, which is reported itself; the report is used")
            elif name in expected:
                covered.setdefault(name, layer.id)
            else:
                remarks.add(f"`{layer.id}` covers `{name}`, which the model does not have")
    seen = set(pairs) | set(covered) | ambiguous
    return Pairing(
        pairs=pairs,
        covered={name: by for name, by in covered.items() if name not in ambiguous},
        missing=tuple(layer.id for layer in reference if layer.id not in seen),
        extra=tuple(sorted(set(times) - expected)),
        ambiguous=tuple(layer.id for layer in reference if layer.id in ambiguous),
        remarks=tuple(sorted(remarks)),
    )


def across_quantisation(fp32: Sequence[ReferenceLayer], quantised: Sequence[ReferenceLayer]) -> dict[str, str]:
    """Which tensor of the quantised model stands for a layer of the FP32 one: FP32 id → id in the quantised model.

    Where a tensor is read through codes it is the one that the codes give back (a DequantizeLinear behind a
    QuantizeLinear of it), so that the loss of its own codes counts as its own; otherwise the tensor of the same name.
    Layers that are not in both, or there as codes or in another shape, have no pair.
    """
    known = {layer.id: layer for layer in quantised}
    through: dict[str, str] = {}
    for layer in quantised:
        codes = known.get(layer.inputs[0]) if layer.op == "DequantizeLinear" and layer.inputs else None
        if codes is not None and codes.op == "QuantizeLinear" and codes.inputs:
            through.setdefault(codes.inputs[0], layer.id)
    pairs = {}
    for layer in fp32:
        found = known.get(through.get(layer.id, layer.id))
        if found is not None and (found.dtype, found.shape) == (layer.dtype, layer.shape):
            pairs[layer.id] = found.id
    return pairs


def describe_mismatch(reference: ReferenceLayer, observed: ObservedLayer) -> str | None:
    """What is unlike in shape, in words, before any number is computed; ``None`` when alike.

    Rank counts: a scalar is not a tensor of one element. A permuted shape is named as a layout.
    """
    if observed.shape == reference.shape:
        return None
    words = f"shape {_shape(observed.shape)} where the golden has {_shape(reference.shape)}"
    if _size(observed.shape) != _size(reference.shape):
        return f"{words}: {_size(observed.shape)} elements instead of {_size(reference.shape)}"
    if len(reference.shape) == 4 and observed.shape == tuple(reference.shape[axis] for axis in (0, 2, 3, 1)):
        return f"{words}: looks like NHWC; a runner gives layers in the model's own order"
    if sorted(observed.shape) == sorted(reference.shape):
        return f"{words}: the axes look permuted"
    return f"{words}: the same elements under another rank or order"


def reused_buffers(
    reference: Sequence[ReferenceLayer], observed: Mapping[str, ObservedLayer], failing: frozenset[str]
) -> dict[str, str]:
    """Failing layers that hold the bytes of a later, healthy layer: id → that later layer.

    A tensor read after the run shows whatever was written into its buffer last. That is so when its digest,
    dtype and shape are those of a later layer which agrees with the golden, although the golden's two
    tensors differ. An earlier layer's bytes prove nothing: an operator that does nothing looks like that.
    """
    owners: dict[tuple[str, str, tuple[int, ...]], ReferenceLayer] = {}
    reused: dict[str, str] = {}
    for layer in reversed(reference):
        seen = observed.get(layer.id)
        if seen is None:
            continue
        key = (seen.digest, seen.dtype, seen.shape)
        owner = owners.get(key)
        if layer.id not in failing:
            owners[key] = layer
        elif owner is not None and owner.digest != layer.digest:
            reused[layer.id] = owner.id
    return reused


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for axis in shape:
        size *= axis
    return size


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) if shape else "scalar"
