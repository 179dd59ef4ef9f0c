"""The adb agent against a real adbd: what the contract suite of all agents does not ask."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agents import adb, adblink, adbpush, adbreach, adbshell, posix
from agents.adb import AdbAgent
from agents.adblist import LOST, Listed, parse_devices
from agents.base import AgentSpec
from agents.deployment import Blob, BundleFiles
from engine.contract.errors import DeviceUnavailable, TransferError
from tests.agents.adbd import AdbDevice
from tests.agents.adbunit import Units, adb_units

pytestmark = pytest.mark.adb


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    with adb_units(tmp_path_factory.mktemp("units")) as started:
        yield started


@pytest.fixture
def device(units: Units) -> Iterator[AdbDevice]:
    unit = units.unit("x86-64")
    yield unit
    unit.mend()


def agent_of(*serials: str, name: str = "phone", **more: str) -> AdbAgent:
    return AdbAgent(name, "x86-64", serials=serials, **more)  # type: ignore[arg-type]


def blob_of(folder: Path, data: bytes) -> Blob:
    path = folder / hashlib.sha256(data).hexdigest()[:8]
    path.write_bytes(data)
    return Blob(path, hashlib.sha256(data).hexdigest(), len(data))


def wait_until(condition: object, words: str) -> None:
    until = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, words
        time.sleep(0.01)


def ended(device: AdbDevice, pid: int) -> bool:
    try:
        return " Z " in (device.root / f"proc/{pid}/stat").read_text()
    except OSError:
        return True


class Proxy:
    """A second address of a device, which can stop in the middle: connected, and nothing comes through any more."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.serial = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.left = 1 << 60
        self._open = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(20)
        for end in self._open:
            end.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._open.append(near)
                far = socket.create_connection(("127.0.0.1", self._target), 10)
                self._open.append(far)
                self._start(self._pump, near, far, True)
                self._start(self._pump, far, near, False)

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            source.settimeout(None)
            while data := source.recv(4096):
                if self.left > 0:
                    target.sendall(data)
                    self.left -= len(data) if counted else 0
            target.shutdown(socket.SHUT_WR)


@contextmanager
def proxy_to(device: AdbDevice) -> Iterator[Proxy]:
    proxy = Proxy(device.port)
    try:
        yield proxy
    finally:
        proxy.close()


# -- old and new shells --------------------------------------------------------------------------------


