"""``lockstep runs`` on a real store and, where it matters, a real farm."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ci.cli.runs import command
from ci.runlist import show_run
from engine.contract.errors import RunCancelled, UsageError
from farm.driving import driving
from farm.jobs import JobError, JobSpec, JobStatus, Role, RunSpec
from farm.runwatch import watch_run
from farm.session import FarmSession
from farm.store import Store, attempts_of, create_run, jobs_of
from farm.store.jobs import finish_run
from farm.store.runs import find_run, note_run
from farm.store.transitions import claim, fail, finish
from farm.sweeps import begin, end, resume
from tests.waiting import wait_until


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("LOCKSTEP_STORE_URL", raising=False)
    monkeypatch.delenv("LOCKSTEP_BROKER_URL", raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def runs(*words: str) -> Result:
    return CliRunner().invoke(command, words, standalone_mode=False)


def terminal(*words: str) -> subprocess.Popen[str]:
    program = Path(sys.executable).parent / "lockstep"
    return subprocess.Popen(
        [program, "runs", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/"
    )


def ended_run(store: Store) -> str:
    spec = RunSpec(suite="smoke", engine="refrt", command="lockstep gate", owner="ann@lab")
    run_id = create_run(store, spec, [JobSpec(case="vad", device="a53"), JobSpec(case="vad", device="pixel")])
    good, bad = jobs_of(store, run_id)
    finish(store, claim(store, good.id, "w1@lab", 10), {})
    error = JobError(type="RunnerCrashed", message="it died of SIGSEGV [red]", hint="see its log", status="crashed")
    fail(store, claim(store, bad.id, "w2@lab", 10), error, retry=False)
    finish_run(store, run_id, "done")
    note_run(store, run_id, report="/reports/index.html")
    return run_id


def test_an_empty_store_has_no_runs() -> None:
    assert runs().output == "no runs\n"


def test_the_list_fits_80_columns_and_tells_what_a_run_is() -> None:
    with Store() as store:
        run_id = ended_run(store)
        long = RunSpec(suite="a-suite-with-a-long-name.yaml", engine="an-engine-with-a-long-name", command="c",
                       kind="sweep", owner="somebody-with-a-long-name@a-host-with-a-long-name")  # fmt: skip
        create_run(store, long, [JobSpec(case="c", device=f"d{i}") for i in range(1200)])
    lines = runs().output.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["run", "kind", "status", "jobs", "age", "suite/engine", "owner"]
    assert re.match(r"\S{22} +sweep +running +0/1200 +\d+ s +a-suite", lines[1])
    assert re.match(rf"{run_id} +gate +done +2/2 +\d+ s +smoke/refrt +ann@lab *$", lines[2])
    assert len(runs("--living").output.splitlines()) == 2
    assert len(runs("--limit", "1").output.splitlines()) == 2


def test_one_run_is_shown_with_its_attempts_errors_and_report() -> None:
    with Store() as store:
        run_id = ended_run(store)
    text = runs("show").output
    assert max(map(len, text.splitlines())) <= 80
    for words in (
        f"run       {run_id}",
        "owner     ann@lab",
        "status    done, 2 of 2 jobs ended",
        "report    /reports/index.html",
        "vad on pixel (head)",
        "attempt 1 by w2@lab: error: it died of SIGSEGV [red]",
        "next: see its log",
    ):
        assert words in text, text
    assert re.search(r"a53 +vad +head +done +1 +\d", text)
    assert runs("show", run_id).output == text


def test_the_newest_run_is_the_one_with_the_report_and_names_what_confirmed_it() -> None:
    with Store() as store:
        main = ended_run(store)
        spec = RunSpec(suite="s", engine="e", command="c", kind="confirm", payload={"confirms": main})
        again = create_run(store, spec, [JobSpec(case="vad", device="pixel", role=Role.CONFIRM)])
        assert find_run(store, "latest").id == again, "it runs"
        finish_run(store, again, "done")
        note_run(store, main, confirmed_by=[again])
        assert find_run(store, "latest").id == main
    assert all(re.search(r" (confirm|gate) .* (s/e|smoke/refrt) ", line) for line in runs().output.splitlines()[1:])
    assert f"confirmed by {again}" in runs("show").output
    assert f"kind      confirm of {main}, priority" in runs("show", again).output


@pytest.mark.parametrize(
    ("case", "device"),
    [
        ("orientation-page-rotated-quantised-int8", "pixel-8-pro-left-bench"),
        ("smoke-ort-example/orientation-page-rotated", "pixel-8-pro-left-bench-upper-shelf-3"),
        ("c", "d" * 200),
        ("c" * 200, "d"),
    ],
)
def test_what_became_of_a_job_is_never_cut_for_long_names(case: str, device: str) -> None:
    with Store() as store:
        spec = RunSpec(suite="s", engine="e", command="c")
        run_id = create_run(store, spec, [JobSpec(case=case, device=device, role=Role.CONFIRM)])
        (job,) = jobs_of(store, run_id)
        finish(store, claim(store, job.id, "w", 10), {})
    lines = runs("show").output.splitlines()
    (head,) = (line for line in lines if line.startswith("device"))
    row = lines[lines.index(head) + 1]
    assert max(map(len, lines)) <= 80
    assert head.split() == ["device", "case", "role", "status", "tries", "seconds"]
    assert row.startswith(("pixel", "d"))
    assert row.split()[2:5] == ["confirm", "done", "1"]


def test_of_a_sweep_it_is_shown_who_drives_it_and_when_that_was_last_seen() -> None:
    now = [1e9]
    with Store(clock=lambda: now[0]) as store:
        sweep = begin(store, "lab1/a", "c", {"suites": ["smoke"], "engines": ["refrt"]})
        assert "status    open; driven from lab1, last sign of life 0 s ago\n" in show_run(store, sweep)
        now[0] += 90
        assert "driven from lab1, last sign of life 90 s ago\n" in show_run(store, sweep)
        with driving(store, sweep):
            pass
        words = f"open; nobody drives it: `lockstep sweep --resume {sweep.id[-6:]}` goes on\n"
        assert words in show_run(store, find_run(store, sweep.id))


def test_whoever_watches_a_sweep_hears_of_the_silence_of_what_drives_it_and_of_no_other() -> None:
    """Between its runs a sweep builds and judges for longer than a run may be silent."""
    now, looks, said = [1e9], [], []

    def clock() -> float:
        looks.append(now[0])
        return now[0]

    with Store(clock=clock) as store:
        sweep = begin(store, "lab1/a", "c", {"suites": ["smoke"], "engines": ["refrt"]})
        part = create_run(store, RunSpec(suite="s", engine="e", command="c", kind="sweep", sweep=sweep.id), [])
        finish_run(store, part, "done")
        now[0] += 600
        resume(store, "lab1/a", sweep.id)
        watcher = threading.Thread(target=lambda: watch_run(store, sweep, said.append))
        watcher.start()
        wait_until(lambda: len(looks) > 20)
        assert said == []
        now[0] += 60
        wait_until(lambda: said)
        end(store, sweep)
        watcher.join()
    assert said == [f"the command that drives sweep {sweep.id} gave no sign of life for 60 s"]


def test_nothing_of_what_a_person_types_is_a_traceback() -> None:
    for words in (["show", "nothing"], ["cancel", "nothing", "--reason", "x"], ["watch", "%"]):
        assert isinstance(runs(*words).exception, UsageError)
    assert isinstance(runs("cancel", "latest", "--reason", " ").exception, UsageError)


def test_a_run_that_ended_is_watched_to_its_end_at_once() -> None:
    with Store() as store:
        ended_run(store)
    told = runs("watch")
    assert "[2/2] pixel vad (head) failed" in told.output
    assert "is done: 2 of 2 jobs ended" in told.output
    assert told.return_value == 0


@pytest.mark.services
def test_a_run_is_watched_and_cancelled_from_another_terminal(tmp_path, monkeypatch) -> None:
    """The device is free and its program ended within seconds; the command that drives the run learns who and why."""
    (tmp_path / "hangs.py").write_text(
        "import time\n"
        "def execute(spec, guard):\n"
        "    while spec['case'] == 'hangs':\n"
        "        guard()\n"
        "        time.sleep(0.02)\n"
        "    return {}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with FarmSession(executor="hangs:execute", slots=2) as farm:
        places = (("goes", "a", 0), ("hangs", "b", 0), ("waits", "b", 1))
        jobs = [JobSpec(case=case, device=device, position=at, spec={"case": case}) for case, device, at in places]
        run_id = create_run(farm.store, RunSpec(suite="s", engine="e", command="c"), jobs)
        watcher = terminal("watch", run_id)
        cancelled: list[str] = []

        def cancel() -> None:
            wanted = {"goes": JobStatus.DONE, "hangs": JobStatus.RUNNING, "waits": JobStatus.QUEUED}
            until = time.monotonic() + 60
            while {job.case: job.status for job in jobs_of(farm.store, run_id)} != wanted:
                assert time.monotonic() < until
                time.sleep(0.02)
            cancelled.append(terminal("cancel", run_id[-6:], "--by", "ann", "--reason", "demo").communicate()[0])

        other = threading.Thread(target=cancel)
        other.start()
        with pytest.raises(RunCancelled, match=f"run {run_id} was cancelled by ann: demo"):
            farm.run(run_id)
        other.join()
        watched, _ = watcher.communicate(timeout=60)
    assert cancelled == [f"run {run_id} is cancelled; 2 jobs had not ended\n"]
    assert watcher.returncode == 3
    for words in (
        "[1/3] a goes (head) done",
        "b hangs (head) cancelled",
        "cancelled by ann: demo",
        "is cancelled: 3 of 3 jobs ended",
    ):
        assert words in watched, watched
    with Store() as store:
        hung = next(job for job in jobs_of(store, run_id) if job.case == "hangs")
        (attempt,) = attempts_of(store, hung.id)
        assert attempt.outcome == "cancelled"
        assert attempt.ended is not None, "its worker has stopped"
        assert find_run(store, run_id).payload["cancelled"]["by"] == "ann"
    assert "cancelled by ann" in runs("show", run_id).output
