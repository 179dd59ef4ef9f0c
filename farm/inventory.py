"""The fleet: ``devices.yaml``, checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from agents.room import CAP_BYTES
from engine.contract.errors import ConfigError, UsageError
from farm.config import Strict, load, nearest
from farm.health import Health

#: Short enough for the name of a queue.
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: A path on one line; a leading dash would read as an option.
_PATH = r"^[^-\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,1023}$"
_FIELDS = {
    "emulated": {"emulator", "cpu"},
    "local": {"emulator"},  # refused by load_fleet, which says what to write instead
    "ssh": {"host", "port", "user", "key", "known_hosts", "folder", "jump", "emulated"},
    "adb": {"serial", "serials", "folder", "emulated"},
}
_JUMP = r"^([A-Za-z_][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:[1-9][0-9]{0,4})?$"
_ADB_FOLDER = "/data/local/tmp/lockstep"
_SERIAL = r"^[A-Za-z0-9\[][A-Za-z0-9._:%\[\]-]{0,127}$"


class Link(Strict):
    """How a device is reached: ``emulated`` (qemu-user or the host itself), ``local``, ``ssh`` or ``adb``.

    ``cpu`` is qemu's CPU name; without it an emulated device runs natively on the host. Of an ssh link, ``key`` is a
    private key file (without it ssh-agent is asked), ``folder`` the device's, relative to the user's home (without it
    the first usual place where programs may run), and ``jump`` a host on the way: ``[USER@]HOST[:PORT]``. Of an adb
    link, ``serial`` is a USB serial, ``HOST:PORT`` or ``emulator-PORT``, and ``serials`` are further links to the same
    unit, tried in this order. ``emulated`` says that what answers there is no device (``lockstep emulate``).
    """

    kind: Literal["emulated", "local", "ssh", "adb"]
    emulator: Literal["qemu-aarch64", "qemu-arm", "qemu-riscv64", "qemu-x86_64"] | None = None
    cpu: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_,.=+-]{1,128}$")
    host: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$")
    port: int = Field(default=22, ge=1, le=65535)
    user: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")
    key: str | None = Field(default=None, pattern=_PATH)
    known_hosts: str = Field(default="~/.ssh/known_hosts", pattern=_PATH)
    folder: str | None = Field(default=None, pattern=_PATH)
    jump: str | None = Field(default=None, pattern=_JUMP)
    serial: str | None = Field(default=None, pattern=_SERIAL)
    emulated: bool = False
    serials: tuple[Annotated[str, StringConstraints(pattern=_SERIAL)], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _folder_of_its_kind(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("kind") == "adb":
            return {"folder": _ADB_FOLDER, **given}
        return given

    @model_validator(mode="after")
    def _fields_of_its_kind(self) -> Link:
        strange = sorted(self.model_fields_set - {"kind"} - _FIELDS[self.kind])
        if strange:
            raise ValueError(
                f"kind {self.kind} takes no {', '.join(strange)} "
                f"(it takes: {', '.join(sorted(_FIELDS[self.kind])) or 'nothing'})"
            )
        missing = [name for name in ("host", "user") if self.kind == "ssh" and not getattr(self, name)]
        if missing:
            raise ValueError(f"kind ssh needs {' and '.join(missing)}")
        if self.kind == "adb" and not self.serial:
            raise ValueError("kind adb needs serial (`adb devices` shows it)")
        return self


class Device(Strict):
    """One unit of the fleet.

    ``abis`` lists the builds it can run, best first; ``required`` devices must be tested.

    ``at`` names the device host that reaches it (``lockstep worker --name``); without it this host does.
    """

    name: str
    chip: str
    model: str
    tier: Literal["high", "mid", "low"]
    abis: tuple[str, ...] = Field(min_length=1)
    link: Link
    memory_mb: int = Field(gt=0, description="memory of the product, for the device matrix")
    os: str = "linux"
    required: bool = True
    at: str | None = None
    threads: int = Field(default=1, ge=1, le=64)
    cache_mb: int = Field(default=CAP_BYTES // 2**20, ge=1, description="room for models and engine builds kept there")

    @field_validator("name", "chip", "model")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a plain name (letters, digits, dot, dash, underscore; at most 64)")
        return value

    @field_validator("at")
    @classmethod
    def _host_name(cls, value: str | None) -> str | None:
        if value is not None and not HOST_NAME.fullmatch(value):
            raise ValueError(f"{value!r} is not a plain name (letters, digits, dot, dash, underscore; at most 48)")
        return value

    @property
    def serials(self) -> tuple[str, ...]:
        """All adb serials of this unit, best first; empty for other links."""
        return tuple(dict.fromkeys((self.link.serial, *self.link.serials))) if self.link.serial else ()

    @property
    def chip_model(self) -> str:
        """``CHIP-MODEL``: what verdicts and expectations belong to."""
        return f"{self.chip}-{self.model}"

    @property
    def emulated(self) -> bool:
        """True when a CPU emulator may stand in for the chip."""
        return self.link.emulator is not None or self.link.emulated

    @property
    def real(self) -> bool:
        """True when it is the device that it is named for: reports count these apart from all others."""
        return self.link.kind != "emulated" and not self.link.emulated


class Fleet(Strict):
    """All devices of one ``devices.yaml``, and how patient the farm is with one that fails."""

    devices: tuple[Device, ...] = Field(min_length=1)
    health: Health = Field(default_factory=Health)

    @field_validator("devices")
    @classmethod
    def _unique(cls, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        names = [device.name for device in devices]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"device names must be unique; given twice: {', '.join(twice)}")
        return devices

    @field_validator("devices")
    @classmethod
    def _one_entry_a_unit(cls, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        owners: dict[str, str] = {}
        for device in devices:
            for serial in device.serials:
                if owners.setdefault(serial, device.name) != device.name:
                    raise ValueError(
                        f"{owners[serial]} and {device.name} both have serial {serial}: "
                        "one unit is one device; list all its serials there"
                    )
        return devices

    def device(self, name: str) -> Device:
        """One device by name; ``UsageError`` with the nearest name."""
        for device in self.devices:
            if device.name == name:
                return device
        raise UsageError(
            f"unknown device {name!r}: {nearest(name, [device.name for device in self.devices])}",
            hint="`lockstep devices` lists the fleet",
        )


def load_fleet(path: Path) -> Fleet:
    """Read ``devices.yaml``."""
    fleet = load(path, Fleet)
    for device in fleet.devices:
        if device.link.kind == "local" and device.link.emulator:
            raise ConfigError(
                f"{path}: {device.name}: a local link has no emulator", hint="use kind: emulated for qemu devices"
            )
    return fleet
