"""What a case asks of the state of a device, as data: how cool it must be, and under which governor."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from farm.config import Strict


class Conditions(Strict):
    """Conditions of one case. Emulated devices have no chip that warms up and no governor: they meet them untested.

    ``cool_to`` (°C): the run waits until the chip is that cool, at most ``cool_seconds``; a device that is not known
    to be cool then is ``inconclusive``. ``governor`` is held on every core for the time of the run and put back.
    """

    cool_to: Annotated[float, Field(ge=15, le=95)] | None = None
    cool_seconds: float = Field(default=600.0, gt=0, le=3600)
    governor: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]{0,31}$")

    @model_validator(mode="after")
    def _limit_of_something(self) -> Conditions:
        if "cool_seconds" in self.model_fields_set and self.cool_to is None:
            raise ValueError("cool_seconds limits the wait for cool_to: give that too")
        return self

    @property
    def longest_wait(self) -> float:
        """Seconds that a job may wait before it runs."""
        return self.cool_seconds if self.cool_to is not None else 0.0
