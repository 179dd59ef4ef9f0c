"""Ctrl-C and SIGTERM at every line of a transaction: the command leaves, and can still write on its way out."""

import signal
import sys
import threading

import pytest

from farm.jobs import RunSpec
from farm.stopping import undisturbed, unwinding
from farm.store import Store, create_run
from farm.store import database as database_module


class AtLine:
    """Sends ``number`` to this process at the nth line that it executes; ``over`` when there are not so many."""

    def __init__(self, number, nth):
        self.number, self.left = number, nth

    def __call__(self, _frame, event, _argument):
        if event == "line" and self.left:
            self.left -= 1
            if not self.left:
                signal.raise_signal(self.number)
        return self

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    @property
    def over(self):
        return self.left > 0


def some_run(store):
    return create_run(store, RunSpec(suite="s", engine="e", command="c"), [])


@pytest.fixture(autouse=True)
def interruptible():
    """What starts the tests may have told its children to ignore Ctrl-C; a terminal does not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def no_deadlock():
    """A lock that an interrupted line took with it is waited for in vain: the main thread's next alarm says so."""

    def tell(*_):
        raise AssertionError("a lock was never given back")

    before = signal.signal(signal.SIGALRM, tell)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def signals_at_many_lines(number, act, clean_up):
    """``act`` again and again, each time with a signal a few lines later; how many were sent, and what they raised."""
    raised = []
    for sent, nth in enumerate(range(1, 100_000, 11)):
        at = AtLine(number, nth)
        try:
            with at:
                act()
        except (KeyboardInterrupt, SystemExit) as error:
            raised.append(error)  # as the cleanup of a command does, whose traceback holds every frame
            clean_up()
        if at.over:
            return sent, raised
    raise AssertionError("it never came to an end")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A lock that is held fails the next writer at once."""
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0)
    with Store(f"sqlite:///{tmp_path / 'lockstep.db'}") as store:
        some_run(store)
        yield store


# what is raised while objects are freed is lost, and said to be
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("no_deadlock")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_transaction_is_left_open_wherever_the_signal_comes(store, number):
    with unwinding():
        sent, raised = signals_at_many_lines(number, lambda: some_run(store), lambda: some_run(store))
    assert 100 < len(raised) <= sent
    some_run(store)


@pytest.mark.usefixtures("no_deadlock")
def test_no_signal_is_lost_in_a_round_of_the_controller(store):
    def round_of_a_controller():
        with undisturbed:
            some_run(store)

    with unwinding():
        sent, raised = signals_at_many_lines(signal.SIGINT, round_of_a_controller, lambda: None)
    assert len(raised) == sent > 100


def test_who_insists_is_heard_at_once():
    with unwinding(), undisturbed:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_within_waits_for_the_outermost_block_and_comes_once():
    done = []

    def outer():
        with undisturbed:
            with undisturbed:
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")

    with unwinding():
        with pytest.raises(KeyboardInterrupt):
            outer()
        with undisturbed:
            done.append("next")
        with pytest.raises(SystemExit, match="143"):
            signal.raise_signal(signal.SIGTERM)
    assert done == ["inner", "outer", "next"]


def test_handlers_are_given_back_and_an_ignored_interrupt_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        term = signal.getsignal(signal.SIGTERM)
        with unwinding():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGTERM) == undisturbed.on_signal
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == term
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_none_of_its_business():
    with unwinding():
        thread = threading.Thread(target=undisturbed.__enter__)
        thread.start()
        thread.join()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
