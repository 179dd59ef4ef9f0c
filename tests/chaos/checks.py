"""What must hold after any fault, from what the store and the devices themselves recorded."""

from __future__ import annotations

from farm.jobs import JobStatus, JobView
from tests.chaos.world import LEASE_SECONDS, Evidence

ENDED = {"done", "failed", "cancelled"}
#: What the engine said, and all that is judged; the rest of a result tells of times, traffic and the device.
SAID = ("passes", "layers", "outputs", "runner", "effective", "requested")


def verdict(job: JobView, evidence: Evidence) -> str:
    """Pass, fail, crashed, infra or cancelled: what a gate makes of the job."""
    if job.status is JobStatus.CANCELLED:
        return "cancelled"
    if job.error is not None:
        return job.error.status
    assert job.result is not None
    return "pass" if digests(job) == {evidence.right} else "fail"


def digests(job: JobView) -> set[str]:
    """Every digest of an output in a result, as told by the pass and by the output itself."""
    assert job.result is not None
    told = {output["digest"] for output in job.result["outputs"]}
    return told | {digest for entry in job.result["passes"] for digest in entry["outputs"].values()}


def every_job_ends_once(evidence: Evidence) -> None:
    """One change into a final state, none out of it; the attempts tell the same story."""
    for job in evidence.jobs:
        mine = [change for change in evidence.changes if change.job == job.id]
        finals = [change for change in mine if change.after in ENDED and change.before != change.after]
        assert len(finals) == 1, f"{job.case} ended {len(finals)} times: {mine}"
        assert not [change for change in mine if change.before in ENDED], f"{job.case} changed after its end: {mine}"
        tries = evidence.attempts[job.id]
        assert [attempt.number for attempt in tries] == list(range(1, job.attempts + 1))
        assert all(attempt.ended is not None and attempt.outcome != "running" for attempt in tries), tries
        done = [attempt.number for attempt in tries if attempt.outcome == "done"]
        assert done == ([job.attempts] if job.status is JobStatus.DONE else []), tries


def no_late_write(evidence: Evidence) -> None:
    """A result is written once, by the attempt that was the job's present one; tokens only grow."""
    for job in evidence.jobs:
        written = [change for change in evidence.changes if change.job == job.id and change.result]
        assert len(written) == (1 if job.status is JobStatus.DONE else 0), f"{job.case}: {written}"
        if job.result is not None:
            assert job.result["chaos_attempt"] == job.attempts
            assert written[0].attempts == job.attempts
    for device in {job.device for job in evidence.jobs}:
        tries = [attempt for job in evidence.jobs if job.device == device for attempt in evidence.attempts[job.id]]
        tokens = [attempt.token for attempt in sorted(tries, key=lambda attempt: attempt.token)]
        assert len(set(tokens)) == len(tokens), f"{device}: a token was given twice"


def never_two_holders(evidence: Evidence) -> None:
    """No device ever found a runner at work when another one began."""
    for device, lines in evidence.device_logs.items():
        assert not [line for line in lines if line.startswith("overlap")], f"{device}: {lines}"


def nothing_is_left_on_the_device(evidence: Evidence) -> None:
    """No folder of a job and no half file."""
    assert not evidence.leftovers, evidence.leftovers


def nothing_is_confused(evidence: Evidence, ends: str, lasts: bool = False) -> None:
    """The victim ends as it must, the regression is seen, and nobody else is blamed.

    ``lasts``: the victim's device stays unusable, so that its other job ends as infra.
    """
    seen = {job.case: verdict(job, evidence) for job in evidence.jobs}
    reasons = {job.case: job.error.message for job in evidence.jobs if job.error}
    assert seen["victim"] == ends, (seen, reasons)
    assert seen["other"] == "pass", (seen, reasons)
    assert seen["regressed"] == "fail", (seen, reasons)
    assert seen["after"] == ("infra" if lasts else "pass"), (seen, reasons)


def same_results(evidence: Evidence, undisturbed: Evidence) -> None:
    """What is stored of an engine's answers is what an undisturbed run stores."""
    calm = {job.case: job for job in undisturbed.jobs}
    for job in evidence.jobs:
        if job.result is not None:
            wanted = calm[job.case].result
            assert wanted is not None
            assert [job.result[key] for key in SAID] == [wanted[key] for key in SAID], job.case


def recovery_seconds(evidence: Evidence) -> float:
    """From the fault until the victim is at work again, or has ended."""
    victim = next(job for job in evidence.jobs if job.case == "victim")
    assert evidence.struck is not None
    later = [
        change.at
        for change in evidence.changes
        if change.job == victim.id and change.at >= evidence.struck and change.after in {*ENDED, "running"}
    ]
    return later[0] - evidence.struck


def recovers_in_time(evidence: Evidence) -> None:
    """Within twice the time of a lease."""
    story = [(round(change.at - (evidence.struck or 0), 1), change.after) for change in evidence.changes]
    assert recovery_seconds(evidence) <= 2 * LEASE_SECONDS, story
