"""Something that is done again and again beside a block, from a thread that ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ticking(name: str, seconds: float, tick: Callable[[], bool]) -> Iterator[None]:
    """Call ``tick`` every ``seconds`` while the block runs, in a thread called ``name``, until it answers False.

    When the block is left it is not called any more. It must not raise.
    """
    over = threading.Event()

    def run() -> None:
        while not over.wait(seconds) and tick():
            pass

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
