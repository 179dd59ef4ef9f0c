"""What an adb server lists: serials and states, read from text that may hold anything else as well.

Forms seen: ``SERIAL<tab>STATE`` of the server's own protocol, columns of blanks and further facts of ``adb devices
-l``, carriage returns of old servers, and notices of the client in between (a daemon started, versions that differ).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

#: States in which a server can list a device; the words are adb's own.
STATES = (
    "device",
    "offline",
    "unauthorized",
    "no permissions",
    "authorizing",
    "connecting",
    "bootloader",
    "recovery",
    "rescue",
    "sideload",
    "detached",
    "host",
    "unknown",
)
#: Our word for a serial that is not listed at all.
LOST = "lost"

_LINE = re.compile(rf"(\S*[^\s:])\s+({'|'.join(STATES)})(?=\s|;|$)\s*(.*)")
_NOTICE = re.compile(r"\*|adb\b|error\b|list of devices", re.IGNORECASE)
#: Facts that ``-l`` appends, and the address of a USB socket.
_FACT = re.compile(r"(?:^|\s+)(?:usb|product|model|device|transport_id|features):\S+")
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\]):(?P<port>\d{1,5})")
_EMULATOR = re.compile(r"emulator-(\d{4,5})")
_LONGEST_REASON = 300


@dataclass(frozen=True)
class Listed:
    """One line of the list. ``reason`` is what the server says of a state, mostly nothing."""

    serial: str
    state: str
    reason: str = ""

    @property
    def usable(self) -> bool:
        """Only a device in state ``device`` takes commands."""
        return self.state == "device"


def parse_devices(text: str) -> tuple[Listed, ...]:
    """The devices in ``text``, in its order; lines that are not a device's are passed over."""
    found = (_parse_line(line.strip()) for line in text.splitlines())
    return tuple(listed for listed in found if listed is not None)


def _parse_line(line: str) -> Listed | None:
    if _NOTICE.match(line):
        return None
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    serial, state, rest = match.groups()
    reason = _FACT.sub("", rest).strip()
    if state == "device" and reason:
        return None  # "error: device not found": a sentence and no state
    return Listed(serial, state, _plain(reason))


def _plain(reason: str) -> str:
    """``(why; see [url])`` without the brackets around it, and never longer than a message may be."""
    if reason.startswith("(") and reason.endswith(")"):
        reason = reason[1:-1]
    return reason[:_LONGEST_REASON]


def is_address(serial: str) -> bool:
    """True for ``HOST:PORT``: a device that the server must be told to connect to."""
    match = _ADDRESS.fullmatch(serial)
    return match is not None and 0 < int(match["port"]) < 65536


def emulator_port(serial: str) -> int | None:
    """The port where the adbd of ``emulator-5554`` listens (its console's plus one), None for another serial."""
    match = _EMULATOR.fullmatch(serial)
    return int(match[1]) + 1 if match else None


def folder_name(serial: str) -> str:
    """A file name for a serial: no colon, no slash, and two serials never share one."""
    name = quote(serial, safe="")
    return name if name.strip(".") else name.replace(".", "%2E")


def next_step(listed: Listed) -> str:
    """What the operator does about a device that takes no commands."""
    match listed.state:
        case "offline":
            return (
                "the device does not answer its link: replug the cable or restart its wireless debugging, "
                "and see that it is awake"
            )
        case "unauthorized" | "authorizing":
            return (
                "unlock the device and accept this host's key in the dialogue on its screen (tick `always allow`); "
                "no dialogue: revoke USB debugging authorisations in its developer options, then replug"
            )
        case "no permissions":
            return (
                "this user may not open the USB device: install udev rules for its vendor (package "
                "android-sdk-platform-tools-common), join group plugdev, log in again and replug"
            )
        case "bootloader" | "recovery" | "rescue" | "sideload":
            return f"the device runs its {listed.state}: boot it into the system (`adb reboot`, `fastboot reboot`)"
        case "lost":
            return _where_to_look(listed.serial)
    return "wait until it has started; if it stays so, replug it"


def _where_to_look(serial: str) -> str:
    if is_address(serial):
        return "is it switched on, on the network, and does its adbd listen on that port (`adb tcpip 5555`)?"
    if emulator_port(serial):
        return "start the emulator with that console port"
    return (
        "plug it in and switch USB debugging on; a device that another adb server on this host has open stays hidden "
        "from ours: `adb kill-server` ends that one"
    )
