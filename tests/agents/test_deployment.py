"""Deployment by content on every user land that a device may have: what is kept, what goes, what is never touched."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import deployment, posix
from agents.base import Agent
from agents.deployment import Blob, BundleFiles, Order, Parcel, Stock, plan, push_slot, recall, remember, tar_stream
from agents.local import LocalAgent
from agents.posixstock import first_wrong, read_stock
from engine.contract.errors import ConfigError, StorageFull, TransferError
from tests.agents.bundles import blob_of, bundle_of, there
from tests.agents.shellagent import ShellAgent, shell_agent
from tests.waiting import wait_until

MIB = 2**20


def no_guard() -> None:
    return None


@pytest.fixture(autouse=True)
def own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "cache_root", lambda: tmp_path / "cache")


@pytest.fixture(params=["local", "dash", "busybox", "toybox"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Agent]:
    root = tmp_path / "device"
    made: Agent
    if request.param == "local":
        made = LocalAgent("here", "x86-64", root=root)
    else:
        made = shell_agent(request.param, root, tmp_path)
    with made:
        yield made


def names(tmp_path: Path, place: str) -> set[str]:
    """What is kept there; the notes of sizes begin with a dot."""
    return {path.name for path in (tmp_path / "device" / place).iterdir() if not path.name.startswith(".")}


FILES = {
    "bin/run": b"#!/bin/sh\n",
    "lib/a b.so": b"a" * 3000,
    "lib/$(id)'.so": b"b" * 600,
    "lib/deep/er/c": b"",
    "-x": b"x",
}


# -- bundles ------------------------------------------------------------------------------------------


def test_a_bundle_appears_whole_with_its_modes_and_leaves_no_staging(agent: Agent, tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, FILES)
    agent.deploy([blob_of(tmp_path, b"model")], no_guard, bundle)
    assert there(tmp_path, bundle) == FILES
    root = tmp_path / "device/bundles" / bundle.digest
    assert [os.access(root / name, os.X_OK) for name in ("bin/run", "-x")] == [True, False]
    assert names(tmp_path, "blobs") == {hashlib.sha256(b"model").hexdigest()}
    assert names(tmp_path, "jobs") == set()


def test_a_bundle_is_made_from_an_older_one_that_keeps_its_own_bytes(agent: Agent, tmp_path: Path) -> None:
    old = bundle_of(tmp_path, FILES)
    new_files = {**FILES, "lib/a b.so": b"A" * 3000, "lib/new": b"new"}
    del new_files["lib/$(id)'.so"]
    new = bundle_of(tmp_path, new_files)
    agent.deploy([], no_guard, old)
    before = agent.traffic.deployed
    agent.deploy([], no_guard, new)
    assert there(tmp_path, new) == new_files
    assert there(tmp_path, old) == FILES
    if not isinstance(agent, LocalAgent):  # a host copies from its own disk: there is no link to spare
        assert agent.traffic.deployed - before == 3000 + len(b"new")


def test_a_damaged_older_bundle_is_dropped_and_everything_travels(agent: Agent, tmp_path: Path) -> None:
    old, new = bundle_of(tmp_path, FILES), bundle_of(tmp_path, {**FILES, "lib/new": b"new"})
    agent.deploy([], no_guard, old)
    (tmp_path / "device/bundles" / old.digest / "lib/a b.so").write_bytes(b"a" * 2999 + b"b")
    agent.deploy([], no_guard, new)
    assert there(tmp_path, new) == {**FILES, "lib/new": b"new"}
    if not isinstance(agent, LocalAgent):
        assert names(tmp_path, "bundles") == {new.digest}


def test_a_file_that_changed_under_way_never_makes_a_bundle(agent: Agent, tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, FILES)
    bundle.files["lib/a b.so"].path.write_bytes(b"a" * 2999 + b"b")
    with pytest.raises(TransferError, match=r"a b.so arrived with sha256 \w{12}…, sent was \w{12}…"):
        agent.deploy([], no_guard, bundle)
    assert names(tmp_path, "bundles") == names(tmp_path, "jobs") == set()


def test_a_file_that_shrank_on_the_host_is_told(agent: Agent, tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, FILES)
    bundle.files["lib/a b.so"].path.write_bytes(b"a")
    with pytest.raises(TransferError, match=r"3000 bytes|arrived with sha256"):
        agent.deploy([], no_guard, bundle)
    assert names(tmp_path, "bundles") == names(tmp_path, "jobs") == set()


def test_without_tar_files_travel_one_by_one_to_the_same_end(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posix, "STOCK", posix.STOCK.replace("command -v tar", "command -v no-such-tar"))
    bundle = bundle_of(tmp_path, FILES)
    agent.deploy([blob_of(tmp_path, b"model")], no_guard, bundle)
    assert there(tmp_path, bundle) == FILES
    assert names(tmp_path, "jobs") == set()


def test_a_lease_lost_half_way_leaves_no_name_behind(agent: Agent, tmp_path: Path) -> None:
    class Lost(Exception):
        pass

    asked = []

    def guard() -> None:
        asked.append(1)
        if len(asked) == 4:
            raise Lost

    with pytest.raises(Lost):
        agent.deploy([blob_of(tmp_path, os.urandom(MIB)) for _ in range(4)], guard)
    assert names(tmp_path, "blobs") == set()


@pytest.mark.parametrize("name", ["../x", "/x", "a/../b", "a\nb", "a\\b", "", "./x", "a//b", "a\x7fb"])
def test_a_name_that_could_leave_the_bundle_or_confuse_a_listing_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no plain relative name"):
        BundleFiles("d", {name: Blob(tmp_path, "0" * 64, 1)})


@pytest.mark.parametrize("digest", ["", "..", "a/b", "-rf", "a b", "x" * 129])
def test_a_digest_is_a_plain_name(digest: str) -> None:
    with pytest.raises(ConfigError, match="no bundle digest"):
        BundleFiles(digest, {})


# -- the cap ------------------------------------------------------------------------------------------


def used(tmp_path: Path, name: str, when: int) -> None:
    os.utime(tmp_path / "device" / name, (when, when))


def test_the_least_recently_used_goes_first_and_never_what_is_needed(agent: Agent, tmp_path: Path) -> None:
    agent.cap_bytes = 4 * MIB + MIB // 2
    bundle = bundle_of(tmp_path, {"bin/run": os.urandom(MIB)})
    first, second, third, fourth = (blob_of(tmp_path, os.urandom(MIB)) for _ in range(4))
    agent.deploy([first, second, third], no_guard, bundle)
    used(tmp_path, f"bundles/{bundle.digest}", 1000)  # the oldest, and needed
    used(tmp_path, f"blobs/{first.sha256}", 3000)
    used(tmp_path, f"blobs/{second.sha256}", 2000)
    used(tmp_path, f"blobs/{third.sha256}", 4000)
    agent.deploy([fourth], no_guard, bundle)
    assert names(tmp_path, "blobs") == {first.sha256, third.sha256, fourth.sha256}
    assert there(tmp_path, bundle)


def test_being_asked_for_counts_as_use(agent: Agent, tmp_path: Path) -> None:
    agent.cap_bytes = 2 * MIB + MIB // 2
    first, second, third = (blob_of(tmp_path, os.urandom(MIB)) for _ in range(3))
    agent.deploy([first, second], no_guard)
    used(tmp_path, f"blobs/{first.sha256}", 1000)
    used(tmp_path, f"blobs/{second.sha256}", 2000)
    agent.deploy([first], no_guard)
    agent.deploy([third], no_guard)
    assert names(tmp_path, "blobs") == {first.sha256, third.sha256}


@pytest.mark.parametrize("note", [None, "", "no number\n", "99999999999\n"])
def test_bundles_count_with_their_size_whatever_became_of_the_note_of_it(
    agent: Agent, tmp_path: Path, note: str | None
) -> None:
    agent.cap_bytes = 3 * MIB + MIB // 2
    older = bundle_of(tmp_path, {"bin/run": os.urandom(2 * MIB)})
    first, second = (blob_of(tmp_path, os.urandom(MIB)) for _ in range(2))
    agent.deploy([first], no_guard, older)
    for path in (tmp_path / "device/bundles").glob(".*"):
        assert path.read_text() == "2048\n"
        path.unlink() if note is None else path.write_text(note)
    used(tmp_path, f"bundles/{older.digest}", 1000)
    agent.deploy([second], no_guard)
    assert names(tmp_path, "blobs") == {first.sha256, second.sha256}
    assert list((tmp_path / "device/bundles").iterdir()) == []


def test_a_note_is_believed_so_that_no_bundle_is_walked_through(tmp_path: Path) -> None:
    with shell_agent("dash", tmp_path / "device", tmp_path) as agent:
        agent.cap_bytes = 3 * MIB
        older = bundle_of(tmp_path, {"bin/run": b"small"})
        agent.deploy([], no_guard, older)
        (tmp_path / "device/bundles" / f".{older.digest}").write_text("4096\n")
        agent.deploy([blob_of(tmp_path, b"x")], no_guard)
        assert names(tmp_path, "bundles") == set()


def test_a_job_that_needs_more_than_the_cap_is_refused_before_anything_travels(agent: Agent, tmp_path: Path) -> None:
    agent.cap_bytes = 2 * MIB
    with pytest.raises(StorageFull, match="the job needs 3 MiB, its folder may hold 2") as caught:
        agent.deploy([blob_of(tmp_path, os.urandom(MIB)) for _ in range(3)], no_guard)
    assert "cache_mb" in caught.value.hint
    assert names(tmp_path, "blobs") == set()


# -- what a crash of the device leaves ----------------------------------------------------------------


def boot(tmp_path: Path, name: str) -> None:
    (tmp_path / "boot_id").write_text(f"{name}\n")


def marked(tmp_path: Path) -> set[str]:
    folder = tmp_path / "device"
    return {path.name for place in ("blobs", "bundles") for path in (folder / place).iterdir() if is_marked(path)}


def is_marked(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_ISVTX)


@pytest.fixture(params=["dash", "busybox", "toybox"])
def crashing(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShellAgent]:
    """A device whose boot the test names, and whose storage is slow until ``tmp_path/synced`` is there."""
    known, slow = str(tmp_path / "boot_id"), f"until [ -e {tmp_path}/synced ]; do sleep 1; done;"
    text = posix.MAKE_FOLDER.replace("/proc/sys/kernel/random/boot_id", known).replace("sync;", slow)
    monkeypatch.setattr(posix, "MAKE_FOLDER", text)
    boot(tmp_path, "first")
    with shell_agent(request.param, tmp_path / "device", tmp_path) as agent:
        yield agent
    (tmp_path / "synced").touch()


def test_what_had_not_reached_the_storage_before_a_crash_travels_again(crashing: ShellAgent, tmp_path: Path) -> None:
    bundle, model = bundle_of(tmp_path, FILES), blob_of(tmp_path, b"model")
    crashing.deploy([model], no_guard, bundle)
    assert marked(tmp_path) == {model.sha256, bundle.digest}
    whole = crashing.traffic.deployed
    crashing._connect()
    crashing.deploy([model], no_guard, bundle)
    assert crashing.traffic.deployed == whole, "what was placed in this boot is there"
    for path in (tmp_path / "device/blobs" / model.sha256, tmp_path / "device/bundles" / bundle.digest / "-x"):
        path.write_bytes(bytes(path.stat().st_size))
    boot(tmp_path, "second")
    crashing._connect()
    crashing.deploy([model], no_guard, bundle)
    assert crashing.traffic.deployed == 2 * whole
    assert there(tmp_path, bundle) == FILES
    assert (tmp_path / "device/blobs" / model.sha256).read_bytes() == b"model"


def test_what_has_reached_the_storage_stays_after_a_crash(crashing: ShellAgent, tmp_path: Path) -> None:
    bundle, model = bundle_of(tmp_path, FILES), blob_of(tmp_path, b"model")
    (tmp_path / "synced").touch()
    crashing.deploy([model], no_guard, bundle)
    crashing._connect()
    wait_until(lambda: not marked(tmp_path))
    whole = crashing.traffic.deployed
    boot(tmp_path, "second")
    crashing._connect()
    crashing.deploy([model], no_guard, bundle)
    assert crashing.traffic.deployed == whole


def test_a_bundle_of_a_host_that_lost_bytes_is_placed_again_and_one_that_gained_some_stays(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, FILES)
    root = tmp_path / "device/bundles" / bundle.digest
    with LocalAgent("here", "x86-64", root=tmp_path / "device") as agent:
        agent.deploy([], no_guard, bundle)
        (root / "bin/run").write_bytes(b"")
        agent.deploy([], no_guard, bundle)
        assert there(tmp_path, bundle) == FILES
        (root / "tuned").write_bytes(b"by the engine itself")
        agent.deploy([], no_guard, bundle)
        assert (root / "tuned").exists()


# -- leftovers ----------------------------------------------------------------------------------------


def test_what_an_earlier_holder_left_goes_with_its_programs_and_nothing_else_does(agent: Agent, tmp_path: Path) -> None:
    jobs = tmp_path / "device/jobs"
    earlier, later, mine, free = (jobs / name for name in ("6.over-1", "8.next-1", "7.mine-1", "0.canonical-1"))
    for folder in (earlier, later, mine, free):
        folder.mkdir()
        (folder / "request.json").write_text("{}")
    old = subprocess.Popen(["sleep", "600"], cwd=earlier)
    new = subprocess.Popen(["sleep", "600"], cwd=later)
    try:
        agent.token = 7
        agent.deploy([blob_of(tmp_path, b"x")], no_guard)
        assert names(tmp_path, "jobs") == {"8.next-1", "7.mine-1", "0.canonical-1"}
        assert old.wait(10) == -9
        assert new.poll() is None
    finally:
        for process in (old, new):
            process.kill()
            process.wait()


def test_a_folder_that_nothing_touched_for_a_day_goes_whoever_made_it(agent: Agent, tmp_path: Path) -> None:
    for name in ("0.old-1", "strange", "0.young-1"):
        (tmp_path / "device/jobs" / name).mkdir()
    for name in ("0.old-1", "strange"):
        used(tmp_path, f"jobs/{name}", int(time.time()) - 25 * 3600)
    agent.deploy([], no_guard)
    assert names(tmp_path, "jobs") == {"0.young-1"}


# -- pushes at once -----------------------------------------------------------------------------------


def test_only_so_many_push_at_once_and_a_lost_lease_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "state_root", lambda: tmp_path)
    monkeypatch.setenv("LOCKSTEP_PUSHES", "2")
    entered, waited, release = threading.Semaphore(0), threading.Event(), threading.Event()

    def push(guard: object = no_guard) -> None:
        with push_slot(waited.set):
            entered.release()
            release.wait(20)

    threads = [threading.Thread(target=push) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert entered.acquire(timeout=10)
    assert entered.acquire(timeout=10)
    assert waited.wait(10)
    assert not entered.acquire(blocking=False)

    def lost() -> None:
        raise TimeoutError("lease")

    with pytest.raises(TimeoutError, match="lease"), push_slot(lost):
        pass
    release.set()
    for thread in threads:
        thread.join(60)
    assert entered.acquire(blocking=False)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1000"])
def test_a_wrong_number_of_pushes_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("LOCKSTEP_PUSHES", text)
    with pytest.raises(ConfigError, match="is no number of pushes"):
        push_slot(no_guard)


# -- plans --------------------------------------------------------------------------------------------


@given(st.dictionaries(st.sampled_from(["a", "b/c", "b/d", "e"]), st.binary(max_size=2000), min_size=1))
def test_the_tar_is_read_back_and_no_larger_than_its_format_asks(files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        blobs = {name: blob_of(Path(folder), data) for name, data in files.items()}
        packed = b"".join(tar_stream(blobs, no_guard))
    assert len(packed) == sum(512 + -(-len(data) // 512) * 512 for data in files.values()) + 1024
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert {entry.name: tar.extractfile(entry).read() for entry in tar} == files  # type: ignore[union-attr]


def test_the_older_bundle_that_saves_most_is_taken(tmp_path: Path) -> None:
    files = {"a": b"a" * 100, "b": b"b" * 50, "c": b"c" * 10}
    near, far = bundle_of(tmp_path, {**files, "c": b"old"}), bundle_of(tmp_path, {"b": b"b" * 50, "z": b""})
    new = bundle_of(tmp_path, files)
    for known in (near, far):
        remember(known)
    stock = Stock(frozenset({f"bundles/{new.digest}"}), 10**9, 0, (far.digest, "unknown", near.digest))
    parcel = plan(Order({}, new), stock)
    assert (parcel.base, parcel.dropped, set(parcel.files)) == (near.digest, ("c",), {"bundle/c"})
    assert set(parcel.contents) == {"bundle/a", "bundle/b", "bundle/c"}


def test_what_the_device_or_the_memory_says_wrong_only_costs_a_transfer(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, {"a": b"a"})
    remember(bundle)
    (tmp_path / "cache/manifests" / f"{bundle.digest}.json").write_text('{"a": 5}')
    assert recall(bundle.digest) == {}
    assert recall("../../etc/passwd") == {}
    stock = Stock(frozenset({f"bundles/{bundle.digest}"}), bundles=("../..", bundle.digest))
    assert plan(Order({}, bundle), stock).base == ""


@pytest.mark.parametrize(
    "answer", ["", "0\nroom 1 1\n", "0\nroom 1 1\nend 2", "0\nend 1", "9\nroom 1 1\nend 1", "room x y\nend 1"]
)
def test_an_answer_that_is_not_whole_is_no_answer(answer: str) -> None:
    assert read_stock(answer, ["blobs/a", "blobs/b"]) is None


def test_an_answer_is_read_by_line_numbers() -> None:
    answer = "1\nroom 2048 3\ntar\nbundle abc\nbundle def\nend 1\n"
    stock = Stock(frozenset({"blobs/b"}), 2048 * 1024, 3 * 1024, ("abc", "def"), tar=True)
    assert read_stock(answer, ["blobs/a", "blobs/b"]) == stock
    assert read_stock("end 0\n", ["blobs/a"]) == Stock()


def test_the_file_that_arrived_wrong_is_named() -> None:
    listing = f"{'a' * 64}  ./bundle/x\n{'b' * 64} *./bundle/y z\n"
    assert first_wrong(listing, {"bundle/x": "a" * 64, "bundle/y z": "c" * 64}) == ("bundle/y z", "b" * 64, "c" * 64)
    assert first_wrong(listing, {"bundle/x": "a" * 64, "bundle/y z": "b" * 64}) is None


def test_the_tree_digest_is_what_the_tools_print(tmp_path: Path) -> None:
    contents = {"bundle/b": hashlib.sha256(b"b").hexdigest(), "blobs/a": hashlib.sha256(b"a").hexdigest()}
    for name in contents:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name[-1:].encode())
    command = "find blobs bundle -type f | sed 's/^/.\\//' | xargs sha256sum | LC_ALL=C sort | sha256sum"
    printed = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert Parcel({}, contents, 2).tree == printed.split()[0]
