"""Devices in a terminal of 80 columns: the fleet with its states, and the history of one device."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.contract.errors import MissingToolError
from engine.toolchain import emulator
from farm.devicestates import MACHINE, PERSON, DeviceRecord, DeviceState
from farm.inventory import Device, Fleet
from farm.store import Store
from farm.store.devices import DeviceEvent, Use, events_of, records, uses

_STYLES = {"ready": "green", "leased": "cyan", "held": "magenta", "cooling": "yellow", "not here": "dim"}
_COLUMNS = ("device", "state", "tier", "chip", "model", "ABI", "link", "kind")


@dataclass(frozen=True)
class Life:
    """What the store knows of devices at one moment."""

    now: float
    records: Mapping[str, DeviceRecord]
    uses: Mapping[str, Use]

    @classmethod
    def read(cls, store: Store) -> Life:
        """As it is now."""
        now = store.clock()
        with store.read() as session:
            return cls(now, records(session, now), uses(session, now))

    def state(self, device: Device) -> str:
        """In one word: what keeps a device from jobs comes before who has it."""
        record = self.records.get(device.name)
        if record is not None and record.state is not DeviceState.READY:
            return str(record.state)
        if device.name in self.uses:
            return "leased"
        return "not here" if _absent(device) else "ready"

    def lines(self, device: Device) -> list[str]:
        """Who set the state, why and since when; who has the device and what runs there; what is missing here."""
        record, use = self.records.get(device.name), self.uses.get(device.name)
        found = []
        if record is not None and record.state is not DeviceState.READY:
            found.append(told(record, self.now))
            while record.state is DeviceState.HELD:
                record = record.below
                if record.state is not DeviceState.READY:
                    found.append(f"before that: {told(record, self.now)}")
        if use is not None:
            what = f"{use.case} ({use.role}) of run {use.run} by {use.owner}" if use.case else "no job"
            found.append(f"leased to {use.holder}: {what}")
        if absent := _absent(device):
            found.append(absent)
        return [f"{device.name}: {line}" for line in found]


def told(record: DeviceRecord, now: float) -> str:
    """A state in words: by whom, since when, until when, why."""
    words = f"{record.state} by {_who(record.actor)} since {moment(record.since)}"
    if record.until is not None:
        words += f" until {moment(record.until)}"
    elif record.state not in (DeviceState.HELD, DeviceState.HOST_KEY_CHANGED):
        words += f", tried again {'now' if record.not_before <= now else 'at ' + moment(record.not_before)}"
    return f"{words}: {record.reason or 'no reason given'}"


def fleet_table(fleet: Fleet, life: Life) -> str:
    """One line a device, and below it what there is to say of some."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in _COLUMNS:
        table.add_column(title, overflow="fold", no_wrap=title in ("link", "kind"))
    for device in fleet.devices:
        state = life.state(device)
        kind = "real" if device.real else "emulated"
        link = device.link.emulator or device.link.kind
        cells = (device.tier, device.chip, device.model, ", ".join(device.abis), link, kind)
        table.add_row(device.name, Text(state, style=_STYLES.get(state, "bold red")), *cells)
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(table)
        for device in fleet.devices:
            for line in life.lines(device):
                console.print(Text(line))
    return capture.get().rstrip("\n")


def history(store: Store, device: Device, limit: int) -> str:
    """The state of one device, who has it, and what happened to it, newest first."""
    life = Life.read(store)
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(Text(f"{device.name}: {life.state(device)}", style="bold"))
        for line in life.lines(device):
            console.print(Text(line))
        console.print(_events(events_of(store, device.name, limit)))
    return capture.get().rstrip("\n")


def _events(events: Sequence[DeviceEvent]) -> Table | str:
    if not events:
        return "nothing is recorded: it never failed, and nobody held it"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("when (UTC)", "what", "state", "by", "why"):
        table.add_column(title, overflow="fold")
    for event in events:
        change = event.after if event.before == event.after else f"{event.before} → {event.after}"
        table.add_row(moment(event.at), event.kind, change, _who(event.actor), Text(event.reason))
    return table


def moment(seconds: float) -> str:
    """UTC to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def _who(actor: str) -> str:
    return "the farm" if actor == MACHINE else actor.removeprefix(PERSON)


def _absent(device: Device) -> str:
    """What this machine lacks to run the device; empty when nothing."""
    if device.link.emulator is None or device.at:
        return ""
    try:
        emulator(device.link.emulator)
    except MissingToolError as error:
        return f"{error.message}; {error.hint}"
    return ""
