"""Ctrl-C and SIGTERM: both leave through the ``with`` blocks, but never out of the middle of a transaction.

Python raises ``KeyboardInterrupt`` between any two instructions of the main thread, be it in the middle of a
rollback. The connection then keeps its transaction, and what the command wants to write on its way out, that its
jobs are cancelled, waits for its own lock. And what is raised while an object is freed is lost: nobody leaves at all.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import NoReturn

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class _Undisturbed:
    """``with undisturbed: …`` the signal that comes meanwhile is raised as soon as the outermost block is left.

    The second one is raised at once: somebody insists. All this is for the main thread, where signals are handled,
    and there inside ``unwinding()``.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._asked: int | None = None

    def __enter__(self) -> None:
        if _is_main():
            self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not _is_main():
            return
        self._depth -= 1
        if not self._depth and self._asked is not None:
            self._leave(self._asked)

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Handle ``number``: raise now, or when the block is left."""
        if self._depth and self._asked is None:
            self._asked = number
        else:
            self._leave(number)

    def _leave(self, number: int) -> NoReturn:
        self._asked = None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)


undisturbed = _Undisturbed()


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Until the block ends, Ctrl-C raises ``KeyboardInterrupt`` and SIGTERM ``SystemExit(143)``, in their time.

    A Ctrl-C that whoever started this command told it to ignore stays ignored.
    """
    if not _is_main():
        yield
        return
    heard = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, undisturbed.on_signal) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
