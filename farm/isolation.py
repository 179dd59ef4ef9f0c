"""Which layers of a failing case run alone on a reference's inputs, within a bound on the bytes that travel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agents.deployment import Blob
from consistency.alone import wanted
from consistency.judge_layers import judge_layers, judge_outputs
from consistency.records import ObservedLayer, ReferenceLayer
from consistency.thresholds import profile
from engine.contract.request import TensorFile
from engine.contract.trace import Trace
from farm.casejob import InputRef
from farm.choosing import Budget
from farm.runnercall import blob_path, tensor_blob

#: Most layers that run alone in one case.
MAX_LAYERS = 64


@dataclass
class Orders:
    """``isolated`` as a request has it, and the blobs that the device may lack for it."""

    isolated: dict[str, dict[str, TensorFile]] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)


@dataclass(frozen=True)
class Suspects:
    """The layers worth a closer look, most telling first; ``must`` runs whatever travels for it.

    ``failing`` are all layers beyond their bounds, those that are proved to introduce their error too.
    """

    names: tuple[str, ...] = ()
    must: str | None = None
    failing: tuple[str, ...] = ()


def suspects(
    profile_name: str,
    reference: Sequence[ReferenceLayer],
    observed: Sequence[ObservedLayer],
    outputs: Sequence[ObservedLayer],
    level: int,
    *,
    disturbed: bool,
) -> Suspects:
    """What is worth a closer look; nothing when the case is within its bounds.

    A layer that was fed a reference's bits is proved already, unless looking at the layers ``disturbed`` the result.
    """
    rules = profile(profile_name)
    layers = judge_layers(rules, reference, observed, outputs, level, {})
    proved = {verdict.id for verdict in layers.layers if verdict.alone is not None} if not disturbed else set()
    names = wanted(reference, layers.layers, judge_outputs(rules, reference, outputs, {}).layers, proved)
    first = next((name for name in layers.frontier.introduced if name not in proved), None)
    failing = tuple(verdict.id for verdict in layers.layers if verdict.status == "fail")
    return Suspects(names, first, failing)


def orders(
    source: Trace, inputs: Iterable[InputRef], found: Suspects, there: Iterable[str], budget: Budget, *, measured: bool
) -> Orders:
    """What to ask for ``found``, best first, on the inputs of the trace ``source``.

    ``there`` are the sha256 of blobs the device has already. A layer's inputs travel and, if it is to be ``measured``
    there, its own tensor. A layer for which that would take more than is left of ``budget`` is
    left out, except the one that must run; so is one that reads nothing, or what is neither a layer nor an input.
    """
    made, held = Orders(), set(there)
    layers = source.by_id()
    given = {entry.name: entry for entry in inputs}
    for name in found.names[:MAX_LAYERS]:
        read = layers[name].inputs if name in layers else ()
        if not read or any(other not in layers and other not in given for other in read):
            continue
        files = {other: _file(source, given, other) for other in read}
        own = [_file(source, given, name)[1]] if measured else []
        needed = [*own, *(blob for _, blob in files.values())]
        extra = {blob.sha256: blob for blob in needed if blob.sha256 not in held}
        if not budget.affords(sum(blob.size for blob in extra.values()), must=name == found.must):
            continue
        held |= set(extra)
        made.blobs |= extra
        made.isolated[name] = {other: file for other, (file, _) in files.items()}
    return made


def _file(source: Trace, given: Mapping[str, InputRef], name: str) -> tuple[TensorFile, Blob]:
    if name in given:
        entry = given[name]
        file = TensorFile(name, entry.dtype, entry.shape, blob_path(entry.file.sha256), entry.file.sha256)
        return file, entry.file.blob()
    layer = source.by_id()[name]
    blob = tensor_blob(source, layer)
    return TensorFile(name, layer.dtype, layer.shape, blob_path(blob.sha256), blob.sha256), blob
