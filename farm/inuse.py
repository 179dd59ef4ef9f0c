"""Who uses the cache at this moment: gates and sweeps hold it together, ``lockstep prune`` alone.

What a command has just looked up must not vanish before its jobs are planned; from then on the store tells.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "in-use.lock"


@contextmanager
def using(cache: Path) -> Iterator[None]:
    """Use the cache; waits for a prune to end. The kernel lets go when the process dies."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / NAME).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextmanager
def alone_with(cache: Path) -> Iterator[bool]:
    """True when nobody uses the cache and nobody will while the block runs; False when somebody does."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / NAME).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
