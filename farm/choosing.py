"""Which layers are measured on the device, where measuring means that the golden's tensor travels there.

An engine that computes as one of the references does, and parts from it at some layer, has one fault: that layer's
tensor travels, and as much of what lies behind it as the bound on bytes allows. An engine that computes in its own
way differs everywhere: every layer is measured, or nobody could say that it is sound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from consistency.judge_layers import judge_layers, judge_outputs
from consistency.localise import frontier_of
from consistency.records import ObservedLayer, ReferenceLayer
from consistency.thresholds import profile
from engine.contract.trace import Trace

#: Most bytes that travel for a case with a fault, both ways and all calls, as a share of the bytes of its layers.
MAX_SHARE = 0.05
#: Calls that may follow the first one, each with a request and a result of about its size.
_CALLS = 2


@dataclass
class Budget:
    """``left``: bytes of golden tensors that may still travel. The layer to blame is paid for whatever is left."""

    left: float

    @classmethod
    def of(cls, golden: Trace, moved: int) -> Budget:
        """What remains after a first call that moved ``moved`` bytes, the calls to come set aside.

        What the device has already is not looked at: the same run shows the same layers on every device.
        """
        return cls(MAX_SHARE * sum(layer.nbytes for layer in golden.layers) - moved * (1 + _CALLS))

    def affords(self, cost: int, *, must: bool = False) -> bool:
        """Take ``cost`` if there is that much, or if it must be paid."""
        if cost > max(0.0, self.left) and not must:
            return False
        self.left -= cost
        return True


@dataclass(frozen=True)
class Seen:
    """What a first call showed: layers that differ from every reference, those that could be measured, and outputs."""

    rules: str
    reference: tuple[ReferenceLayer, ...]
    differing: frozenset[str]
    measurable: frozenset[str]
    outputs: Sequence[ObservedLayer]

    def first_choice(self, matched: Mapping[str, bool], sizes: Mapping[str, int], budget: Budget) -> frozenset[str]:
        """The layers to measure first. ``matched``: the layers that equal a reference, and whether only one of them.

        All of them, unless the outputs are wrong or the device has bits that only one of the references has.
        """
        if not wrong_outputs(self.rules, self.reference, self.outputs) and not any(matched.values()):
            return self.measurable
        first = frozenset(frontier_of(self.reference, self.differing).introduced) & self.measurable
        for name in first:
            budget.affords(sizes[name], must=True)
        behind = (layer.id for layer in self.reference if layer.id in self.measurable - first)
        return first | {name for name in behind if budget.affords(sizes[name])}

    def second_choice(self, observed: Sequence[ObservedLayer], done: Collection[str]) -> frozenset[str]:
        """The layers that are not ``done`` and lie behind none that is beyond its bound."""
        judged = judge_layers(profile(self.rules), self.reference, observed, self.outputs, 1, {})
        failing = {verdict.id for verdict in judged.layers if verdict.status == "fail"}
        return self.measurable - frozenset(done) - downstream(self.reference, failing)


def wrong_outputs(rules: str, reference: Sequence[ReferenceLayer], outputs: Sequence[ObservedLayer]) -> bool:
    """Whether an output of the plain run is beyond its bounds by the profile ``rules``."""
    judged = judge_outputs(profile(rules), reference, outputs, {})
    return any(verdict.status == "fail" for verdict in judged.layers)


def downstream(order: Iterable[ReferenceLayer], sources: Collection[str]) -> frozenset[str]:
    """``sources`` and all layers of ``order`` (topological) that depend on one of them."""
    tainted = set(sources)
    for layer in order:
        if not tainted.isdisjoint(layer.inputs):
            tainted.add(layer.id)
    return frozenset(tainted)
