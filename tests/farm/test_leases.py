import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.contract.errors import LeaseLost
from farm import leases
from farm.store import Store


def test_a_device_has_one_holder_until_its_time_is_over(store, clock):
    with store.write() as session:
        first = leases.acquire(session, "d", "a", 10, clock())
        assert leases.acquire(session, "d", "b", 10, clock()) is None
        assert leases.lock(session, "d") > clock()
        clock.now += 10
        second = leases.acquire(session, "d", "b", 10, clock())
        assert second.token == first.token + 1
        with pytest.raises(LeaseLost, match=rf"device d: lease {first.token} is over"):
            leases.check(session, first, clock())


def test_an_old_token_frees_nothing(store, clock):
    with store.write() as session:
        old = leases.acquire(session, "d", "a", 10, clock())
        clock.now += 11
        new = leases.acquire(session, "d", "b", 10, clock())
        leases.release(session, "d", old.token)
        leases.check(session, new, clock())
        leases.release(session, "d", new.token)
        assert leases.lock(session, "d") <= clock()


def test_a_lease_that_expired_is_not_renewed_even_if_nobody_took_it(store, clock):
    with store.write() as session:
        lease = leases.acquire(session, "d", "a", 10, clock())
        clock.now += 9
        lease = leases.renew(session, lease, 10, clock())
        clock.now += 9
        leases.check(session, lease, clock())
        clock.now += 1
        with pytest.raises(LeaseLost):
            leases.renew(session, lease, 10, clock())


class Leases(RuleBasedStateMachine):
    """However holders, time and releases interleave: one valid lease a device at most, and tokens only grow."""

    @initialize()
    def start(self):
        self.now = 1000.0
        self.store = Store("sqlite://", lambda: self.now).open()
        self.issued = {"d0": [], "d1": []}

    @rule(device=st.sampled_from(["d0", "d1"]), holder=st.sampled_from("abc"), ttl=st.integers(1, 5))
    def acquire(self, device, holder, ttl):
        free = not self.valid(device)
        with self.store.write() as session:
            lease = leases.acquire(session, device, holder, ttl, self.now)
        assert (lease is not None) == free
        if lease:
            assert all(lease.token > earlier.token for earlier in self.issued[device])
            self.issued[device].append(lease)

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds):
        self.now += seconds

    @precondition(lambda self: any(self.issued.values()))
    @rule(data=st.data(), renew=st.booleans())
    def use_any_lease_ever_issued(self, data, renew):
        lease = data.draw(st.sampled_from([lease for issued in self.issued.values() for lease in issued]))
        was_valid = lease in self.valid(lease.device)
        with self.store.write() as session:
            if not renew:
                leases.release(session, lease.device, lease.token)
                return
            try:
                leases.renew(session, lease, 3, self.now)
            except LeaseLost:
                assert not was_valid
            else:
                assert was_valid

    def valid(self, device):
        good = []
        with self.store.read() as session:
            for lease in self.issued[device]:
                try:
                    leases.check(session, lease, self.now)
                except LeaseLost:
                    continue
                good.append(lease)
        return good

    @invariant()
    def never_two_holders(self):
        for device in self.issued:
            good = self.valid(device)
            assert good in ([], self.issued[device][-1:])

    def teardown(self):
        self.store.close()


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
