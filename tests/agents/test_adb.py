"""The adb agent against a real adbd: what the contract suite of all agents does not ask."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from agents import adbreach, adbshell
from agents.adblist import LOST, Listed, parse_devices
from agents.adbserver import AdbServer
from agents.deployment import BundleFiles
from engine.contract.errors import DeviceUnavailable
from tests.agents.adbd import AdbDevice, running_adbd
from tests.agents.adblines import agent_of, ended, proxy_to
from tests.agents.adbunit import Units
from tests.agents.bundles import blob_of
from tests.waiting import wait_until

pytestmark = pytest.mark.adb


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
        for seconds in (2, 10, 40):  # a busy device may not come to start the program before
            done = agent.run(["/bin/sh", "-c", "sleep 600 & echo $! > pid; wait"], "jobs/one", {}, seconds)
            assert done.timed_out
            assert done.exit_code != 0
            if mark.exists():
                break
        pid = int(mark.read_text())
        wait_until(lambda: ended(device, pid), "the program outlived its deadline")
        agent.preflight()


def test_long_arguments_arrive_over_every_shell_and_nobody_is_asked_for_more_than_it_takes(
    device: AdbDevice, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    asked: list[int] = []
    stream = AdbServer.stream

    def noted(server: AdbServer, serial: str, service: str, seconds: float) -> AbstractContextManager[socket.socket]:
        asked.append(len(service.encode()))
        return stream(server, serial, service, seconds)

    monkeypatch.setattr(AdbServer, "stream", noted)
    with agent_of(device.serial, shell=shell) as agent:
        for count in (1, 30, 700):
            arguments = [f"'{number}'$x " * 12 + "\n" for number in range(count)]
            done = agent._script('printf %s "$@"; printf err >&2; exit 7', *arguments, seconds=20)
            assert (done.exit_code, done.stdout, done.stderr) == (7, "".join(arguments).encode(), b"err")
    assert max(asked) <= (65535 if shell == "v2" else 4095)


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


def test_an_address_that_never_answers_is_lost_in_our_own_words(
    units: Units, device: AdbDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adbreach, "SETTLE_SECONDS", 1.0)
    with ExitStack() as full:  # whoever calls while nobody is taken from the queue gets no answer
        busy = full.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            caller = full.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(busy.getsockname())
        serial = f"127.0.0.1:{busy.getsockname()[1]}"
        with (
            pytest.raises(DeviceUnavailable, match=rf"{serial} is {LOST} \(no answer within 1 s\)"),
            agent_of(serial),
        ):
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
            return route._replace(number="0099") if route and serial == other.serial else route

        monkeypatch.setattr(adbreach, "_ask_who", renamed)
        with agent_of(other.serial):  # our server knows both addresses from now on
            pass
        with (
            pytest.raises(DeviceUnavailable, match="its serials lead to different units"),
            agent_of(device.serial, other.serial),
        ):
            pass


def test_two_units_of_one_serial_number_are_two_devices(device: AdbDevice, tmp_path: Path) -> None:
    with running_adbd(tmp_path / "clone", name="unit-x86-64") as clone:
        with agent_of(device.serial, name="left") as left, agent_of(clone.serial, name="right") as right:
            assert left._link.route.hardware == right._link.route.hardware == "unit-x86-64"
            right.preflight()
        with (
            pytest.raises(DeviceUnavailable, match="both call themselves unit-x86-64, and are not one boot"),
            agent_of(device.serial, clone.serial),
        ):
            pass


@pytest.fixture
def nameless(device: AdbDevice) -> Iterator[AdbDevice]:
    """A board without a serial number."""
    told = device.root / "data/emulation/getprop.txt"
    text = told.read_text()
    told.write_text(text.replace("ro.serialno", "ro.nothing"))
    yield device
    told.write_text(text)


def test_a_board_without_a_name_is_one_unit_by_both_its_links(nameless: AdbDevice) -> None:
    with proxy_to(nameless) as other:
        with agent_of(other.serial):  # our server knows both addresses from now on
            pass
        with agent_of(nameless.serial, other.serial, name="left") as left:
            left.preflight()
            with pytest.raises(DeviceUnavailable, match="is in use as left"), agent_of(other.serial, name="right"):
                pass


def test_a_board_whose_usb_serial_is_no_name_of_its_own_is_reached_by_its_address(nameless: AdbDevice) -> None:
    with agent_of("gadget0", nameless.serial) as agent:
        assert agent._link.route.serial == nameless.serial


def test_a_claim_leaves_no_file_behind_once_nobody_has_the_unit(device: AdbDevice) -> None:
    with agent_of(device.serial) as agent:
        units = agent._link.server.folder / "units"
        with agent_of(device.serial):
            pass
        assert len(list(units.iterdir())) == 1
    assert list(units.iterdir()) == []
