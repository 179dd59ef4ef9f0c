"""Reaching a unit over adb: which of its serials works, what is wrong with the others, and that it is that unit."""

from __future__ import annotations

import fcntl
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from adbutils import AdbError

from agents import adbshell
from agents.adbanswer import TAIL_BYTES, UnknownEnd
from agents.adblist import LOST, Listed, emulator_port, folder_name, is_address, next_step
from agents.adbserver import AdbServer, ask
from engine.contract.errors import DeviceUnavailable

CONNECT_SECONDS = 15.0
#: How long a device may be absent from the list before it is told as lost; a server that just started finds USB late.
#: So long an address may take to accept, too: adb's own 10 s would cost each of its jobs that.
SETTLE_SECONDS = 3.0
#: A device that is listed and does not answer a command within this is not usable.
ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.05
_ON_ITS_WAY = ("authorizing", "connecting", "detached", "unknown")

# $1 nonce. Prints it, a folder for small files, and what the unit calls itself (boards without getprop: machine id).
_WHO = """
for scratch in /data/local/tmp /tmp /; do [ -d "$scratch" ] && [ -w "$scratch" ] && break; done
unit=$(getprop ro.serialno 2>/dev/null)
[ -n "$unit" ] || unit=$(getprop ro.boot.serialno 2>/dev/null)
[ -n "$unit" ] || unit=$(cat /etc/machine-id 2>/dev/null)
printf '%s|%s|%s|%s\\n' "$1" "$scratch" "$unit" "$1"
"""


class Route(NamedTuple):
    """How a unit is reached: serial, its own hardware serial, how it runs commands, a folder for small files."""

    serial: str
    hardware: str
    shell: str
    scratch: str


def reach(server: AdbServer, device: str, serials: Sequence[str], shell: str = "") -> Route:
    """The first of ``serials`` that works. DeviceUnavailable with the state of each and the next step."""
    listed = _settle(server, serials)
    usable = [serial for serial in serials if listed[serial].usable]
    if not usable:
        raise _unusable(device, [listed[serial] for serial in serials])
    routes: list[Route] = []
    silent = []
    for serial in usable:
        route = _greet(server, serial, shell)
        routes += [route] if route is not None else []
        silent += [serial] if route is None else []
    if not routes:
        raise DeviceUnavailable(
            f"{device}: {' and '.join(silent)} is listed as device and answers no command "
            f"within {ANSWER_SECONDS:.0f} s",
            hint="the list may be stale: replug it or restart it; a device that booted just now needs a while",
            device=device,
        )
    _same_unit(device, routes, serials)
    return routes[0]


def _settle(server: AdbServer, serials: Sequence[str]) -> Mapping[str, Listed]:
    """The state of each serial once one is usable, or none will be soon. Addresses are connected to."""
    begun = time.monotonic()
    tried: dict[str, str] = {}
    while True:
        known = {entry.serial: entry for entry in server.devices()}
        states = {serial: known.get(serial) or Listed(serial, LOST, tried.get(serial, "")) for serial in serials}
        spent = time.monotonic() - begun
        waiting = any(entry.state in _ON_ITS_WAY for entry in states.values())
        limit = CONNECT_SECONDS if waiting else SETTLE_SECONDS
        if any(entry.usable for entry in states.values()) or spent > limit:
            return states
        for serial, entry in states.items():
            if serial not in tried and entry.state in (LOST, "offline"):
                tried[serial] = _call(server, entry)
        time.sleep(_POLL_SECONDS)


def _call(server: AdbServer, entry: Listed) -> str:
    """Tell the server to connect to what it cannot find by itself; its words when that fails."""
    port = emulator_port(entry.serial)
    try:
        if port is not None and entry.state == LOST:
            with server.client().make_connection() as connection, suppress(AdbError):
                ask(connection, f"host:emulator:{port}")
        if not is_address(entry.serial):
            return ""
        if entry.state == "offline":  # a dead line that the server has not given up yet
            with suppress(AdbError):
                server.query(f"host:disconnect:{entry.serial}")
        words = server.query(f"host:connect:{entry.serial}", SETTLE_SECONDS)
    except TimeoutError:  # the server goes on trying: what comes later is found connected
        return f"no answer within {SETTLE_SECONDS:.0f} s"
    except (OSError, AdbError, EOFError) as error:
        return str(error)[:200] or "no answer"
    return "" if words.startswith(("connected", "already")) else words[:200]


