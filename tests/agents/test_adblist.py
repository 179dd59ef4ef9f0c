from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.adblist import (
    LOST,
    STATES,
    Listed,
    emulator_port,
    folder_name,
    is_address,
    next_step,
    parse_devices,
)

CASE = "\r\n".join(
    [
        "List of devices attached",
        "adb server version (40) doesn't match this client (41); killing...",
        "* daemon started successfully",
        "R58M\tdevice",
        "192.168.1.5:5555\toffline",
        "emulator-5554\tunauthorized",
        "0099\tno permissions (missing udev rules? user is in the plugdev group; see [http://developer.android.com])",
        "",
    ]
)


@pytest.mark.parametrize("ends", ["\r\n", "\n", "\r\r\n"])
@pytest.mark.parametrize("gap", ["\t", "               ", " "])
def test_states_and_reasons_are_read_and_notices_are_not(ends: str, gap: str) -> None:
    found = parse_devices(CASE.replace("\r\n", ends).replace("\t", gap))
    assert [(listed.serial, listed.state) for listed in found] == [
        ("R58M", "device"),
        ("192.168.1.5:5555", "offline"),
        ("emulator-5554", "unauthorized"),
        ("0099", "no permissions"),
    ]
    assert found[3].reason == "missing udev rules? user is in the plugdev group; see [http://developer.android.com]"
    assert [listed.serial for listed in found if listed.usable] == ["R58M"]


def test_the_long_form_gives_the_same_devices() -> None:
    text = (
        "List of devices attached\n"
        "R58M                   device usb:1-4.2 product:x model:SM_G991B device:o1s transport_id:4\n"
        "0099                   no permissions (user in plugdev group; are your udev rules wrong?); "
        "see [http://developer.android.com/tools/device.html] usb:1-3 transport_id:5\n"
        "10.0.0.7:5555          offline product:x transport_id:9\n\n"
    )
    found = parse_devices(text)
    assert [(listed.serial, listed.state) for listed in found] == [
        ("R58M", "device"),
        ("0099", "no permissions"),
        ("10.0.0.7:5555", "offline"),
    ]
    assert found[1].reason.endswith("see [http://developer.android.com/tools/device.html]")
    assert "transport_id" not in found[1].reason


@pytest.mark.parametrize(
    "notice",
    [
        "* daemon not running; starting now at tcp:5037",
        "* daemon still not running",
        "adb server is out of date.  killing...",
        "adb: device offline",
        "error: device unauthorized.",
        "error: device not found",
        "This adb server's $ADB_VENDOR_KEYS is not set",
        "waiting for device to appear",
        "adb I 11-29 18:00:00 1 1 usb_libusb.cpp:1] device connected",
        "** daemon device **",
    ],
)
def test_sentences_are_no_devices(notice: str) -> None:
    assert parse_devices(notice) == ()


serials = st.text(string.ascii_letters + string.digits + "._:-", min_size=1, max_size=30).filter(
    lambda text: not text.endswith(":") and not text.lower().startswith(("adb", "error"))
)


@given(st.lists(st.tuples(serials, st.sampled_from(STATES)), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_every_listed_state_is_read_back(devices: list[tuple[str, str]], ends: str) -> None:
    text = "".join(f"{serial}\t{state}{ends}" for serial, state in devices)
    assert [(listed.serial, listed.state) for listed in parse_devices(text)] == devices


@given(st.text(max_size=400))
def test_no_text_breaks_the_reader(text: str) -> None:
    for listed in parse_devices(text):
        assert listed.state in STATES
        assert len(listed.reason) <= 300


@pytest.mark.parametrize(
    ("serial", "address", "port"),
    [
        ("192.168.1.5:5555", True, None),
        ("phone.lab:5555", True, None),
        ("[fe80::1%eth0]:5555", True, None),
        ("R58M", False, None),
        ("emulator-5554", False, 5555),
        ("1.2.3.4:0", False, None),
        ("1.2.3.4:70000", False, None),
        ("a:b", False, None),
    ],
)
def test_kinds_of_serials(serial: str, address: bool, port: int | None) -> None:
    assert (is_address(serial), emulator_port(serial)) == (address, port)


def test_each_state_has_a_next_step_of_its_own() -> None:
    states = ["offline", "unauthorized", "no permissions", LOST]
    steps = [next_step(Listed("R58M", state)) for state in states]
    assert len(set(steps)) == len(states)
    assert "replug" in steps[0]
    assert "accept this host's key" in steps[1]
    assert "udev" in steps[2]
    assert "adb kill-server" in steps[3]
    assert "adb tcpip" in next_step(Listed("1.2.3.4:5555", LOST))
    assert "console port" in next_step(Listed("emulator-5554", LOST))


def test_a_serial_becomes_a_file_name_without_a_colon_and_without_a_clash() -> None:
    names = [folder_name(serial) for serial in ("192.168.1.5:5555", "192.168.1.5_5555", "R58M")]
    assert not [name for name in names if ":" in name]
    assert len(set(names)) == 3


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_file_names_of_serials_never_clash_or_leave_their_folder(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)
    assert not set(folder_name(one)) & set(":/\\\0")
    assert folder_name(one) not in ("", ".", "..")
