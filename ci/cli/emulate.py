"""``lockstep emulate``: devices for everyone, over the real protocols."""

from __future__ import annotations

import functools
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from agents.emulation.park import Park
from agents.emulation.spec import CPUS
from agents.emulation.units import Unit, home
from ci.emulate import write_fleet

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the devices' files lie (the state folder).",
)
_count = functools.partial(click.option, type=click.IntRange(0, 32), default=1, show_default=True, metavar="N")


@click.group("emulate")
def command() -> None:
    """Start emulated devices that speak adb and ssh, list them, end them.

    A real adbd and a real sshd run in namespaces of their own, each reachable on
    a loopback port; nothing on this machine is changed. docs/emulate.md says what
    is real in them and what is not.

    \b
    Examples:
      lockstep emulate up                          one of each kind
      lockstep emulate up --adb-arm64 2 --ssh-x86-64 0
      lockstep gate --devices devices-emulated.yaml
      lockstep emulate down                        end them all
    """


@command.command("up")
@_count("--adb-x86-64", help="Android-like devices of this machine's CPU.")
@_count("--adb-arm64", help="Android-like devices of an emulated Arm CPU.")
@_count("--ssh-x86-64", help="Linux devices of this machine's CPU.")
@_count("--ssh-arm64", help="Linux devices of an emulated Arm CPU.")
@click.option("--cpu", default=CPUS["arm64"], show_default=True, help="The Arm CPU, as qemu names it.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("devices-emulated.yaml"),
    show_default=True,
    help="The devices file to write.",
)
@_folder
def up(
    adb_x86_64: int, adb_arm64: int, ssh_x86_64: int, ssh_arm64: int, cpu: str, write: Path, folder: Path | None
) -> int:
    """Start devices and write a devices file for a gate.

    Devices that run already are kept, so it can be called again at any time.
    Leaves with 3 when a device cannot start here, and says what is missing;
    with 2 when what was asked for does not exist.
    """
    park = Park((folder or home()).absolute())
    failed = park.up(
        {
            ("adb", "x86-64"): adb_x86_64,
            ("adb", "arm64"): adb_arm64,
            ("ssh", "x86-64"): ssh_x86_64,
            ("ssh", "arm64"): ssh_arm64,
        },
        cpu=cpu,
        progress=lambda line: click.echo(click.style(f"  {line}", dim=True), err=True),
    )
    for error in failed:
        click.echo(click.style("not started: ", fg="red", bold=True) + str(error), err=True)
    running = [unit for unit in park.units() if unit.alive]
    if running:
        write_fleet(write, running)
        _show(running)
        click.echo(f"next: lockstep gate --devices {click.format_filename(write)}")
    return min((error.exit_code for error in failed), default=0)


@command.command("list")
@_folder
def list_units(folder: Path | None) -> int:
    """Show every device that was started and not ended."""
    units = Park((folder or home()).absolute()).units()
    if not units:
        click.echo("no emulated devices; start some: lockstep emulate up")
        return 0
    _show(units)
    return 0


@command.command("down")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_folder
def down(names: tuple[str, ...], folder: Path | None) -> int:
    """End the named devices, or all of them, and remove their files."""
    ended = Park((folder or home()).absolute()).down(names)
    for name in ended:
        click.echo(f"{name}: ended")
    if not ended:
        click.echo("no emulated devices were running")
    return 0


def _show(units: list[Unit]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("device", "kind", "chip", "address", "state", "pid"):
        table.add_column(title, no_wrap=True)
    for unit in units:
        spec = unit.spec
        table.add_row(unit.name, spec.kind, spec.chip, unit.serial, _state(unit), str(unit.pid))
    Console().print(table)


def _state(unit: Unit) -> str:
    if not unit.alive:
        return "dead"
    line = unit.status().line
    return "running" if line == "open" else f"running, line {line}"
