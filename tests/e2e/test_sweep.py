"""``lockstep sweep`` on the host: killed outright in the middle, gone on with, reported whole."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from farm.jobs import JobStatus, JobView
from farm.store import Store, jobs_of
from farm.store.runs import list_runs
from tests.e2e.bench import HOST, LOCKSTEP, REPOSITORY, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.services]


def done(state: Path) -> list[JobView]:
    with Store(f"sqlite:///{state / 'lockstep.db'}") as store:
        jobs = [job for run in list_runs(store) for job in jobs_of(store, run.id, documents=False)]
    return [job for job in jobs if job.status is JobStatus.DONE]


def test_a_killed_sweep_finishes_what_is_missing_and_repeats_nothing(bench: Bench) -> None:
    state, out = bench.folder / "state", bench.folder / "out"
    crashing = bench.engine("crashing", "exit 4")
    words = [
        "sweep",
        "--suite",
        "smoke",
        "--engine",
        "ort-example",
        "--engine",
        crashing,
        "--devices",
        bench.fleet(HOST),
    ]
    sweep = subprocess.Popen(
        [*LOCKSTEP, *words, "--out", str(out)],
        cwd=REPOSITORY,
        env={**os.environ, "LOCKSTEP_STATE": str(state)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 200
        while not (state / "lockstep.db").exists() or len(done(state)) < 2:
            assert sweep.poll() is None, "it ended before it was killed"
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        sweep.kill()
        sweep.wait()
    other = bench.lockstep("sweep", "--resume", "--suite", "smoke")
    assert other.exit_code == 2
    assert "leave the selection out" in other.text
    again = bench.lockstep(*words, "--out", str(out))  # the same words in the same night: the same sweep
    assert again.exit_code == 1, again.text
    assert "taken over from earlier runs" in again.text
    assert max(map(len, again.stdout.splitlines()[:-1])) <= 80
    (folder,) = out.iterdir()
    document = json.loads((folder / "sweep.json").read_text())
    assert document["taken_over"] >= 2
    by_engine = {part["name"]: part for part in document["parts"]}
    assert by_engine["smoke-ort-example"]["cases"] == {"pass": 6}
    assert by_engine["smoke-crashing"]["cases"] == {"crashed": 6}
    assert (folder / "smoke-ort-example" / "report" / "index.html").is_file()
    contents = [job.content for job in done(state)]
    assert len(contents) == len(set(contents)) == 6, "each job once, whichever run did it"
    verdict = json.loads((folder / "smoke-ort-example" / "verdict.json").read_text())
    assert len(verdict["cases"]) == 6, "the dead run's jobs are in the report"
    assert "is done" in bench.lockstep("runs", "watch", document["sweep"]).text
    assert "no sweep is unfinished" in bench.lockstep("sweep", "--resume").text
