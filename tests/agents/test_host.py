"""What only agents of this host meet: programs that start beside other threads of the same process."""

import threading
from pathlib import Path

import pytest

from agents import host
from agents.deployment import Blob, BundleFiles, Order, plan
from agents.local import LocalAgent
from engine.contract.errors import DeviceUnavailable
from engine.digest import file_sha256


class Busy(LocalAgent):
    """A fake of a neighbour: it holds the program open for writing, as a process does that was started meanwhile."""

    release: threading.Event

    def _send(self, data: Path | bytes, target: str, executable: bool) -> None:
        super()._send(data, target, executable)
        held = (self.root / target).open("ab")
        threading.Thread(target=lambda: (self.release.wait(), held.close())).start()


@pytest.fixture
def agent(tmp_path: Path) -> Busy:
    made = Busy("here", "x86-64", root=tmp_path)
    made.release = threading.Event()
    return made


def test_a_program_that_is_still_held_open_starts_as_soon_as_it_is_not(agent: Busy) -> None:
    tried = agent._execute_once

    def once(*arguments: object) -> object:
        done = tried(*arguments)  # type: ignore[arg-type]
        agent.release.set()  # seen busy once
        return done

    agent._execute_once = once  # type: ignore[method-assign,assignment]
    with agent:
        agent.preflight()


def test_one_that_stays_held_open_is_told_and_not_waited_for_without_end(
    agent: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "BUSY_SECONDS", 0.1)
    try:
        with agent, pytest.raises(DeviceUnavailable, match="Text file busy"):
            agent.preflight()
    finally:
        agent.release.set()


def test_a_bundle_that_another_user_placed_meanwhile_stays_where_it_runs(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    blob = Blob(program, file_sha256(program), program.stat().st_size, executable=True)
    bundle = BundleFiles("d1", {"run": blob})
    with (
        LocalAgent("one", "x86-64", root=tmp_path / "d") as one,
        LocalAgent("two", "x86-64", root=tmp_path / "d") as two,
    ):
        asked = two._stock(Order.of([], bundle))  # both find it missing
        one.deploy([], lambda: None, bundle)
        inode = (tmp_path / "d/bundles/d1/run").stat().st_ino
        two._place(plan(Order.of([], bundle), asked), True, lambda: None)
    assert (tmp_path / "d/bundles/d1/run").stat().st_ino == inode
    assert list((tmp_path / "d/jobs").iterdir()) == []
