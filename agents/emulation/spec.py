"""One emulated device as asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.contract.errors import UsageError

Kind = Literal["adb", "ssh"]
Abi = Literal["x86-64", "arm64"]
#: The chip of a device that is told no other: qemu's CPU name, "" for the host's own.
CPUS: dict[Abi, str] = {"x86-64": "", "arm64": "cortex-a53"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Spec:
    """``cpu`` is qemu's CPU name (arm64 only); ``data_mb`` bounds the device's writable folder, in MiB."""

    name: str
    kind: Kind
    abi: Abi
    cpu: str = ""
    data_mb: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"{self.name!r} is not a plain device name (letters, digits, dot, dash, underscore; at most 64)",
                hint="choose another name",
            )

    @property
    def chip(self) -> str:
        """What devices.yaml calls its silicon."""
        return self.cpu or CPUS[self.abi] or self.abi

    @property
    def model(self) -> str:
        """What devices.yaml calls the product: never a product's own name."""
        return f"emulated-{self.kind}"
