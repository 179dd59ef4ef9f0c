"""The ssh agent against a real sshd: what the contract suite of all agents does not ask."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from agents import sshlink
from agents.base import AgentSpec, Completed
from agents.deployment import Blob, BundleFiles, Order
from agents.ssh import SshAgent, make
from engine.contract.errors import ConfigError, DeviceUnauthorized, DeviceUnavailable, HostKeyChanged, TransferError
from engine.toolchain import environment_of, group_tree
from tests.agents.sshd import Sshd, running_sshd
from tests.waiting import wait_until

pytestmark = pytest.mark.ssh


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd") as server:
        yield server


def agent_of(daemon: Sshd, folder: Path | str) -> SshAgent:
    return SshAgent("pi", "x86-64", address=daemon.address, folder=str(folder))


def shell(agent: SshAgent, text: str, seconds: float = 20.0, env: Mapping[str, str] | None = None) -> object:
    return agent.run(["/bin/sh", "-c", text], "jobs/one", env or {}, seconds)


def ended(pid: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def wait_for_text(path: Path) -> str:
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"{path.name} never came")
    return path.read_text()


# -- host keys ---------------------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused_shown_and_not_learnt(daemon: Sshd, tmp_path: Path) -> None:
    known = daemon.folder / "known_hosts"
    known.write_text("")
    with (
        pytest.raises(DeviceUnauthorized, match=r"pi: host key unknown: .* offers SHA256:\S+") as caught,
        agent_of(daemon, tmp_path / "device"),
    ):
        pass
    assert "compare its fingerprint" in caught.value.hint
    assert f"ssh-keyscan -p {daemon.port}" in caught.value.hint
    assert known.read_text() == ""


def test_two_ports_of_one_address_are_two_hosts_and_a_changed_key_touches_only_its_own(
    daemon: Sshd, tmp_path: Path
) -> None:
    with running_sshd(tmp_path / "second") as second:
        second.trust(daemon.folder / "known_hosts")
        others = replace(second.address, known_hosts=daemon.folder / "known_hosts")
        with agent_of(daemon, tmp_path / "a"), SshAgent("pi2", "x86-64", address=others, folder=str(tmp_path / "b")):
            pass
        daemon.change_host_key()
        with (
            pytest.raises(HostKeyChanged, match=r"pi: host key changed: .* known_hosts has SHA256") as caught,
            agent_of(daemon, tmp_path / "a"),
        ):
            pass
        assert f"-R '[127.0.0.1]:{daemon.port}'" in caught.value.hint
        with SshAgent("pi2", "x86-64", address=others, folder=str(tmp_path / "b")):
            pass


def test_without_a_known_hosts_file_nothing_is_trusted(daemon: Sshd, tmp_path: Path) -> None:
    (daemon.folder / "known_hosts").unlink()
    with pytest.raises(DeviceUnavailable, match="cannot be verified: there is no file"), agent_of(daemon, tmp_path):
        pass


# -- who we are --------------------------------------------------------------------------------------


def test_a_key_the_device_does_not_know_is_refused_without_telling_it(daemon: Sshd, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    shutil.copy(daemon.folder / "host_key", stranger)
    agent = SshAgent("pi", "x86-64", address=replace(daemon.address, key=stranger))
    with pytest.raises(DeviceUnauthorized, match="was refused") as caught, agent:
        pass
    secret = stranger.read_text().splitlines()[2]
    assert "authorized_keys" in caught.value.hint
    assert secret not in str(caught.value) + repr(caught.value.fields) + repr(agent)


def test_a_key_file_that_others_can_read_is_refused(daemon: Sshd, tmp_path: Path) -> None:
    (daemon.folder / "user_key").chmod(0o640)
    with pytest.raises(DeviceUnavailable, match="can be read by others") as caught, agent_of(daemon, tmp_path):
        pass
    assert caught.value.hint.startswith("chmod 600 ")


def test_an_absent_key_file_is_named(daemon: Sshd) -> None:
    address = replace(daemon.address, key=daemon.folder / "none")
    with (
        pytest.raises(DeviceUnavailable, match=r"cannot read key file .*none"),
        SshAgent("pi", "x86-64", address=address),
    ):
        pass


def test_a_key_with_a_passphrase_belongs_into_ssh_agent(daemon: Sshd) -> None:
    tree = group_tree("ssh")
    command = [tree / "usr/bin/ssh-keygen", "-q", "-p", "-N", "hush-hush", "-P", "", "-f", daemon.folder / "user_key"]
    subprocess.run(command, env=environment_of(tree), check=True, stdout=subprocess.DEVNULL)
    with pytest.raises(DeviceUnavailable, match="needs a passphrase") as caught, agent_of(daemon, "x"):
        pass
    assert "ssh-add" in caught.value.hint


def test_without_a_key_file_ssh_agent_is_asked(daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = group_tree("ssh")
    environment = environment_of(tree) | {"SSH_AUTH_SOCK": str(daemon.folder / "socket")}
    holder = subprocess.Popen(
        [tree / "usr/bin/ssh-agent", "-D", "-a", daemon.folder / "socket"], env=environment, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        subprocess.run([tree / "usr/bin/ssh-add", "-q", daemon.folder / "user_key"], env=environment, check=True)
        monkeypatch.setenv("SSH_AUTH_SOCK", environment["SSH_AUTH_SOCK"])
        with SshAgent("pi", "x86-64", address=replace(daemon.address, key=None), folder=str(tmp_path / "d")) as agent:
            agent.preflight()
    finally:
        holder.kill()
        holder.communicate()


def test_nobody_listening_is_told_with_host_and_port(daemon: Sshd) -> None:
    with socket.socket() as taken:  # bound and never listening: nobody else can have the port meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with (
            pytest.raises(DeviceUnavailable, match=rf"no ssh at 127.0.0.1 port {port}: Connection refused"),
            SshAgent("pi", "x86-64", address=replace(daemon.address, port=port), folder="x"),
        ):
            pass


# -- its folder --------------------------------------------------------------------------------------


def test_no_name_is_ever_read_by_a_shell(daemon: Sshd, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    folder = tmp_path / f'it\'s $(touch {trap.name}) "here"; touch trap'
    name = "a b'c`touch trap`$(touch trap);touch trap"
    data = b"data"
    path = tmp_path / "file"
    path.write_bytes(data)
    blob = Blob(path, hashlib.sha256(data).hexdigest(), len(data))
    with agent_of(daemon, folder) as agent:
        agent.deploy([], lambda: None, BundleFiles("d", {name: blob}))
        agent.deploy([], lambda: None, BundleFiles("d", {name: blob}))
        done = agent.run(["printf", "%s", "$(touch trap)"], "jobs/o'ne", {"A": "`touch trap`"}, 20)
        agent.end_job("jobs/o'ne")
    assert done.stdout == b"$(touch trap)"
    assert agent.traffic.deployed == len(data)
    assert (folder / "bundles/d" / name).read_bytes() == data
    assert not list(tmp_path.rglob("trap"))


def test_a_folder_that_cannot_be_made_is_told_before_anything_travels(daemon: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DeviceUnavailable, match=r"cannot make its folder .*Not a directory"),
        agent_of(daemon, tmp_path / "file" / "device"),
    ):
        pass


def test_a_file_that_finds_no_room_is_told_and_leaves_no_part(daemon: Sshd, tmp_path: Path) -> None:
    with agent_of(daemon, tmp_path / "device") as agent:
        part = tmp_path / "device/jobs/part"
        part.symlink_to("/dev/full")
        with pytest.raises(TransferError, match="pi: cannot write jobs/part: size mismatch") as caught:
            agent.send_text("x" * 100_000, "jobs/part")
        assert "is there room" in caught.value.hint
        assert not part.is_symlink()
        agent.preflight()


def test_a_folder_without_execution_is_told_by_preflight(daemon: Sshd, tmp_path: Path) -> None:
    class NoExec(SshAgent):
        def _script(self, text: str, *arguments: str, seconds: float, stdin: bytes = b"") -> Completed:
            without = text.replace('chmod 755 -- "$2/probe"', 'chmod 644 -- "$2/probe"')  # as shared storage does
            return super()._script(without, *arguments, seconds=seconds, stdin=stdin)

    with (
        NoExec("pi", "x86-64", address=daemon.address, folder=str(tmp_path / "d")) as agent,
        pytest.raises(DeviceUnavailable, match=r"Permission denied.*\n.*allows execution"),
    ):
        agent.preflight()


def test_a_greeting_of_the_login_shell_is_no_answer(daemon: Sshd, tmp_path: Path) -> None:
    (daemon.folder / ".ssh").mkdir()
    (daemon.folder / ".ssh/rc").write_text("echo Welcome to the board; echo 12 34% /\n")
    with agent_of(daemon, tmp_path / "device") as agent:
        agent.preflight()
        assert agent.run(["echo", "hi"], "jobs/one", {}, 20).stdout == b"hi\n"


def test_questions_about_many_files_and_facts_are_one_round_trip_each(
    daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent_of(daemon, tmp_path / "device") as agent:
        (tmp_path / "device/blobs/there").write_text("x")
        commands: list[str] = []
        start = sshlink.SshLink._start
        monkeypatch.setattr(sshlink.SshLink, "_start", lambda link, text: commands.append(text) or start(link, text))
        many = {f"blobs/{number:064x}": Blob(tmp_path, f"{number:064x}", 1) for number in range(3000)}
        there = {"blobs/there": Blob(tmp_path, "there", 1)}
        assert agent._stock(Order({**many, **there})).missing == many.keys()
        assert len(commands) == 1
        assert agent.facts()["kernel"] == os.uname().release
        assert len(commands) == 2


# -- programs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 126, 255])
def test_the_exit_code_is_exact(daemon: Sshd, tmp_path: Path, code: int) -> None:
    with agent_of(daemon, tmp_path / "device") as agent:
        assert shell(agent, f"exit {code}").exit_code == code  # type: ignore[attr-defined]


def test_a_flood_on_both_streams_blocks_neither(daemon: Sshd, tmp_path: Path) -> None:
    flood = "head -c 8000000 /dev/zero >&2 & head -c 8000000 /dev/zero; wait; echo out; echo err >&2"
    with agent_of(daemon, tmp_path / "device") as agent:
        done = shell(agent, flood)
    assert done.exit_code == 0  # type: ignore[attr-defined]
    assert done.stdout.endswith(b"\0out\n")  # type: ignore[attr-defined]
    assert done.stderr.endswith(b"\0err\n")  # type: ignore[attr-defined]


def test_a_program_sees_its_own_environment_and_no_other(daemon: Sshd, tmp_path: Path) -> None:
    with agent_of(daemon, tmp_path / "device") as agent:
        seen = shell(agent, "env", env={"A": "x y"}).stdout.decode().splitlines()  # type: ignore[attr-defined]
    assert {"A=x y", f"HOME={tmp_path}/device/jobs/one", "LANG=C.UTF-8"} <= set(seen)
    assert not [line for line in seen if line.startswith("SSH_")]


def test_a_strange_name_in_the_environment_is_refused(daemon: Sshd, tmp_path: Path) -> None:
    with agent_of(daemon, tmp_path / "device") as agent, pytest.raises(ConfigError, match="'-S' cannot be the name"):
        agent.run(["true"], "jobs/one", {"-S": "x"}, 20)


# -- the link dies -----------------------------------------------------------------------------------


def running(agent: SshAgent, mark: Path, seconds: float = 60.0) -> tuple[threading.Thread, list[BaseException]]:
    """A program that sleeps on the device, and what its caller gets."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            shell(agent, f"sleep 600 & echo $! > {mark}; wait", seconds)
        except DeviceUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, errors


