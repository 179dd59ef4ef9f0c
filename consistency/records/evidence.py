"""Everything a case is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from consistency.records.capture import BaseEvidence, ObservedLayer, PlainRun, ReferenceLayer, TaskResult
from consistency.records.expectation import Expectation
from consistency.records.referee import Witnesses
from consistency.records.repeats import LayerRuns


@dataclass(frozen=True)
class CaseEvidence:
    """Everything known about one case on one device when it ran to its end.

    ``reference`` is in topological order; ``observed`` the layers of the instrumented pass; ``outputs`` the
    final outputs of the plain pass (their bytes came back, so their statistics are measured on the host);
    ``instrumented_outputs`` maps output names to digests, ``None`` when no instrumented pass ran;
    ``today`` is an ISO date; ``earlier`` the statuses of earlier attempts of the same job. ``alone`` holds layers
    that ran alone on the golden's inputs. Where looking at all layers at once changed the outputs, ``direct`` names
    those that were also seen a few at a time without changing them (``observed`` has these views); ``None`` when
    nobody tried. ``noise`` maps outputs that vary to how far apart the device's own runs of them are (element by
    element, the largest); ``layer_runs`` has the layers that varied over ``layers_ran`` runs. ``iterations`` of the
    instrumented pass: ``observed`` are the layers of the first. ``witnesses`` are the other referees, heard where
    canonical fails like the device.
    """

    case: str
    device: str
    profile: str
    level: int
    reference: tuple[ReferenceLayer, ...]
    outputs: tuple[ObservedLayer, ...]
    plain_runs: tuple[PlainRun, ...]
    observed: tuple[ObservedLayer, ...] = ()
    instrumented_outputs: Mapping[str, str] | None = None
    base: BaseEvidence | None = None
    expectation: Expectation | None = None
    today: str = ""
    tasks: tuple[TaskResult, ...] = ()
    earlier: tuple[str, ...] = ()
    alone: tuple[ObservedLayer, ...] = ()
    direct: frozenset[str] | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    layer_runs: Mapping[str, LayerRuns] = field(default_factory=dict)
    layers_ran: int = 1
    iterations: int = 1
    witnesses: Witnesses | None = None
