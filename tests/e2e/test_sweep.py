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


def finished(state: Path) -> list[JobView]:
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
        while not (state / "lockstep.db").exists() or len(finished(state)) < 2:
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
    contents = [job.content for job in finished(state)]
    assert len(contents) == len(set(contents)) == 6, "each job once, whichever run did it"
    verdict = json.loads((folder / "smoke-ort-example" / "verdict.json").read_text())
    assert len(verdict["cases"]) == 6, "the dead run's jobs are in the report"
    assert "is done" in bench.lockstep("runs", "watch", document["sweep"]).text
    assert "no sweep is unfinished" in bench.lockstep("sweep", "--resume").text


def test_one_broken_expectation_takes_no_other_report_and_mended_its_part_is_judged(bench: Bench) -> None:
    clone, out = bench.folder / "clone", bench.folder / "out"
    clone.mkdir()
    for name in ("engine", "engines", "suites", "examples", "setup"):
        (clone / name).symlink_to(REPOSITORY / name)
    broken = clone / "expectations" / "x86-64-v1-host" / "vad-noise.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("case: vad-noise\nengin: ort-example\n")
    engines = ("--engine", "ort-example", "--engine", bench.engine("crashing", "exit 4"))
    words = ("--suite", "smoke", *engines, "--devices", bench.fleet(HOST), "--out", str(out))
    done = bench.lockstep("sweep", *words, cwd=clone)
    assert done.exit_code == 2, done.text
    assert "ort-example on smoke cannot be judged unless this is mended before its end" in done.stderr
    assert "not judged: ort-example on smoke" in done.stdout
    (folder,) = out.iterdir()
    document = json.loads((folder / "sweep.json").read_text())
    judged, crashed = document["parts"]
    assert (judged["status"], judged["exit_code"]) == ("not judged", 2)
    assert str(broken.relative_to(clone)) in judged["reason"]
    assert "judges it again and repeats no job" in judged["next_step"]
    assert crashed["cases"] == {"crashed": 6}
    assert (folder / crashed["report"]).is_file()
    gate = bench.lockstep("gate", *words[2:4], "--case", "vad-noise", *words[6:], cwd=clone)
    assert (gate.exit_code, "vad-noise.yaml" in gate.stderr) == (2, True)
    ran = len(done_jobs := finished(bench.folder / "state"))
    broken.unlink()
    again = bench.lockstep("sweep", "--resume", document["sweep"], "--out", str(out), cwd=clone)
    assert again.exit_code == 1, again.text
    judged = json.loads((folder / "sweep.json").read_text())["parts"][0]
    assert judged["cases"] == {"pass": 6}
    assert len(finished(bench.folder / "state")) == ran == len({job.content for job in done_jobs}), "no job ran again"