def test_a_killed_daemon_is_told_at_once_and_leaves_no_program_behind(daemon: Sshd, tmp_path: Path) -> None:
    with agent_of(daemon, tmp_path / "device") as agent:
        thread, errors = running(agent, tmp_path / "mark")
        child = int(wait_for_text(tmp_path / "mark"))
        daemon.kill_daemons()
        thread.join(60)
        assert not thread.is_alive()
        assert "connection to 127.0.0.1" in str(errors[0])
        wait_until(lambda: ended(child), "the program outlived its link")
        assert not agent.still_answers()


def test_a_caller_that_hangs_up_leaves_no_program_behind(daemon: Sshd, tmp_path: Path) -> None:
    with agent_of(daemon, tmp_path / "device") as agent:
        thread, errors = running(agent, tmp_path / "mark")
        child = int(wait_for_text(tmp_path / "mark"))
    thread.join(60)
    assert errors
    wait_until(lambda: ended(child), "the program outlived its link")


def test_a_frozen_device_is_waited_for_until_the_deadline_and_no_longer(
    daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshlink, "GRACE_SECONDS", 0.5)
    with agent_of(daemon, tmp_path / "device") as agent:
        thread, errors = running(agent, tmp_path / "mark", seconds=3.0)
        wait_for_text(tmp_path / "mark")
        daemon.freeze()
        thread.join(60)
        assert not thread.is_alive()
        assert "was lost" in str(errors[0])


