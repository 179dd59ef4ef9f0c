"""Files that travel beside the script: every user land unpacks and verifies them alike, and a lost lease ends them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents import deployment, posix
from agents.apart import Apart, Trip, by_size
from agents.base import Completed
from agents.deployment import Order
from agents.posixstock import PLACE_APART
from agents.room import RESERVE_BYTES
from engine.contract.errors import TransferError
from tests.agents.bundles import blob_of, bundle_of, there
from tests.agents.shellagent import ShellAgent, shell_agent
from tests.waiting import wait_until

FILES = {
    "bin/run": b"r" * 5000,
    "lib/a b.so": b"a" * 3000,
    "lib/$(id)'.so": b"b" * 600,
    "lib/deep/er/large": b"l" * 9000,
    "-x": b"x",
}


@pytest.fixture(params=["dash", "busybox", "toybox"])
def agent(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShellAgent]:
    @contextmanager
    def send(self: ShellAgent, waves: Sequence[Iterable[Apart]], folder: str) -> Iterator[Iterator[str]]:
        def sent(file: Apart) -> str:
            self._send(b"".join(file.pieces), f"{folder}/{file.name}", file.executable)
            return file.name

        yield (sent(file) for files in waves for file in files)

    monkeypatch.setattr(deployment, "cache_root", lambda: tmp_path / "cache")
    monkeypatch.setattr(ShellAgent, "apart_bytes", 2000)
    monkeypatch.setattr(ShellAgent, "_send_apart", send)
    with shell_agent(request.param, tmp_path / "device", tmp_path) as made:
        yield made


def test_large_and_small_files_end_in_one_bundle_with_their_modes(agent: ShellAgent, tmp_path: Path) -> None:
    models = [blob_of(tmp_path, bytes([number]) * 4000) for number in range(5)]
    old = bundle_of(tmp_path, FILES)
    agent.deploy([*models, blob_of(tmp_path, b"small")], lambda: None, old)
    assert there(tmp_path, old) == FILES
    assert os.access(tmp_path / "device/bundles" / old.digest / "bin/run", os.X_OK)
    assert not os.access(tmp_path / "device/bundles" / old.digest / "lib/deep/er/large", os.X_OK)
    assert len(list((tmp_path / "device/blobs").iterdir())) == 6
    assert list((tmp_path / "device/jobs").iterdir()) == []
    changed = {**FILES, "lib/deep/er/large": b"L" * 9000, "lib/new": b"new"}
    new = bundle_of(tmp_path, changed)
    agent.deploy(models, lambda: None, new)
    assert there(tmp_path, new) == changed
    assert there(tmp_path, old) == FILES


@pytest.mark.parametrize("name", ["lib/deep/er/large", "lib/$(id)'.so"])
def test_what_arrives_changed_gets_no_name(agent: ShellAgent, tmp_path: Path, name: str) -> None:
    bundle = bundle_of(tmp_path, FILES)
    bundle.files[name].path.write_bytes(b"?" * len(FILES[name]))
    with pytest.raises(TransferError, match="arrived with sha256"):
        agent.deploy([], lambda: None, bundle)
    assert list((tmp_path / "device/bundles").iterdir()) == list((tmp_path / "device/jobs").iterdir()) == []


def test_a_script_whose_input_ends_early_leaves_nothing(
    agent: ShellAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = bundle_of(tmp_path, FILES)
    words = Trip.words
    monkeypatch.setattr(Trip, "words", lambda *asked: iter(list(words(*asked))[:-1]))
    with pytest.raises(TransferError, match="cannot be unpacked"):
        agent.deploy([], lambda: None, bundle)
    assert list((tmp_path / "device/bundles").iterdir()) == list((tmp_path / "device/jobs").iterdir()) == []


def test_a_script_whose_line_is_cut_leaves_nothing(agent: ShellAgent, tmp_path: Path) -> None:
    jobs = tmp_path / "device/jobs"
    values = (str(tmp_path / "device"), "7.deploy-1", "tree", "digest", "", "9", "")
    with subprocess.Popen(
        [*agent.shell, "-c", PLACE_APART, "lockstep", *values],
        env={"PATH": agent.tools},
        stdin=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509 - nohup would have it ignored
    ) as script:
        wait_until((jobs / "7.deploy-1.sent").is_dir)
        (jobs / "7.deploy-1.sent/blobs").mkdir()
        (jobs / "7.deploy-1.sent/blobs/arrived").write_bytes(b"x")
        assert script.stdin is not None
        script.stdin.write(b"blobs/arrived\n")
        script.stdin.flush()
        wait_until((jobs / "7.deploy-1.sums/0").is_file)
        script.send_signal(signal.SIGHUP)
        assert script.wait(60) == 3
    assert list(jobs.iterdir()) == []


def test_many_small_files_have_time_by_their_number(
    agent: ShellAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed: list[float] = []
    pipe = ShellAgent._pipe

    def noted(self: ShellAgent, *words: str, source: Iterator[bytes], seconds: float) -> Completed:
        allowed.append(seconds)
        return pipe(self, *words, source=source, seconds=seconds)

    monkeypatch.setattr(ShellAgent, "_pipe", noted)
    for count in (1, 200):
        agent.deploy([], lambda: None, bundle_of(tmp_path, {f"f{number}": b"%d" % number for number in range(count)}))
    assert allowed[1] - allowed[0] >= 199 / posix.SLOWEST_FILES


def test_a_tar_that_travels_as_a_file_is_counted_as_room(agent: ShellAgent, tmp_path: Path) -> None:
    order = Order.of([blob_of(tmp_path, b"m" * 4000)], bundle_of(tmp_path, FILES))
    assert 600 + 1 <= agent._reserve(order) - RESERVE_BYTES <= 8 * 1024


def test_the_largest_goes_first_and_the_small_ones_keep_their_order(tmp_path: Path) -> None:
    files = {name: blob_of(tmp_path, data) for name, data in FILES.items()}
    large, small = by_size(files, 2000)
    assert list(large) == ["lib/deep/er/large", "bin/run", "lib/a b.so"]
    assert list(small) == ["lib/$(id)'.so", "-x"]
