"""The time of a job: what its limit covers, and what it may still begin.

A runner call may take as long as the case allows, and a job makes as many as its answer asks for. The calls without
which nothing can be judged always fit; a closer look is begun only if it fits too, and is left out otherwise. So an
engine that is slow and keeps its limit never looks like a device that hangs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from agents.posix import placing_seconds
from farm.casejob import CaseJob

#: Layers are measured in at most two goes; a runner that gives no statistics is asked for the tensors after each.
MEASURING_CALLS = 4
#: The first call, one more against itself, and the layers measured.
MUST_CALLS = 2 + MEASURING_CALLS
#: Closer looks that fit even if every call takes all of its time.
LOOKS = 2
#: Connecting, proving the device, reading its state before and after.
AROUND_SECONDS = 120.0
#: What is kept for the way back after the last call.
WAY_BACK_SECONDS = 30.0


def job_seconds(job: CaseJob, tensor_bytes: int) -> float:
    """The time limit of a job. ``tensor_bytes``: of all golden tensors, which travel to an engine that differs."""
    files = [*job.bundle.files.values(), job.model, *(entry.file for entry in job.inputs)]
    size = sum(file.size for file in files) + tensor_bytes
    calls = (MUST_CALLS + LOOKS) * job.seconds
    return AROUND_SECONDS + placing_seconds(size, size, len(files)) + calls + job.conditions.longest_wait


@dataclass(frozen=True)
class TimeLeft:
    """``until`` (monotonic seconds) the job may work; one call takes up to ``call_seconds``."""

    until: float
    call_seconds: float

    @classmethod
    def of(cls, limit_seconds: float, call_seconds: float) -> TimeLeft:
        """Of a job that begins now."""
        return cls(time.monotonic() + limit_seconds, call_seconds)

    def affords(self, must_follow: int = 0) -> bool:
        """Whether one more call fits, and ``must_follow`` others after it, should each take all of its time."""
        return time.monotonic() + (1 + must_follow) * self.call_seconds + WAY_BACK_SECONDS <= self.until
