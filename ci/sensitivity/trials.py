"""Run one model with one engine, and let everyone judge what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from ci.sensitivity.engines import Arrays, Engine
from ci.sensitivity.judges import Deviates, Finding, Reference, equal_bits
from ci.sensitivity.records import Trial
from consistency import words
from consistency.tensors import TensorVerdict
from engine.models.mutate import mutate

OURS = "lockstep fp32"


@dataclass(frozen=True, eq=False)
class Bench:
    """A subject with its golden runs, by input. ``profiles`` maps our judges' names to profiles."""

    subject: str
    model: onnx.ModelProto
    inputs: tuple[Arrays, ...]
    goldens: tuple[Reference, ...]
    profiles: Mapping[str, str]
    peers: Mapping[str, Deviates]

    def benign(self, engine: Engine, place: int) -> Trial:
        """A healthy engine on the input at ``place``."""
        got = engine.run(self.model, self.inputs[place])
        return self._trial(engine, place, got, "", "", frozenset())

    def mutant(self, engine: Engine, place: int, kind: str, layer: str) -> Trial:
        """The model broken at ``layer`` on the input at ``place``."""
        got = engine.run(mutate(self.model, kind, layer), self.inputs[place])
        node = next(node for node in self.model.graph.node if layer in node.output)
        return self._trial(engine, place, got, kind, layer, frozenset(node.output))

    def _trial(
        self, engine: Engine, place: int, got: Mapping[str, np.ndarray], kind: str, layer: str, broken: frozenset[str]
    ) -> Trial:
        golden = self.goldens[place]
        found = {name: golden.ours(got, profile) for name, profile in self.profiles.items()}
        found |= {name: golden.peer(got, deviates) for name, deviates in self.peers.items()}
        return Trial(
            subject=self.subject,
            engine=engine.name,
            input=place,
            kind=kind,
            layer=layer,
            change=golden.change(got),
            differs=any(not equal_bits(golden.tensors[name], tensor) for name, tensor in got.items()),
            failed={name: bool(finding.failing) for name, finding in found.items()},
            exact={name: bool(finding.first) and set(finding.first) <= broken for name, finding in found.items()},
            note=_note(found[OURS], layer, broken),
        )


def _note(finding: Finding, layer: str, broken: frozenset[str]) -> str:
    """Why the broken layer was not named, or what a healthy engine was blamed for; empty where all is well."""
    if finding.first and (not broken or not set(finding.first) <= broken):
        blamed = finding.verdicts[finding.first[0]]
        named = f"named `{blamed.name}`: {blamed.reason}"
        return f"{named}; {_nearness(finding, layer)}" if broken else named
    return _nearness(finding, layer) if broken and not finding.failing else ""


def _nearness(finding: Finding, layer: str) -> str:
    """How near the broken layer, and the worst of all, came to a bound."""
    own = finding.verdicts.get(layer)
    shares = {name: share for name, verdict in finding.verdicts.items() if (share := _share(verdict)) is not None}
    worst = max(shares, key=lambda name: shares[name], default="")
    words_ = f"at the broken layer {_percent(own)} of the bound"
    return words_ if not worst or worst == layer else f"{words_}, at most {_percent(finding.verdicts[worst])} anywhere"


def _percent(verdict: TensorVerdict | None) -> str:
    share = _share(verdict) if verdict else None
    return "an unknown part" if share is None else f"{words.number(100 * share)} %"


def _share(verdict: TensorVerdict) -> float | None:
    """Measured by bound."""
    numbers = verdict.metrics or {}
    measured, bound = numbers.get("max_abs"), numbers.get("bound")
    if verdict.metric != "max_abs" or not isinstance(measured, (int, float)) or not isinstance(bound, (int, float)):
        return None
    return measured / bound if bound else None
