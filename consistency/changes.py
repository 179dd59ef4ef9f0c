"""What this commit changed: digests against the accepted result, else against the commit before."""

from __future__ import annotations

from collections.abc import Sequence

from consistency.localise import first_deviating
from consistency.records import BaseEvidence, ChangeSummary, Expectation, LayerVerdict, ReferenceLayer


def summarise_changes(
    reference: Sequence[ReferenceLayer],
    layers: Sequence[LayerVerdict],
    outputs: Sequence[LayerVerdict],
    base: BaseEvidence | None,
    expectation: Expectation | None,
) -> ChangeSummary:
    """Layers come from base (an expectation keeps one digest for all of them), outputs from the accepted result."""
    compared = [layer for layer in layers if layer.changed is not None]
    changed = [layer.id for layer in compared if layer.changed]
    frontier = first_deviating(reference, changed).introduced
    if expectation is not None:
        against, before = "accepted", expectation.outputs
    elif base is not None and (base.outputs or base.layers):
        against, before = "base", base.outputs
    else:
        reason = f"base gave no result ({base.status})" if base is not None else "no base and no accepted result"
        return ChangeSummary("none", reason=reason)
    outputs_changed = tuple(
        out.id for out in outputs if out.observed and before.get(out.id, out.observed.digest) != out.observed.digest
    )
    first = frontier[0] if frontier else None
    return ChangeSummary(
        against=against,
        layers_changed=len(changed),
        layers_compared=len(compared),
        outputs_changed=outputs_changed,
        first_changed_layer=first,
        reason=_words(len(changed), len(compared), outputs_changed, first, against),
    )


def _words(changed: int, compared: int, outputs: tuple[str, ...], first: str | None, against: str) -> str:
    parts = []
    if changed:
        parts.append(f"{changed} of {compared} layers have other bits than base, first `{first}`")
    if outputs:
        names = ", ".join(f"`{name}`" for name in outputs)
        parts.append(f"output {names} differs from {against}")
    return "; ".join(parts) if parts else "nothing changed"
