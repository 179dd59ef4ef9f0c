"""The devices file of emulated devices: what ``lockstep gate --devices`` reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from agents.emulation.linux import USER, known_host
from agents.emulation.units import Unit
from engine.contract.errors import UsageError
from farm.inventory import Fleet, load_fleet

MARK = "# Written by `lockstep emulate up`: emulated devices prove answers, never speed, and count as emulated.\n"
_MEMORY_MB = {"adb": 4096, "ssh": 2048}
_OS = {"adb": "android", "ssh": "linux"}


def write_fleet(path: Path, units: Sequence[Unit]) -> Fleet:
    """Write the devices file, and beside it the known_hosts of its ssh devices; returns what a gate will read.

    UsageError when something else than such a file is there.
    """
    known_hosts = path.with_suffix(".known_hosts").absolute()
    if path.exists() and not path.read_text(errors="replace").startswith(MARK):
        raise UsageError(
            f"{path} is there and was not written by `lockstep emulate`", hint="name another with --write FILE"
        )
    entries = [_entry(unit, known_hosts) for unit in units]
    text = yaml.safe_dump({"devices": entries}, sort_keys=False, default_flow_style=None, width=120)
    _publish(known_hosts, "".join(known_host(unit.folder, unit.port) for unit in units if unit.spec.kind == "ssh"))
    _publish(path, MARK + text)
    return load_fleet(path)


def _entry(unit: Unit, known_hosts: Path) -> dict[str, Any]:
    spec = unit.spec
    return {
        "name": spec.name,
        "chip": spec.chip,
        "model": spec.model,
        "tier": "mid",
        "abis": [spec.abi],
        "memory_mb": _MEMORY_MB[spec.kind],
        "os": _OS[spec.kind],
        "link": _link(unit, known_hosts),
    }


def _link(unit: Unit, known_hosts: Path) -> dict[str, Any]:
    if unit.spec.kind == "adb":
        return {"kind": "adb", "serial": unit.serial, "emulated": True}
    return {
        "kind": "ssh",
        "host": "127.0.0.1",
        "port": unit.port,
        "user": USER,
        "key": str(unit.folder / "user_key"),
        "known_hosts": str(known_hosts),
        "emulated": True,
    }


def _publish(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text)
    part.rename(path)
