from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.local import LocalAgent
from agents.probes.peak import RECORD, Peak, parse
from agents.watching import MemoryWatch

#: Holds 96 MiB, gives it back, says so, and waits: only the kernel's high-water mark still knows.
BURST = "held = bytearray(b'x' * (96 << 20)); del held; print('done', flush=True); input()"


@pytest.fixture
def burst() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", BURST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        yield process.pid
        process.communicate("\n")


def sample(watch: MemoryWatch, times: int = 1) -> None:
    while watch.seen.samples < times and watch.seen.reason != "process ended":
        watch.sample_if_due()


def test_a_peak_between_two_samples_is_not_missed(burst: int, tmp_path: Path) -> None:
    watch = MemoryWatch(burst, tmp_path / RECORD)
    sample(watch)
    watch.write()
    reading = parse((tmp_path / RECORD).read_text())
    assert isinstance(reading, Peak)
    assert reading.rss_kib > 96 * 1024
    assert reading.pss_kib is not None
    assert reading.pss_kib < reading.rss_kib


def test_peaks_of_several_runs_are_joined(burst: int, tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text("1 888888 5\n")
    watch = MemoryWatch(burst, tmp_path / RECORD)
    sample(watch, 2)
    watch.write()
    reading = parse((tmp_path / RECORD).read_text())
    assert isinstance(reading, Peak)
    assert reading.rss_kib > 96 * 1024
    assert (reading.pss_kib, reading.samples) == (888888, 7)


def test_a_process_that_ended_leaves_the_last_good_sample(burst: int, tmp_path: Path) -> None:
    watch = MemoryWatch(burst, tmp_path / RECORD)
    sample(watch)
    last = watch.seen.last
    watch._folder = tmp_path / "gone"
    while watch.seen.reason != "process ended":
        watch.sample_if_due()
    assert watch.seen.last == last is not None


def test_a_record_that_cannot_be_written_fails_no_run(tmp_path: Path) -> None:
    MemoryWatch(1, tmp_path / "no folder" / RECORD).write()
    MemoryWatch(1, tmp_path).write()


def test_a_deadline_holds_though_memory_is_sampled(tmp_path: Path) -> None:
    with LocalAgent("here", "x86-64", root=tmp_path) as agent:
        done = agent.run(["/bin/sh", "-c", "sleep 600"], "jobs/one", {}, 0.5)
    assert done.timed_out
    assert done.seconds < 60