@pytest.fixture(params=["v2", "exec", "pty"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    # A real terminal in between, as adbd before Android 5 had for every command.
    monkeypatch.setitem(adbshell.PLAIN_SERVICES, "pty", "shell,pty")
    return str(request.param)


def test_a_tensor_with_line_ends_in_it_arrives_byte_for_byte(device: AdbDevice, tmp_path: Path, shell: str) -> None:
    data = b"\x0d\x0a\x0a\x0d" * 1000
    with agent_of(device.serial, shell=shell) as agent:
        agent.deploy([blob_of(tmp_path, data)], lambda: None)
        arrived = agent.fetch(f"blobs/{hashlib.sha256(data).hexdigest()}", len(data))
    assert hashlib.sha256(arrived).hexdigest() == hashlib.sha256(data).hexdigest()


def test_a_number_is_read_alike_whatever_ends_its_line(device: AdbDevice, shell: str) -> None:
    with agent_of(device.serial, shell=shell) as agent:
        for ends in ("\\n", "\\r\\n", "\\r\\r\\n"):
            said = agent._script(f"printf '7{ends}'", seconds=20).stdout
            assert int(said) == 7


@pytest.mark.parametrize("code", [0, 1, 126, 255])
def test_the_exit_code_is_exact(device: AdbDevice, shell: str, code: int) -> None:
    with agent_of(device.serial, shell=shell) as agent:
        done = agent.run(["/bin/sh", "-c", f"echo out; echo err >&2; exit {code}"], "jobs/one", {}, 20)
    assert (done.exit_code, done.stdout, done.stderr) == (code, b"out\n", b"err\n")


def test_a_deadline_ends_the_program_over_every_shell(device: AdbDevice, shell: str) -> None:
    with agent_of(device.serial, shell=shell) as agent:
        mark = device.root / "data/local/tmp/lockstep/jobs/one/pid"
        mark.unlink(missing_ok=True)
        done = agent.run(["/bin/sh", "-c", "sleep 600 & echo $! > pid; wait"], "jobs/one", {}, 2)
        assert done.timed_out
        assert done.exit_code != 0
        pid = int(mark.read_text())
        wait_until(lambda: ended(device, pid), "the program outlived its deadline")
        agent.preflight()


def test_input_and_long_scripts_arrive_over_every_shell(device: AdbDevice, shell: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(50_000))
    with agent_of(device.serial, shell=shell) as agent:
        assert agent._script("cat", seconds=20, stdin=lines).stdout == lines
        long = "echo begun\n" + "# nothing\n" * 600 + 'printf "%s" "$1" "$#"'
        assert agent._script(long, "a b'c", seconds=20).stdout == b"begun\na b'c1"
        assert agent.facts()["kernel"] == os.uname().release
    left = [path.name for path in (device.root / "data/local/tmp").iterdir() if path.name.startswith(".lockstep")]
    assert left == []


@pytest.mark.parametrize("plain", ["exec", "pty"])
def test_a_command_that_does_not_tell_its_end_is_no_success(
    device: AdbDevice, monkeypatch: pytest.MonkeyPatch, plain: str
) -> None:
    monkeypatch.setitem(adbshell.PLAIN_SERVICES, "pty", "shell,pty")
    with agent_of(device.serial, shell=plain) as agent:
        with pytest.raises(DeviceUnavailable, match="it does not tell how a command ended"):
            agent._script("echo feed::feed:0:feed; kill -KILL 0", seconds=20)
        assert not agent.still_answers()


def test_a_device_without_the_feature_is_driven_by_the_marker(
    device: AdbDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = adbreach.AdbServer.query

    def hidden(server: adbreach.AdbServer, service: str, seconds: float = 10.0) -> str:
        return query(server, service, seconds).replace("shell_v2", "hidden")

    monkeypatch.setattr(adbreach.AdbServer, "query", hidden)
    with agent_of(device.serial) as agent:
        assert agent._link.route.shell == "exec"
        agent.preflight()


# -- which unit, by which link ---------------------------------------------------------------------------


class Listing:
    """A server that only lists: a fake, because no emulated device can lack a permission."""

    def __init__(self, text: str) -> None:
        self._text = text

    def devices(self) -> tuple[Listed, ...]:
        return parse_devices(self._text)


@pytest.mark.parametrize(
    ("line", "words", "hint"),
    [
        ("R58M\toffline", "R58M is offline", "replug"),
        ("R58M\tunauthorized", "R58M is unauthorized", "accept this host's key"),
        ("R58M\tno permissions (no udev rules; see [http://x])", r"no permissions \(no udev rules; see", "udev"),
        ("", "R58M is lost", "adb kill-server"),
    ],
)
def test_each_state_is_told_with_its_next_step(
    monkeypatch: pytest.MonkeyPatch, line: str, words: str, hint: str
) -> None:
    monkeypatch.setattr(adbreach, "SETTLE_SECONDS", 0.0)
    with pytest.raises(DeviceUnavailable, match=f"phone: .*{words}") as caught:
        adbreach.reach(Listing(f"List of devices\r\n{line}\r\n"), "phone", ("R58M",))  # type: ignore[arg-type]
    assert hint in caught.value.hint


def test_an_address_where_nobody_listens_is_lost_with_the_servers_words(units: Units, device: AdbDevice) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        serial = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DeviceUnavailable, match=rf"{serial} is {LOST} \(.*refused"), agent_of(serial):
            pass


def test_the_first_link_that_works_is_taken(device: AdbDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    with agent_of("unit-x86-64", device.serial) as agent:
        assert agent._link.route.serial == device.serial
        assert agent._link.route.hardware == "unit-x86-64"
        agent.preflight()


def test_an_address_that_passed_to_another_phone_is_refused(device: AdbDevice) -> None:
    with (
        pytest.raises(DeviceUnavailable, match=rf"{device.serial} is unit unit-x86-64, not R58M") as caught,
        agent_of("R58M", device.serial),
    ):
        pass
    assert "an entry of its own" in caught.value.hint


def test_one_unit_under_two_names_is_refused_and_under_one_name_is_one_device(device: AdbDevice) -> None:
    with proxy_to(device) as other, agent_of(device.serial, name="left"):
        with (
            pytest.raises(DeviceUnavailable, match=r"right: unit unit-x86-64 is in use as left") as caught,
            agent_of(other.serial, name="right"),
        ):
            pass
        assert "keep one of left and right" in caught.value.hint
        with agent_of(other.serial, device.serial, name="left") as same:
            same.preflight()
    with proxy_to(device) as other, agent_of(other.serial, name="right"):
        pass


def test_links_to_two_units_are_no_device(units: Units, device: AdbDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = adbreach._ask_who
    with proxy_to(device) as other:

        def renamed(server: object, serial: str, shell: str) -> adbreach.Route | None:
            route = asked(server, serial, shell)  # type: ignore[arg-type]
            return route._replace(hardware="0099") if route and serial == other.serial else route

        monkeypatch.setattr(adbreach, "_ask_who", renamed)
        with agent_of(other.serial):  # our server knows both addresses from now on
            pass
        with (
            pytest.raises(DeviceUnavailable, match="its serials lead to different units"),
            agent_of(device.serial, other.serial),
        ):
            pass


# -- where programs run ----------------------------------------------------------------------------------


def test_shared_storage_that_runs_nothing_is_passed_over(device: AdbDevice) -> None:
    with agent_of(device.serial, folder="/sdcard/lockstep") as agent:
        assert agent.home == "/data/local/tmp/lockstep"
        agent.preflight()


def test_a_device_on_which_nothing_may_run_is_told_as_that(device: AdbDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adb, "CANDIDATES", ("/proc/lockstep",))
    with (
        pytest.raises(DeviceUnavailable, match=r"/sdcard/lockstep \(not executable here\); /proc/lockstep \("),
        agent_of(device.serial, folder="/sdcard/lockstep"),
    ):
        pass


def test_no_name_is_ever_read_by_a_shell(device: AdbDevice, tmp_path: Path, shell: str) -> None:
    name = "a b'c`touch trap`$(touch trap);touch trap"
    folder = "/data/local/tmp/it's $(touch trap); touch trap"
    with agent_of(device.serial, folder=folder, shell=shell) as agent:
        agent.deploy([], lambda: None, BundleFiles("d", {name: blob_of(tmp_path, b"data")}))
        done = agent.run(["printf", "%s", "$(touch trap)"], "jobs/o'ne", {"A": "`touch trap`"}, 20)
        assert agent.home == folder
        assert (device.root / folder[1:] / "bundles/d" / name).read_bytes() == b"data"
        agent._remove("")
    assert done.stdout == b"$(touch trap)"
    assert not list((device.root / "data/local/tmp").rglob("trap"))


# -- the link dies ---------------------------------------------------------------------------------------


def running(agent: AdbAgent) -> tuple[threading.Thread, list[BaseException]]:
    """A program that sleeps on the device, and what its caller gets."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            agent.run(["/bin/sh", "-c", "sleep 600 & echo $! > pid; wait"], "jobs/one", {}, 60)
        except DeviceUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    return thread, errors


def child_of(device: AdbDevice) -> int:
    mark = device.root / "data/local/tmp/lockstep/jobs/one/pid"
    wait_until(lambda: mark.exists() and mark.read_text().endswith("\n"), "the program never started")
    pid = int(mark.read_text())
    mark.unlink()
    return pid


@pytest.mark.parametrize("fault", ["cut", "restart"])
def test_a_line_that_is_cut_is_told_at_once_and_leaves_no_program_behind(device: AdbDevice, fault: str) -> None:
    with agent_of(device.serial) as agent:
        thread, errors = running(agent)
        child = child_of(device)
        getattr(device, fault)()
        thread.join(20)
        assert not thread.is_alive()
        assert f"phone: the adb link {device.serial} was lost" in str(errors[0])
        wait_until(lambda: ended(device, child), "the program outlived its link")
        device.mend()
        with pytest.raises(DeviceUnavailable, match="was lost"):
            agent.preflight()
    with agent_of(device.serial) as agent:
        agent.preflight()


def test_a_caller_that_hangs_up_leaves_no_program_behind(device: AdbDevice) -> None:
    agent = agent_of(device.serial)
    with agent:
        thread, _ = running(agent)
        child = child_of(device)
        agent.interrupted.set()
    thread.join(20)
    wait_until(lambda: ended(device, child), "the program outlived its caller")


def test_a_device_that_left_for_a_moment_between_two_calls_is_noticed(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        agent.preflight()
        device.cut()
        watch = agent._link._watch
        wait_until(lambda: watch is not None and watch.fault(), "nobody noticed")
        device.mend()
        with pytest.raises(DeviceUnavailable, match=r"was lost: it was (offline|lost) for a moment"):
            agent.preflight()


def test_a_transfer_that_stops_in_the_middle_ends_in_time_and_has_no_final_name(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = blob_of(tmp_path, os.urandom(1 << 20))
    with proxy_to(device) as line, agent_of(line.serial) as agent:
        agent.preflight()
        monkeypatch.setattr(posix, "CONTROL_SECONDS", 1.0)
        monkeypatch.setattr(posix, "SLOWEST_LINK", 10**9)
        monkeypatch.setattr(posix, "SLOWEST_STORAGE", 10**9)
        monkeypatch.setattr(adbpush, "SILENCE_SECONDS", 1.0)
        monkeypatch.setattr(adbshell, "GRACE_SECONDS", 0.5)
        line.left = int(0.6 * blob.size)
        with pytest.raises(DeviceUnavailable, match=r"was lost: no answer in time; now it is device in the list"):
            agent.deploy([blob], lambda: None)
        assert not agent.still_answers()
    assert not (device.root / "data/local/tmp/lockstep/blobs" / blob.sha256).exists()


def test_a_download_that_stops_in_the_middle_ends_in_time(
    device: AdbDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = blob_of(tmp_path, os.urandom(1 << 20))
    with proxy_to(device) as line, agent_of(line.serial) as agent:
        agent.deploy([blob], lambda: None)
        monkeypatch.setattr(adbpush, "SILENCE_SECONDS", 1.0)
        pull = adblink.adbsync.pull

        def stop_then_pull(*arguments: object) -> bytes:
            line.left = 0
            return pull(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(adblink.adbsync, "pull", stop_then_pull)
        with pytest.raises(DeviceUnavailable, match="no answer in time"):
            agent.fetch(f"blobs/{blob.sha256}", blob.size)


def test_a_device_that_is_listed_and_never_answers_is_told_in_time(
    device: AdbDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adbreach, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(adbreach, "CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(adbreach, "SETTLE_SECONDS", 1.0)
    monkeypatch.setattr(adblink, "OPEN_SECONDS", 1.0)
    monkeypatch.setattr(adbshell, "GRACE_SECONDS", 0.5)
    with proxy_to(device) as line:
        with agent_of(line.serial) as agent:
            line.left = 0
            with pytest.raises(
                DeviceUnavailable, match=r"was lost: .*now it is device in the list, which may be stale"
            ):
                agent._script("echo hi", seconds=1.0)
        with pytest.raises(DeviceUnavailable, match=rf"{line.serial} is|answers no command"), agent_of(line.serial):
            pass


def test_a_file_that_is_refused_is_told_with_the_devices_reason(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        (device.root / "data/local/tmp/lockstep/jobs/file").write_text("")
        with pytest.raises(TransferError, match=r"phone: cannot write .*[Nn]ot a directory") as caught:
            agent.send_text("x", "jobs/file/below")
        assert "is there room" in caught.value.hint
        agent.preflight()


# -- the server dies -------------------------------------------------------------------------------------


def test_a_server_killed_in_the_middle_voids_the_attempt_and_names_both_versions(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        ours = agent._link.server.endpoint
        thread, errors = running(agent)
        child_of(device)
        os.kill(ours.pid, signal.SIGKILL)
        thread.join(30)
        assert not thread.is_alive()
        words = str(errors[0])
        assert f"the adb server was replaced in the middle: {ours.version} before" in words
        assert "nothing of this attempt is kept" in words
        with pytest.raises(DeviceUnavailable, match="was replaced in the middle"):  # never half of another server's
            agent.fetch("jobs/one/pid", 100)
    with agent_of(device.serial) as agent:
        assert agent._link.server.endpoint.pid != ours.pid
        agent.preflight()


def test_another_version_on_our_port_is_named(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        server = agent._link.server
        ours = server.endpoint
        os.kill(int((server.folder / "supervisor.lock").read_text()), signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{ours.pid}/exe").exists(), "the server outlived its supervisor")
        with socket.create_server(("127.0.0.1", ours.port)) as other:

            def answer() -> None:
                with suppress(OSError):
                    while True:
                        connection, _ = other.accept()
                        with connection:
                            connection.recv(100)
                            connection.sendall(b"OKAY00040020")

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            with pytest.raises(DeviceUnavailable, match=r"1\.0\.41 \(.*\) before, 1\.0\.32 now"):
                agent.preflight()
            with agent_of(device.serial, name="phone") as next_one:  # the stranger is not taken for ours
                assert next_one._link.server.endpoint.port != ours.port
            other.shutdown(socket.SHUT_RDWR)
            thread.join(20)


# -- what only Android has -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "state", "left"),
    [("false", "on", "false"), ("true", "on", "true"), ("unsupported", "not offered", "unsupported")],
)
def test_the_clocks_are_held_while_programs_run_and_put_back(
    device: AdbDevice, found: str, state: str, left: str
) -> None:
    mode = device.root / "data/emulation/fixed-performance.txt"
    mode.write_text(found + "\n")
    try:
        with agent_of(device.serial) as agent:
            assert mode.read_text().strip() == found, "only when something runs"
            agent.run(["true"], "jobs/one", {}, 20)
            assert agent.facts()["fixed_performance"] == state
        assert mode.read_text().strip() == left
    finally:
        mode.write_text("false\n")


@pytest.mark.parametrize("emulated", [True, False])
def test_the_clocks_of_an_emulated_device_are_left_alone(device: AdbDevice, emulated: bool) -> None:
    link = {"serial": device.serial, "folder": adb.DEFAULT_FOLDER, "emulated": emulated}
    with adb.make(AgentSpec("phone", "x86-64", Path(), link)) as agent:
        agent.run(["true"], "jobs/one", {}, 20)
        assert agent.facts()["fixed_performance"] == ("not asked for" if emulated else "on")


def test_of_a_crash_only_what_is_newer_than_the_program_is_kept(device: AdbDevice) -> None:
    tombstones = device.root / "data/tombstones"
    (tombstones / "tombstone_00").write_text("an older crash")
    (tombstones / "tombstone_00.pb").write_bytes(b"\0\1\2")
    with agent_of(device.serial) as agent:
        agent._remove("jobs/crash")
        agent.run(["/bin/sh", "-c", "log -t engine \x1b[31mred; kill -SEGV $$"], "jobs/crash", {}, 20)
        kept = agent.crash_evidence()
        assert "engine: [31mred" in kept["logcat"]
        assert "emulated device started" not in kept["logcat"]
        assert kept["tombstone"] == "none since the program began"
        wait_until(lambda: time.time() > (device.root / "data/local/tmp/lockstep/jobs/crash").stat().st_mtime, "time")
        (tombstones / "tombstone_01").write_text("signal 11 (SIGSEGV)" + "x" * 100_000)
        kept = agent.crash_evidence()
        assert kept["tombstone"].startswith("signal 11 (SIGSEGV)")
        assert len(kept["tombstone"]) == 8000
        tombstones.chmod(0)
        try:
            assert "cannot be read by this user, as is usual" in agent.crash_evidence()["tombstone"]
        finally:
            tombstones.chmod(0o771)
        agent._link.close()
        assert agent.crash_evidence()["logcat"].startswith("not collected: ")
