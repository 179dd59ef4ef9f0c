"""``lockstep devices``: the fleet, what state each device is in, and taking one out of use."""

from __future__ import annotations

import re
from pathlib import Path

import click

from ci.devicelist import Life, fleet_table, history, moment
from engine.contract.errors import UsageError
from farm.health import plain
from farm.inventory import Fleet, load_fleet
from farm.store import Store
from farm.store.devices import hold as hold_device
from farm.store.devices import release as release_device
from farm.store.jobs import whoami

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST_DAYS = 366


class Duration(click.ParamType[float]):
    """A time like ``90s``, ``30m``, ``2h`` or ``1d``, in seconds."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a usage error for anything else."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]{1,6})([smhd])", str(value))
        seconds = int(found[1]) * _UNITS[found[2]] if found else 0.0
        if not 0 < seconds <= _LONGEST_DAYS * _UNITS["d"]:
            self.fail(f"{value!r} is not a time: write 90s, 30m, 2h or 1d (at most {_LONGEST_DAYS}d)", param, ctx)
        return seconds


@click.group("devices", invoke_without_command=True)
@click.option(
    "--devices", "devices_file", type=click.Path(path_type=Path), default=Path("devices.yaml"), show_default=True
)
@click.option("--probe", is_flag=True, help="Connect to each device and prove that programs run there.")
@click.option("--at", "host", metavar="NAME", help="With --probe: this machine is host NAME; probe its devices.")
@click.pass_context
def command(context: click.Context, devices_file: Path, probe: bool, host: str | None) -> int:
    """List devices: state, who set it and why, who has each and what runs there.

    A device that failed is left alone for a while; one that failed too often
    is quarantined; both come back when a probe passes. --probe tries at once.
    Leaves with 3 when a probed device fails. A device with `at: NAME` is
    probed on that host, beside `lockstep worker --name NAME`.

    \b
    Examples:
      lockstep devices                      the fleet
      lockstep devices --probe              prove each of them now
      lockstep devices --probe --at lab1    those of lab1, on lab1
      lockstep devices show pi-4-left       what happened to one
      lockstep devices hold pi-4-left --for 2h --reason "new heat sink"
      lockstep devices release pi-4-left    it is fine again
    """
    fleet = load_fleet(devices_file)
    context.obj = fleet
    if host is not None and not probe:
        raise UsageError("--at goes with --probe", hint=f"on that host: lockstep devices --probe --at {host}")
    if context.invoked_subcommand is not None:
        if probe:
            raise UsageError("--probe goes with the list", hint="lockstep devices --probe")
        return 0
    with Store() as store:
        code = _probe(store, fleet, host) if probe else 0
        click.echo(fleet_table(fleet, Life.read(store)))
    return code


def _probe(store: Store, fleet: Fleet, host: str | None) -> int:
    from farm.probing import probe_all  # noqa: PLC0415 - the links' imports are heavy; the list stays quick

    devices = [device for device in fleet.devices if host in {None, device.at}]
    if not devices:
        known = ", ".join(sorted({device.at for device in fleet.devices if device.at})) or "none"
        raise UsageError(f"no device has `at: {host}`", hint=f"hosts in this file: {known}")
    code = 0
    for found in probe_all(store, devices, fleet.health, whoami(), at=host):
        if found.passed:
            continue
        word = "not probed" if found.passed is None else "FAILED"
        click.echo(f"{found.device}: {word}: {found.words}" + (f"\n  next: {found.hint}" if found.hint else ""))
        code = 3 if found.passed is False else code
    return code


@command.command("hold")
@click.argument("name")
@click.option("--for", "seconds", type=Duration(), help="90s, 30m, 2h, 1d; without it until it is released.")
@click.option("--reason", required=True, help="Why, for those who miss the device.")
@click.option("--by", help="Who holds it (default: this user on this host).")
@click.pass_obj
def hold(fleet: Fleet, name: str, seconds: float | None, reason: str, by: str | None) -> int:
    """Take NAME out of use. A job that has it may end; no other gets it.

    Runs move its jobs to another unit of the same chip and model, or end them
    as infra with your reason. The machine never ends a hold.

    \b
    Examples:
      lockstep devices hold pi-4-left --for 2h --reason "new heat sink"
      lockstep devices hold pi-4-left --reason "on loan to the camera team"
    """
    fleet.device(name)
    if not plain(reason).strip():
        raise UsageError("an empty reason helps nobody", hint="say why: --reason TEXT")
    with Store() as store:
        held = hold_device(store, name, by or whoami(), reason, None if seconds is None else store.clock() + seconds)
        end = "until it is released" if held.until is None else f"until {moment(held.until)} UTC"
        click.echo(f"{name} is held {end}: {held.reason}")
        use = Life.read(store).uses.get(name)
        if use is not None:
            click.echo(f"it is still leased to {use.holder}; when that ends it is yours")
    return 0


@command.command("release")
@click.argument("name")
@click.option("--by", help="Who releases it (default: this user on this host).")
@click.pass_obj
def release(fleet: Fleet, name: str, by: str | None) -> int:
    """Say that NAME is fine: it is ready, and its next job proves it first.

    Ends a hold, a quarantine or an absence, and accepts a changed host key
    that you have compared and put into known_hosts.

    \b
    Example:
      lockstep devices release pi-4-left
    """
    fleet.device(name)
    with Store() as store:
        found = release_device(store, name, by or whoami())
    click.echo(f"{name} is ready ({found.reason})")
    return 0


@command.command("show")
@click.argument("name")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="So many, newest first.")
@click.pass_obj
def show(fleet: Fleet, name: str, limit: int) -> int:
    """Show the state of NAME, who has it, and what happened to it.

    \b
    Example:
      lockstep devices show pi-4-left
    """
    device = fleet.device(name)
    with Store() as store:
        click.echo(history(store, device, limit))
    return 0
