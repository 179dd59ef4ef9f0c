"""Where Lockstep keeps things: one cache, one state folder, both documented in ``docs/caches.md``."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """Downloads, tool chain, builds, references: all can be deleted at any time.

    ``LOCKSTEP_CACHE``, else ``$XDG_CACHE_HOME/lockstep``, else ``~/.cache/lockstep``.
    """
    chosen = os.environ.get("LOCKSTEP_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "lockstep"


def state_root() -> Path:
    """The job store, leases and the embedded broker: shared by all gates of one user.

    ``LOCKSTEP_STATE``, else ``$XDG_STATE_HOME/lockstep``, else ``~/.local/state/lockstep``.
    """
    chosen = os.environ.get("LOCKSTEP_STATE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state").absolute() / "lockstep"
