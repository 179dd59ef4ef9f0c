"""``lockstep devices``: the fleet and what of it can run here."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from engine.contract.errors import MissingToolError
from engine.toolchain import emulator
from farm.inventory import Device, load_fleet


@click.command("devices")
@click.option(
    "--devices", "devices_file", type=click.Path(path_type=Path), default=Path("devices.yaml"), show_default=True
)
def command(devices_file: Path) -> int:
    """List state, chip, model, ABI, link, and whether a device is real or emulated."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("device", "state", "tier", "chip", "model", "ABI", "link", "kind"):
        table.add_column(title, overflow="fold", no_wrap=title in ("link", "kind", "state"))
    hints = []
    for device in load_fleet(devices_file).devices:
        state, hint = _state(device)
        kind = "real" if device.real else "emulated"
        link = device.link.emulator or device.link.kind
        table.add_row(device.name, state, device.tier, device.chip, device.model, ", ".join(device.abis), link, kind)
        if hint:
            hints.append(f"{device.name}: {hint}")
    Console().print(table)
    for line in hints:
        click.echo(line)
    return 0


def _state(device: Device) -> tuple[str, str]:
    if device.link.kind == "ssh":
        return "not probed", ""
    if device.link.emulator is None:
        return "ready", ""
    try:
        emulator(device.link.emulator)
    except MissingToolError as error:
        return "not here", f"{error.message}; {error.hint}"
    return "ready", ""
