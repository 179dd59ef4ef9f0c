"""The time of a job: every call that must be made fits, and what need not be is left out when it is short."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.digest import bytes_digest
from farm.casejob import CaseJob
from farm.conditions import Conditions
from farm.execution import execute_job
from farm.inventory import Device, Link
from farm.selffirst import MORE
from farm.timeleft import LOOKS, MEASURING_CALLS, WAY_BACK_SECONDS, TimeLeft, job_seconds
from tests.chaos.engine import Engine

SECONDS = 50.0
DEVICE = Device(name="here", chip="c", model="m", tier="low", abis=("x86-64",), memory_mb=64, link=Link(kind="local"))
# Every run gives another output, all of them within their bounds.
RUNNER = """
here=$(dirname -- "$0")
job=$(sed 's/.*"job":"\\([^"]*\\)".*/\\1/' request.json)
echo run >>"$CHAOS/runs"
number=$(wc -l <"$CHAOS/runs")
digest=$(cat "$CHAOS/$number.digest")
mkdir out && cp -- "$CHAOS/$number.bin" out/y.bin
cat >text <<END
{"contract":1,"job":"$job","attempt":1,"runner":{"name":"varies","version":"1","level":0},
 "effective":{"backend":"cpu","precision":"fp32","threads":1,"dispatch":"none"},
 "passes":[{"kind":"plain","iteration":0,"outputs":{"y":"$digest"},"latency_ns":1}],
 "outputs":[{"name":"y","dtype":"float32","shape":[64],"digest":"$digest","path":"y.bin"}]}
END
mv text out/result.json
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A case whose engine varies; each call may take ``SECONDS``."""
    monkeypatch.setenv("LOCKSTEP_STATE", str(tmp_path / "state"))
    chaos = tmp_path / "chaos"
    chaos.mkdir()
    right = np.arange(64, dtype=np.float32)
    for number in range(1, 9):
        data = np.nextafter(right, right + number, dtype=np.float32) if number > 1 else right
        data[number] = np.nextafter(data[number], np.float32(1e9))
        (chaos / f"{number}.bin").write_bytes(data.tobytes())
        (chaos / f"{number}.digest").write_text(bytes_digest(data.tobytes()))
    engine = Engine(tmp_path / "engine")
    (engine.folder / "runner.sh").write_text(RUNNER)
    return engine.job("case", DEVICE, str(chaos), regressed=False, seconds=SECONDS)


def execute(job: dict[str, Any], **farm: Any) -> dict[str, Any]:
    return execute_job({**job, "attempt": 1, "token": 1, **farm}, lambda: None)


def test_what_varies_is_run_again_while_there_is_time(job: dict[str, Any]) -> None:
    answer = execute(job, limit_seconds=1e6)
    assert (len(answer["again"]), answer["left_out"]) == (1 + MORE, [])


def test_without_time_what_was_measured_is_kept_and_the_rest_is_named(job: dict[str, Any]) -> None:
    answer = execute(job, limit_seconds=(1 + MEASURING_CALLS) * SECONDS + WAY_BACK_SECONDS - 1)
    assert len(answer["again"]) == 1
    assert answer["noise"]["y"] > 0
    assert answer["left_out"] == ["further runs of outputs that vary"]


@pytest.mark.parametrize("seconds", [1.0, 120.0, 900.0])
def test_a_job_whose_every_call_takes_all_its_time_keeps_its_limit(
    job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    limit = job_seconds(CaseJob.model_validate({**job, "seconds": seconds}), 0)
    left, looks = TimeLeft.of(limit, seconds), 0
    now[0] += 2 * seconds  # the first call, and one more against itself
    for _ in range(10):
        if left.affords(MEASURING_CALLS):
            now[0], looks = now[0] + seconds, looks + 1
    now[0] += MEASURING_CALLS * seconds
    for _ in range(30):
        if left.affords():
            now[0], looks = now[0] + seconds, looks + 1
    assert looks >= LOOKS
    assert now[0] + WAY_BACK_SECONDS <= limit


def test_the_limit_covers_what_must_travel_and_the_wait_for_a_cool_chip(job: dict[str, Any]) -> None:
    case = CaseJob.model_validate(job)
    cooled = case.model_copy(update={"conditions": Conditions(cool_to=40, cool_seconds=300)})
    assert job_seconds(cooled, 0) == job_seconds(case, 0) + 300
    assert job_seconds(case, 20_000_000) >= job_seconds(case, 0) + 100, "at 200 kB/s, and hashed there"