@pytest.mark.parametrize("fault", ["kill_daemons", "freeze"])
def test_a_transfer_cut_in_the_middle_never_has_its_final_name(
    daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    data = os.urandom(30_000_000)
    path = tmp_path / "model"
    path.write_bytes(data)
    blob = Blob(path, hashlib.sha256(data).hexdigest(), len(data))
    with agent_of(daemon, tmp_path / "device") as agent:
        monkeypatch.setattr(sshlink, "SILENCE_SECONDS", 1.0)
        monkeypatch.setattr(sshlink, "GRACE_SECONDS", 0.5)
        sendall = paramiko.Channel.sendall
        sent: list[int] = []

        def send_then_fault(channel: paramiko.Channel, piece: bytes) -> None:
            sent.append(len(piece))
            if len(sent) == 30:
                getattr(daemon, fault)()
            sendall(channel, piece)

        monkeypatch.setattr(paramiko.Channel, "sendall", send_then_fault)
        with pytest.raises((DeviceUnavailable, TransferError), match="was lost"):
            agent.deploy([blob], lambda: None)
    assert sum(sent) < blob.size
    assert not (tmp_path / "device/blobs" / blob.sha256).exists()


def test_a_silent_device_ends_a_download_long_before_its_limit(
    daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshlink, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(sshlink, "SLOWEST_BYTES_PER_SECOND", 1)
    with agent_of(daemon, tmp_path / "device") as agent:
        (tmp_path / "device/jobs/result").write_text("x" * 1000)
        daemon.freeze()
        with pytest.raises(DeviceUnavailable, match="was lost"):
            agent.fetch("jobs/result", 1000)


def test_a_frozen_device_does_not_answer_and_is_not_waited_for(
    daemon: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshlink, "CONNECT_SECONDS", 1.0)
    with agent_of(daemon, tmp_path / "device") as agent:
        assert agent.still_answers()
        daemon.freeze()
        assert not agent.still_answers()


def test_make_reads_the_link_of_a_devices_file(daemon: Sshd, tmp_path: Path) -> None:
    where = daemon.address
    link = {
        "host": where.host,
        "port": where.port,
        "user": where.user,
        "key": str(where.key),
        "known_hosts": str(where.known_hosts),
        "folder": str(tmp_path / "device"),
    }
    with make(AgentSpec("pi", "x86-64", tmp_path, link)) as agent:
        agent.preflight()


def test_a_daemon_without_sftp_is_told_what_to_add(daemon: Sshd, tmp_path: Path) -> None:
    daemon.stop()
    daemon.start(extra="Subsystem other /bin/false")
    with pytest.raises(DeviceUnavailable, match="offers no sftp") as caught, agent_of(daemon, tmp_path / "device"):
        pass
    assert "Subsystem sftp internal-sftp" in caught.value.hint
