"""The task checks of a suite's cases: what a user of the model would ask of its answer, as data, checked."""

from __future__ import annotations

from pydantic import Field, model_validator

from engine.models.tasks import ArgmaxIs, ShareAbove, Task
from farm.config import Strict, nearest


class ArgmaxCheck(Strict):
    """The largest score must stand at ``label``."""

    output: str
    label: str
    labels: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _label_listed(self) -> ArgmaxCheck:
        if self.label not in self.labels:
            raise ValueError(f"label {self.label!r} is not among labels: {nearest(self.label, list(self.labels))}")
        return self


class ShareCheck(Strict):
    """The share of values above ``threshold`` must lie within ``at_least`` … ``at_most``."""

    output: str
    threshold: float
    at_least: float = Field(default=0.0, ge=0.0, le=1.0)
    at_most: float = Field(default=1.0, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _can_fail(self) -> ShareCheck:
        if self.at_least > self.at_most:
            raise ValueError("at_least is larger than at_most: nothing could pass")
        if self.at_least == 0.0 and self.at_most == 1.0:
            raise ValueError("give at_least or at_most: as it stands every answer passes")
        return self


class TaskEntry(Strict):
    """One task check: exactly one of ``argmax`` and ``share``."""

    argmax: ArgmaxCheck | None = None
    share: ShareCheck | None = None

    @model_validator(mode="after")
    def _one_check(self) -> TaskEntry:
        if (self.argmax is None) == (self.share is None):
            raise ValueError("give exactly one of argmax, share")
        return self

    def task(self) -> Task:
        """What ``engine.models.tasks`` checks."""
        if self.argmax:
            return ArgmaxIs(self.argmax.output, self.argmax.label, self.argmax.labels)
        assert self.share is not None  # noqa: S101 - held by _one_check
        return ShareAbove(self.share.output, self.share.threshold, self.share.at_least, self.share.at_most)
