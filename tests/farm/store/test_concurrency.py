"""Several hosts write to one store at the same moment: no deadlock, no lost update, no second holder."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.contract.errors import LeaseLost
from farm import leases
from farm.jobs import JobSpec, RunSpec
from farm.store import Store, attempts_of, create_run, jobs_of
from farm.store.transitions import cancel_jobs, claim, finish, heartbeat, lose_worker, reclaim

TTL = 10.0


def at_once(actions):
    """Run all at the same moment; their answers. Anything raised fails the test."""
    together = threading.Barrier(len(actions))

    def act(action):
        together.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


def test_the_first_lease_of_a_device_has_one_holder(store_url):
    stores = [Store(store_url).open() for _ in range(4)]

    def take(store, device):
        with store.write() as session:
            return leases.acquire(session, device, f"w{id(store)}", TTL, 1000.0)

    try:
        for device in ("d0", "d1", "d2", "d3"):
            found = at_once([lambda store=store, device=device: take(store, device) for store in stores])
            assert sum(lease is not None for lease in found) == 1
    finally:
        for store in stores:
            store.close()


@pytest.mark.postgres
def test_what_was_read_before_the_lock_frees_nothing(postgres):
    """Between reading a lease that expired and releasing it, somebody else may have taken the device."""
    url = postgres.url()
    with Store(url) as slow, Store(url) as quick:
        with slow.write() as session:
            old = leases.acquire(session, "d", "old", TTL, 1000.0)
        with slow.write() as session:
            assert not leases.is_valid(session, "d", old.token, 2000.0)
            with quick.write() as other:
                new = leases.acquire(other, "d", "new", TTL, 2000.0)
            leases.release(session, "d", old.token)
        with quick.read() as session:
            assert leases.is_valid(session, "d", new.token, 2001.0)
    postgres.drop(url)


def test_everybody_at_once_ends_every_job_once(store_url):
    """Taking back, cancelling, finishing and heartbeats on the same jobs, in every order that threads find."""
    stores = [Store(store_url).open() for _ in range(5)]
    first = stores[0]
    try:
        for _ in range(4):
            jobs = [JobSpec(case="c", device=f"d{number}", position=number) for number in range(6)]
            run = create_run(first, RunSpec(suite="s", engine="e", command="c"), jobs)
            claims = [claim(first, entry.id, "w", TTL) for entry in jobs_of(first, run)]
            at_once(
                [
                    lambda run=run: reclaim(stores[0], run),
                    lambda run=run: cancel_jobs(stores[1], run, "stopped"),
                    lambda: lose_worker(stores[2], "w"),
                    lambda claims=claims: [unless_lost(finish, stores[3], one, {}) for one in reversed(claims)],
                    lambda claims=claims: [unless_lost(heartbeat, stores[4], one, TTL) for one in claims],
                ]
            )
            cancel_jobs(first, run, "the rest")
            for entry in jobs_of(first, run):
                assert entry.status.ended
                (attempt,) = attempts_of(first, entry.id)
                assert attempt.outcome in ("done", "lost", "cancelled")
                assert (attempt.outcome == "done") == (entry.result is not None)
            with first.write() as session:  # what was taken from its worker is free once the worker has stopped
                for one in claims:
                    leases.release(session, one.job.device, one.lease.token)
    finally:
        for store in stores:
            store.close()


def unless_lost(action, *arguments):
    try:
        action(*arguments)
    except LeaseLost:
        return
