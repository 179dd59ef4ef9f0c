"""Which layers of a failing case run alone on the golden's inputs, within a bound on the bytes that travel."""

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
from engine.digest import file_sha256
from farm.casejob import InputRef

#: Most layers that run alone in one case.
MAX_LAYERS = 64
#: Most bytes that travel for it, as a share of the case's layers; the first deviating layer is always run.
MAX_SHARE = 0.05


@dataclass
class Orders:
    """``isolated`` as a request has it, and the blobs that the device may lack for it."""

    isolated: dict[str, dict[str, TensorFile]] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)


def suspects(
    profile_name: str,
    reference: Sequence[ReferenceLayer],
    observed: Sequence[ObservedLayer],
    outputs: Sequence[ObservedLayer],
    level: int,
) -> tuple[str, ...]:
    """The layers worth a closer look, most telling first; none when the case is within its bounds."""
    rules = profile(profile_name)
    layers = judge_layers(rules, reference, observed, outputs, level, {})
    return wanted(reference, layers.layers, judge_outputs(rules, reference, outputs, {}).layers)


def orders(golden: Trace, inputs: Iterable[InputRef], names: Sequence[str], there: Iterable[str]) -> Orders:
    """What to ask for ``names``, best first; ``there`` are the sha256 of blobs the device has already.

    Its inputs and its own golden tensor travel. A layer for which that would take more than the bound is left out,
    except the first one; so is one that reads nothing, or what is neither a layer nor an input.
    """
    made, held = Orders(), set(there)
    budget = MAX_SHARE * sum(layer.nbytes for layer in golden.layers)
    layers = golden.by_id()
    given = {entry.name: entry for entry in inputs}
    for name in names[:MAX_LAYERS]:
        sources = layers[name].inputs
        if not sources or any(source not in layers and source not in given for source in sources):
            continue
        files = {source: _file(golden, given, source) for source in sources}
        own = _file(golden, given, name)[1]
        needed = [own, *(blob for _, blob in files.values())]
        extra = {blob.sha256: blob for blob in needed if blob.sha256 not in held}
        cost = sum(blob.size for blob in extra.values())
        if made.isolated and cost > max(0.0, budget):
            continue
        budget -= cost
        held |= set(extra)
        made.blobs |= extra
        made.isolated[name] = {source: file for source, (file, _) in files.items()}
    return made


def _file(golden: Trace, given: Mapping[str, InputRef], name: str) -> tuple[TensorFile, Blob]:
    if name in given:
        entry = given[name]
        file = TensorFile(name, entry.dtype, entry.shape, f"../../blobs/{entry.file.sha256}", entry.file.sha256)
        return file, entry.file.blob()
    layer = golden.by_id()[name]
    path = golden.tensor_path(layer)
    blob = Blob(path, file_sha256(path), path.stat().st_size)
    return TensorFile(name, layer.dtype, layer.shape, f"../../blobs/{blob.sha256}", blob.sha256), blob
