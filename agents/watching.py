"""Samples the memory of a program on this host while it runs, at a bounded cost."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from agents.probes._text import Unknown
from agents.probes.memory import Memory, Watched, parse
from agents.probes.peak import parse as parse_record

#: Between two samples: short at first, so that short runs are seen, then once a second.
FIRST_SECONDS, LONGEST_SECONDS = 0.02, 1.0
#: A sample costs at most this share of the time: reading PSS walks the program's page tables.
SHARE = 0.01


class MemoryWatch:
    """Watches process ``pid``; peaks of all runs since the record was last read are joined in ``record``."""

    def __init__(self, pid: int, record: Path) -> None:
        self._folder, self._record = Path("/proc") / str(pid), record
        self._pause, self._due = FIRST_SECONDS, time.monotonic() + FIRST_SECONDS
        self.seen = Watched()

    def wait_for(self, longest: float) -> float:
        """Seconds until the next sample is due, at most ``longest``."""
        return max(0.0, min(longest, self._due - time.monotonic()))

    def sample_if_due(self) -> None:
        """Take a sample when it is time; never raises."""
        begun = time.monotonic()
        if begun < self._due:
            return
        self.seen = self.seen.add(self._sample())
        now = time.monotonic()
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self._due = now + max(self._pause, (now - begun) / SHARE)

    def write(self) -> None:
        """Leave what was seen in the record; a full disk costs the record only."""
        with suppress(OSError):
            before = parse_record(self._record.read_text()) if self._record.exists() else Unknown("")
            old = () if isinstance(before, Unknown) else (before.rss_kib, before.pss_kib or 0, before.samples)
            new = (self.seen.peak_rss_kib or 0, self.seen.peak_pss_kib or 0, self.seen.samples)
            rss, pss = (max(values) for values in zip(*filter(None, (old[:2], new[:2])), strict=True))
            self._record.write_text(f"{rss} {pss} {new[2] + (old[2] if old else 0)}\n")

    def _sample(self) -> Memory | Unknown:
        try:
            status = (self._folder / "status").read_text(errors="replace")
            rollup = self._folder / "smaps_rollup"
            pss = (rollup if rollup.exists() else self._folder / "smaps").read_text(errors="replace")
        except OSError:
            return Unknown("process ended")
        return parse(f"@status\n{status}\n@pss\n{pss}\n@end\n")
