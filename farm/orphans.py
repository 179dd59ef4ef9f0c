"""Runs whose controller died without a word, beside workers that did not die with it: those workers notice.

A controller renews the heartbeat of its run twice a second. Whoever looks on counts by his own watch for how long it
stays as it is: no clock that is set, and none that differs from another host's, makes a living run look dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from farm.store.database import Store
from farm.store.jobs import RUN_STALE_SECONDS, heartbeats
from farm.store.transitions import abandon_silent

SILENCE_SECONDS = RUN_STALE_SECONDS
GAP_SECONDS = 10.0
"""Who did not look for this long, because the store was away or he was stopped, cannot tell who was silent."""


class Orphans:
    """Abandons the runs that nobody drives any more. ``watch`` is a clock that nobody can set, in seconds."""

    def __init__(self, store: Store, watch: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._watch = watch
        self._looked = 0.0
        self._since: dict[str, tuple[float, float]] = {}

    def look(self) -> list[str]:
        """Call this every few seconds; returns the runs that were abandoned. ``StoreError``."""
        beats, now = heartbeats(self._store), self._watch()
        known = self._since if now - self._looked < GAP_SECONDS else {}
        self._looked = now
        self._since = {
            run: known[run] if run in known and known[run][0] == seen else (seen, now) for run, seen in beats.items()
        }
        lost = []
        for run, (seen, since) in self._since.items():
            if now - since >= SILENCE_SECONDS:
                lost += abandon_silent(self._store, run, seen)
        return lost
