"""What ticks beside a block begins with it, goes on until it has enough, and ends with it."""

import threading

import pytest

from farm.ticking import ticking
from tests.waiting import wait_until


def test_it_ticks_while_the_block_runs_and_never_after():
    ticks = []
    with ticking("t", 0.001, lambda: not ticks.append(threading.current_thread().name)):
        wait_until(lambda: len(ticks) > 3)
    after = len(ticks)
    assert set(ticks) == {"t"}
    assert not any(thread.name == "t" for thread in threading.enumerate())
    assert len(ticks) == after


def test_it_ends_when_it_has_enough():
    left = [3, 2, 1]
    with ticking("t", 0.001, lambda: bool(left.pop() and left)):
        wait_until(lambda: not left)
        wait_until(lambda: not any(thread.name == "t" for thread in threading.enumerate()))
    assert left == []


def test_what_the_block_raises_is_raised_and_ends_it():
    with pytest.raises(KeyError), ticking("t", 0.001, lambda: True):
        raise KeyError
    assert not any(thread.name == "t" for thread in threading.enumerate())
