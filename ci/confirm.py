"""A failure is confirmed before it counts: on a second unit of the same chip and model where there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ci.judge import CaseOutcome, Judge
from ci.plan import EngineUnderTest, alike, confirmation
from consistency.records import CaseStatus
from farm.inventory import Device
from farm.jobs import JobSpec, JobView, Role, RunSummary

Drive = Callable[[list[JobSpec]], RunSummary]
"""Runs planned jobs to their end."""
DOUBTFUL = ("fail", "crashed")
_UNITS = "on a second unit"


@dataclass(frozen=True)
class Confirmation:
    """Runs what failed once more, elsewhere if possible, and says what that shows."""

    judge: Judge
    engine: EngineUnderTest
    drive: Drive
    say: Callable[[str], None]

    def confirmed(self, outcomes: Sequence[CaseOutcome]) -> list[CaseOutcome]:
        """The outcomes, each failure confirmed or found ``flaky``. Those that did not fail are as they were."""
        doubtful = [outcome for outcome in outcomes if outcome.status in DOUBTFUL]
        if not doubtful:
            return list(outcomes)
        self.say(f"confirming {len(doubtful)} failures on a second run")
        tested = {outcome.unit for outcome in outcomes if outcome.answer}
        elsewhere = self._again([(outcome, self._second_unit(outcome, tested)) for outcome in doubtful])
        silent = [outcome for outcome in doubtful if _silent(outcome, elsewhere)]
        at_home = self._again([(outcome, self._device(outcome.unit)) for outcome in silent]) if silent else elsewhere
        return [self._concluded(outcome, elsewhere, at_home) for outcome in outcomes]

    def _again(self, wanted: Sequence[tuple[CaseOutcome, Device]]) -> RunSummary:
        jobs = [(outcome.prepared, outcome.device, unit) for outcome, unit in wanted]
        return self.drive(confirmation(self.judge.matrix, self.engine, jobs))

    def _device(self, name: str) -> Device:
        return next(device for device, _ in self.judge.matrix.devices if device.name == name)

    def _second_unit(self, outcome: CaseOutcome, tested: set[str]) -> Device:
        """Another unit of the same chip and model, rather one that answered in this run; else the same again."""
        first = self._device(outcome.unit)
        others = [device for device, _ in self.judge.matrix.devices if alike(device, first) and device != first]
        return min(others, key=lambda device: (device.name not in tested, device.name), default=first)

    def _concluded(self, outcome: CaseOutcome, elsewhere: RunSummary, at_home: RunSummary) -> CaseOutcome:
        second = _of(outcome, elsewhere)
        if outcome.status not in DOUBTFUL or second is None:
            return outcome
        jobs: tuple[JobView, ...] = (second,)
        words = ""
        if _silent(outcome, elsewhere):
            why = second.error.message if second.error else "no answer"
            words = f"not confirmed {_UNITS} ({second.device}: {why}); "
            again = _of(outcome, at_home)
            jobs, second = (jobs, second) if again is None else ((*jobs, again), again)
        status, told = self._opinion(outcome, second)
        reason = f"{outcome.reason}; {words}{told}"
        return replace(outcome, status=status, reason=reason, confirmations=jobs)

    def _opinion(self, outcome: CaseOutcome, second: JobView) -> tuple[CaseStatus, str]:
        """The status after a second run, and what it adds to the reason."""
        if second.result is None:
            return _no_answer(outcome, second)
        here, there = outcome.unit, second.device
        if outcome.status == "crashed":
            where = (
                "a second run came through" if here == there else f"it crashed on {here} and came through on {there}"
            )
            return "flaky", where
        first_bytes = {record["name"]: record["digest"] for record in outcome.answer["outputs"]}
        second_bytes = {record["name"]: record["digest"] for record in second.result["outputs"]}
        if first_bytes == second_bytes:
            where = "" if here == there else f" on {there}, {_UNITS}"
            return outcome.status, f"confirmed: a second run gave the same bytes{where}"
        changed = ", ".join(sorted(name for name in first_bytes if first_bytes[name] != second_bytes.get(name)))
        if here == there:
            return "flaky", f"a second run gave other bytes for {changed}: not repeatable"
        status = self.judge.outputs_status(outcome.prepared, outcome.device, second.result)
        if status == "pass":
            return "flaky", f"it fails on {here} and passes on {there}: the units differ, or it is not repeatable"
        return outcome.status, f"confirmed {_UNITS}: {here} and {there} both fail, with other bytes for {changed}"


def _no_answer(outcome: CaseOutcome, second: JobView) -> tuple[CaseStatus, str]:
    ended = second.error.status if second.error else "infra"
    where = "" if second.device == outcome.unit else f" on {second.device}, {_UNITS}"
    if ended == "infra":  # the first run's evidence stands: a regression never hides behind a farm fault
        return outcome.status, "not confirmed: the farm failed on the second run"
    if ended == outcome.status:
        return outcome.status, f"confirmed: it {ended} again on a second run{where}"
    return "flaky", f"the second run ended otherwise ({ended}){where}"


def _of(outcome: CaseOutcome, summary: RunSummary) -> JobView | None:
    return summary.of(outcome.prepared.case.id, outcome.device.name, Role.CONFIRM)


def _silent(outcome: CaseOutcome, elsewhere: RunSummary) -> bool:
    """The second unit gave no answer, for a reason that is not the engine's."""
    second = _of(outcome, elsewhere)
    if second is None or second.device == outcome.unit or second.result is not None:
        return False
    return second.error is None or second.error.status == "infra"
