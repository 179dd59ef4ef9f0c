"""A device behind a jump host: two real daemons, both keys verified."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.base import AgentSpec
from agents.ssh import SshAgent, make
from engine.contract.errors import DeviceUnauthorized, DeviceUnavailable, HostKeyChanged
from tests.agents.sshd import Sshd, running_sshd

pytestmark = pytest.mark.ssh


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "gate") as server:
        yield server


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "board") as server:
        yield server


def agent_through(gate: Sshd, board: Sshd, tmp_path: Path) -> SshAgent:
    address = replace(board.address, jump=gate.address)
    return SshAgent("pi", "x86-64", address=address, folder=str(tmp_path / "device"))


def test_a_device_behind_a_jump_host_passes_preflight_and_runs_programs(
    gate: Sshd, board: Sshd, tmp_path: Path
) -> None:
    with agent_through(gate, board, tmp_path) as agent:
        agent.preflight()
        done = agent.run(["/bin/sh", "-c", "cat /proc/$PPID/stat >/dev/null; echo here"], "jobs/1.one", {}, 20)
        assert done.stdout == b"here\n"
        transport = agent._link._client.get_transport() if agent._link._client else None
        assert transport is not None
        assert not isinstance(transport.sock, socket.socket)  # a channel of the jump host's connection
    assert agent._link._jump is None


def test_the_link_file_names_the_jump_host(gate: Sshd, board: Sshd, tmp_path: Path) -> None:
    gate.trust(board.folder / "known_hosts")
    (gate.folder / "user_key.pub").write_text((board.folder / "user_key.pub").read_text())
    where = board.address
    link = {
        "host": where.host,
        "port": where.port,
        "user": where.user,
        "key": str(where.key),
        "known_hosts": str(where.known_hosts),
        "folder": str(tmp_path / "device"),
        "jump": f"{where.user}@127.0.0.1:{gate.port}",
    }
    agent = make(AgentSpec("pi", "x86-64", tmp_path, link))
    assert agent.address.jump == replace(where, port=gate.port)
    with agent:
        agent.preflight()


@pytest.mark.parametrize(("text", "host", "port", "user"), [("a.b", "a.b", 22, "pi"), ("me@a:1", "a", 1, "me")])
def test_what_a_jump_leaves_out_is_the_links(tmp_path: Path, text: str, host: str, port: int, user: str) -> None:
    link = {"host": "pi", "port": 2201, "user": "pi", "key": "/k", "known_hosts": "/known", "jump": text}
    jump = make(AgentSpec("pi", "x86-64", tmp_path, link)).address.jump
    assert jump is not None
    assert (jump.host, jump.port, jump.user, jump.key, jump.known_hosts) == (
        host,
        port,
        user,
        Path("/k"),
        Path("/known"),
    )


def test_the_key_of_the_jump_host_is_verified_first(gate: Sshd, board: Sshd, tmp_path: Path) -> None:
    (gate.folder / "known_hosts").write_text("")
    with (
        pytest.raises(DeviceUnauthorized, match=rf"pi: jump host: host key unknown: 127.0.0.1 port {gate.port}"),
        agent_through(gate, board, tmp_path),
    ):
        pass
    gate.trust()
    gate.change_host_key()
    with (
        pytest.raises(HostKeyChanged, match=rf"pi: jump host: host key changed: 127.0.0.1 port {gate.port}"),
        agent_through(gate, board, tmp_path),
    ):
        pass


def test_the_key_of_the_device_is_verified_behind_a_jump_host(gate: Sshd, board: Sshd, tmp_path: Path) -> None:
    board.change_host_key()
    agent = agent_through(gate, board, tmp_path)
    with pytest.raises(HostKeyChanged, match=rf"pi: host key changed: 127.0.0.1 port {board.port}"), agent:
        pass
    assert agent._link._jump is None


def test_a_device_that_the_jump_host_cannot_reach_is_told_as_such(gate: Sshd, board: Sshd, tmp_path: Path) -> None:
    board.stop()
    with (
        pytest.raises(
            DeviceUnavailable,
            match=rf"pi: no ssh at 127.0.0.1 port {board.port}: the jump host cannot reach it \(Connect.*\)",
        ),
        agent_through(gate, board, tmp_path),
    ):
        pass


def test_a_jump_host_that_dies_is_told_and_not_waited_for(gate: Sshd, board: Sshd, tmp_path: Path) -> None:
    with agent_through(gate, board, tmp_path) as agent:
        gate.kill_daemons()
        with pytest.raises(DeviceUnavailable, match="was lost"):
            agent.facts()
