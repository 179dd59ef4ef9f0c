"""One holder at a time for a piece of the cache, across processes."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file ``path`` (made when absent); ``on_wait`` is called when somebody else has it.

    The kernel frees the lock when its holder ends, however it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def one_of(folder: Path, count: int, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Be one of at most ``count`` holders, across processes; ``on_wait`` is called ten times a second until then.

    What ``on_wait`` raises ends the wait. The kernel frees the place when its holder ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for number in range(count):
            with (folder / f"{number}.lock").open("a") as handle:
                if _taken(handle):
                    yield
                    return
        on_wait()
        time.sleep(0.1)


def _taken(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
