"""What the device's first process is told: a frozen record that travels as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Boot:
    """How to make one device's root and which daemon runs in it. Paths in the device are absolute.

    ``lower`` is the shared tree under an overlay, "" when ``root`` itself holds a copy. ``interpreters`` map an ELF
    machine (``aarch64``) to the emulator that runs it. ``bound`` shows a file of the device at another place (/proc);
    ``partitions`` are folders that do not lie under the overlay, which makes a new file dear; ``noexec``, ``scratch``
    and ``sized`` (MiB) are file systems of their own. ``user`` is whom the daemon runs as; ``own_users`` says that the
    device has a user namespace, and with it a binfmt_misc, of its own.
    """

    root: str
    lower: str
    upper: str
    work: str
    hostname: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    port: int = 0
    user: int = 0
    rootless: bool = False
    own_users: bool = True
    interpreters: dict[str, str] = field(default_factory=dict)
    bound: dict[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    noexec: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    sized: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Boot:
        """The record again."""
        fields = json.loads(text)
        for name in ("command", "partitions", "noexec", "scratch"):
            fields[name] = tuple(fields[name])
        return cls(**fields)