def _unusable(device: str, listed: Sequence[Listed]) -> DeviceUnavailable:
    states = [f"{entry.serial} is {entry.state}{f' ({entry.reason})' if entry.reason else ''}" for entry in listed]
    return DeviceUnavailable(f"{device}: {'; '.join(states)}", hint=next_step(listed[0]), device=device)


# -- is it there, and who is it ----------------------------------------------------------------------


def _greet(server: AdbServer, serial: str, forced: str) -> Route | None:
    """How to talk to it and what it calls itself; None when it does not answer."""
    for again in (False, True):
        shells = [forced] if forced else _shells(server, serial)
        for shell in shells:
            route = _ask_who(server, serial, shell)
            if route is not None:
                return route
        if again or not is_address(serial):
            return None
        # The server lists a line that died without a word: make it anew once.
        _call(server, Listed(serial, "offline"))
    return None


def _shells(server: AdbServer, serial: str) -> list[str]:
    try:
        features = server.query(f"host-serial:{serial}:features").split(",")
    except (OSError, AdbError, EOFError):
        features = []
    return ["v2"] if "shell_v2" in features else ["exec", "pty"]


def _ask_who(server: AdbServer, serial: str, shell: str) -> Route | None:
    nonce = secrets.token_hex(8)
    try:
        done = adbshell.run(
            shell,
            lambda service: server.stream(serial, service, ANSWER_SECONDS),
            _WHO,
            (nonce,),
            seconds=ANSWER_SECONDS,
            keep=TAIL_BYTES,
        )
    except (OSError, AdbError, EOFError, ValueError, UnknownEnd):
        return None
    said = done.stdout.decode(errors="replace").strip().split("|")
    if len(said) != 4 or said[0] != nonce or said[3] != nonce:
        return None
    return Route(serial, said[2].strip()[:128] or serial, shell, said[1])


def _same_unit(device: str, routes: Sequence[Route], serials: Sequence[str]) -> None:
    """All links of one device must lead to one unit; a USB serial is what the unit calls itself."""
    first = routes[0]
    named = [serial for serial in serials if not is_address(serial) and emulator_port(serial) is None]
    for route in routes:
        if route.hardware != first.hardware:
            raise _two_units(device, f"{first.serial} is unit {first.hardware}, {route.serial} is {route.hardware}")
    if named and is_address(first.serial) and first.hardware not in named:
        raise _two_units(device, f"{first.serial} is unit {first.hardware}, not {' or '.join(named)}")


def _two_units(device: str, words: str) -> DeviceUnavailable:
    return DeviceUnavailable(
        f"{device}: its serials lead to different units: {words}",
        hint="give each unit an entry of its own in the devices file; an address may have passed to another phone",
        device=device,
    )


class Unit:
    """The claim of one inventory entry on one unit of hardware, for as long as it is connected."""

    def __init__(self, lock: IO[str]) -> None:
        self._lock = lock

    @classmethod
    def claim(cls, folder: Path, hardware: str, device: str) -> Unit:
        """Claim it. DeviceUnavailable when an entry of another name has this unit now: one unit, one device."""
        units = folder / "units"
        units.mkdir(exist_ok=True, mode=0o700)
        lock = (units / folder_name(hardware)).open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(device)
            lock.flush()
        except BlockingIOError:
            pass
        fcntl.flock(lock, fcntl.LOCK_SH)
        lock.seek(0)
        holder = lock.read()
        if holder != device:
            lock.close()
            raise DeviceUnavailable(
                f"{device}: unit {hardware} is in use as {holder}: two entries of the devices file are one unit",
                hint=f"keep one of {holder} and {device}, with all serials of the unit in its `serials`",
                device=device,
            )
        return cls(lock)

    def close(self) -> None:
        """Let it go."""
        self._lock.close()
