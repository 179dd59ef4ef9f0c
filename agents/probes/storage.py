"""Room and kind of the file system that holds the device's folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agents.probes._text import Flat, Unknown, refusal, sections, words

EVERY_RUN = True

#: Of the mounts only those above the folder are printed: an Android device has hundreds.
SCRIPT = r"""
path=$folder; cd -P -- "$folder" && path=$PWD
echo @room; df -Pk -- "$folder" 2>&1
echo @mounts
while read -r device point kind flags rest; do
    case "$path/" in "${point%/}/"*) echo "$kind $flags $point" ;; esac
done <"$proc/mounts"
echo @end
"""

_ROOM = re.compile(r"\s(\d{1,15})\s+(-?\d{1,15})\s+(-?\d{1,15})\s+(?:\d+%|-)\s+\S.*$")


@dataclass(frozen=True)
class Storage:
    """Room in KiB; ``flags`` are the mount's own words; ``executable`` is False on noexec mounts, None when unknown."""

    total_kib: int
    free_kib: int
    filesystem: str
    mount: str
    flags: tuple[str, ...]

    @property
    def executable(self) -> bool | None:
        """Whether the mount forbids to run programs; emulated storage may forbid it in other ways."""
        return "noexec" not in self.flags if self.flags else None

    @property
    def writable(self) -> bool | None:
        """False on mounts that are read-only."""
        return "ro" not in self.flags if self.flags else None

    def flat(self) -> Flat:
        """As JSON."""
        return {
            "storage_free_mib": self.free_kib // 1024,
            "storage_total_mib": self.total_kib // 1024,
            "filesystem": self.filesystem,
            "storage_executable": self.executable,
            "storage_writable": self.writable,
        }


def parse(text: str) -> Storage | Unknown:
    """Read what ``SCRIPT`` printed; of several mounts the deepest counts, of equals the last, which lies on top."""
    found = sections(text, "@")
    room = next((match for line in found.get("room", []) if (match := _ROOM.search(line))), None)
    if room is None:
        told = " ".join(found.get("room", []))
        return Unknown(f"df: {refusal(told) or words(told) or 'no answer'}")
    mounts = [line.split(" ", 2) for line in found.get("mounts", [])]
    over = max((mount for mount in reversed(mounts) if len(mount) == 3), key=lambda mount: len(mount[2]), default=None)
    kind, flags, point = over if over else ("unknown", "", "unknown")
    return Storage(
        int(room[1]), max(0, int(room[3])), words(kind), words(point), tuple(words(flags).split(",")) if flags else ()
    )
