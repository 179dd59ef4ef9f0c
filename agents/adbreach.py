"""Reaching a unit over adb: which of its serials works, what is wrong with the others, and that it is that unit."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from adbutils import AdbError, AdbTimeout

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

# $1 nonce. Prints it, a folder for small files, what the unit calls itself (its serial number; a Linux board: its
# machine id) and the boot it runs, with its pid namespace: containers of one kernel share the boot.
_WHO = """
for scratch in /data/local/tmp /tmp /; do [ -d "$scratch" ] && [ -w "$scratch" ] && break; done
number=$(getprop ro.serialno 2>/dev/null)
[ -n "$number" ] || number=$(getprop ro.boot.serialno 2>/dev/null)
machine=$(cat /etc/machine-id 2>/dev/null)
boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
[ -z "$boot" ] || boot="$boot $(readlink /proc/self/ns/pid 2>/dev/null)"
printf '%s|%s|%s|%s|%s|%s\\n' "$1" "$scratch" "$number" "$machine" "$boot" "$1"
"""


class Route(NamedTuple):
    """How a unit is reached: its serial in the list, how it runs commands, a folder for small files; and who it is.

    ``number`` is its own serial number, ``machine`` its machine id; cheap boards share the one, boards set up from one
    image the other. ``boot`` parts those, and is another one after each restart. Each is empty where it has none.
    """

    serial: str
    shell: str
    scratch: str
    number: str = ""
    machine: str = ""
    boot: str = ""

    @property
    def hardware(self) -> str:
        """What the unit calls itself; by what it is reached where it has no name."""
        return self.number or self.machine or self.serial

    @property
    def unit(self) -> str:
        """The same by whatever link, and for no other unit that runs now."""
        return f"{self.number or self.machine}|{self.boot}" if self.boot else self.hardware


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
    except (TimeoutError, AdbTimeout):  # the server goes on trying: what comes later is found connected
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
    if len(said) != 6 or said[0] != nonce or said[5] != nonce:
        return None
    number, machine, boot = (word.strip()[:128] for word in said[2:5])
    return Route(serial, shell, said[1], number, machine, boot)


def _same_unit(device: str, routes: Sequence[Route], serials: Sequence[str]) -> None:
    """All links of one device must lead to one unit; a USB serial is the serial number of its unit, if that has one."""
    first = routes[0]
    named = [serial for serial in serials if not is_address(serial) and emulator_port(serial) is None]
    for route in routes:
        if route.hardware == first.hardware and route.unit != first.unit:
            words = f"{first.serial} and {route.serial} both call themselves {first.hardware}, and are not one boot"
            raise _two_units(device, words)
        if route.unit != first.unit:
            raise _two_units(device, f"{first.serial} is unit {first.hardware}, {route.serial} is {route.hardware}")
    if named and is_address(first.serial) and first.number and first.number not in named:
        raise _two_units(device, f"{first.serial} is unit {first.hardware}, not {' or '.join(named)}")


def _two_units(device: str, words: str) -> DeviceUnavailable:
    return DeviceUnavailable(
        f"{device}: its serials lead to different units: {words}",
        hint="give each unit an entry of its own in the devices file; an address may have passed to another phone",
        device=device,
    )


class Unit:
    """The claim of one inventory entry on one unit of hardware, for as long as it is connected."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self._path = path
        self._lock = lock

    @classmethod
    def claim(cls, folder: Path, route: Route, device: str) -> Unit:
        """Claim it. DeviceUnavailable when an entry of another name has this unit now: one unit, one device."""
        units = folder / "units"
        units.mkdir(exist_ok=True, mode=0o700)
        path = units / f"{folder_name(route.unit[:16])}.{hashlib.sha256(route.unit.encode()).hexdigest()[:32]}"
        lock = _claimed(path, device)
        lock.seek(0)
        holder = lock.read()
        if holder != device:
            lock.close()
            raise DeviceUnavailable(
                f"{device}: unit {route.hardware} is in use as {holder}: two entries of the devices file are one unit",
                hint=f"keep one of {holder} and {device}, with all serials of the unit in its `serials`",
                device=device,
            )
        return cls(path, lock)

    def close(self) -> None:
        """Let it go; the last one leaves no file behind, as there is one for each boot of each unit."""
        with suppress(OSError):  # somebody else has it, too
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(self._path, self._lock):
                self._path.unlink()
        self._lock.close()


def _claimed(path: Path, device: str) -> IO[str]:
    """The file of a unit, held together with whoever has it already; who comes first writes its name there."""
    while True:
        lock = path.open("a+")
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(device)
            lock.flush()
        fcntl.flock(lock, fcntl.LOCK_SH)
        if _is_at(path, lock):
            return lock
        lock.close()  # its last holder has just removed it


def _is_at(path: Path, file: IO[str]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
