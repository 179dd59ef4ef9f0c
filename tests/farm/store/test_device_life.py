"""However jobs, people, failures and time interleave: no transition outside the table, nobody clears what a person
set, one holder a device, and every job ends once."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import select

from engine.contract.errors import LeaseLost, UsageError
from farm import leases
from farm.devicestates import BY_MACHINE, BY_PERSON, WAITS_FOR_A_PERSON, DeviceState, allowed
from farm.jobs import JobError, JobSpec, JobStatus, Role, RunSpec
from farm.store import Store, create_run, job, jobs_of
from farm.store.devices import events_of, hold, note_pass, record_of, release
from farm.store.jobs import touch_run
from farm.store.models import DeviceRow
from farm.store.transitions import (
    acknowledge,
    cancel_jobs,
    claim,
    fail,
    finish,
    heartbeat,
    lose_worker,
    reclaim,
    reserve,
)

DEVICES = ("left", "right", "alone")
UNITS = {name: {"group": "g" if name != "alone" else "h", "device": {"name": name}} for name in DEVICES}
HEALTH = {
    "failures": 2, "of": 3, "backoff_seconds": 4, "backoff_most_seconds": 8,
    "probe_after_seconds": 10, "probe_most_seconds": 40,
}  # fmt: skip
ERRORS = {
    name: JobError(type=name, message=f"{name} on it", status=status)
    for name, status in [
        ("DeviceUnavailable", "infra"), ("TransferError", "infra"), ("HostKeyChanged", "infra"),
        ("DeviceUnauthorized", "infra"), ("RunnerCrashed", "crashed"), ("internal", "infra"),
    ]
}  # fmt: skip
TTL = 5.0


class DeviceLife(RuleBasedStateMachine):
    """Two units of one kind and one of another, runs of head and base, two workers, a person."""

    @initialize()
    def start(self):
        self.now = 1_000_000.0
        self.store = Store("sqlite://", lambda: self.now).open()
        self.claims, self.runs, self.ended, self.held, self.changed = [], [], {}, {}, set()
        self.plan("left")

    @rule(device=st.sampled_from(DEVICES))
    def plan(self, device):
        specs = [
            JobSpec(
                case="c", device=device, role=role, position=i, timeout=20, spec={"device": UNITS[device]["device"]}
            )
            for i, role in enumerate((Role.HEAD, Role.BASE))
        ]
        payload = {"units": UNITS, "health": HEALTH}
        self.runs.append(create_run(self.store, RunSpec(suite="s", engine="e", command="c", payload=payload), specs))

    def jobs(self):
        return [entry for run in self.runs for entry in jobs_of(self.store, run)]

    def record(self, name):
        with self.store.read() as session:
            return record_of(session, name, self.now)

    @rule(data=st.data(), worker=st.sampled_from("vw"))
    def take(self, data, worker):
        waiting = [entry for entry in self.jobs() if entry.status is JobStatus.QUEUED]
        # as the controller does: base after head
        waiting = [
            entry
            for entry in waiting
            if entry.role is Role.HEAD
            or all(o.status.ended for o in self.jobs() if o.run_id == entry.run_id and o.role is Role.HEAD)
        ]
        if not waiting:
            return
        entry = data.draw(st.sampled_from(waiting))
        before = self.record(entry.device)
        free = not self.holders(entry.device)
        reserve(self.store, [entry.id])
        taken = claim(self.store, entry.id, worker, TTL)
        if taken is None:
            return
        assert free
        assert before.state not in WAITS_FOR_A_PERSON
        assert before.state is DeviceState.READY or before.not_before <= self.now, "left alone until its time"
        assert taken.job.spec["device"]["name"] == taken.lease.device == taken.job.device
        self.claims.append(taken)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), error=st.sampled_from([None, *ERRORS]))
    def end(self, data, error):
        taken = data.draw(st.sampled_from(self.claims))
        valid = self.may_write(taken)
        try:
            if error is None:
                finish(self.store, taken, {"worker": taken.lease.token})
            else:
                fail(self.store, taken, ERRORS[error], retry=ERRORS[error].status == "infra" and error != "internal")
        except LeaseLost:
            assert not valid
            acknowledge(self.store, taken)
        else:
            assert valid
            self.changed |= {taken.job.device} if error == "HostKeyChanged" else set()

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def beat(self, data):
        taken = data.draw(st.sampled_from(self.claims))
        valid = self.may_write(taken)
        try:
            heartbeat(self.store, taken, TTL)
        except LeaseLost:
            assert not valid
        else:
            assert valid

    @rule(seconds=st.sampled_from([1, 3, 6, 15, 50]))
    def wait(self, seconds):
        self.now += seconds
        for run in self.runs:
            touch_run(self.store, run, "test")

    @rule()
    def upkeep(self):
        for run in self.runs:
            reclaim(self.store, run)

    @rule(worker=st.sampled_from("vw"))
    def worker_dies(self, worker):
        lose_worker(self.store, worker)

    @rule(data=st.data())
    def cancel(self, data):
        cancel_jobs(self.store, data.draw(st.sampled_from(self.runs)), "stopped")

    @rule(device=st.sampled_from(DEVICES), who=st.sampled_from(["ada", "bob"]), seconds=st.sampled_from([None, 5, 100]))
    def person_holds(self, device, who, seconds):
        until = None if seconds is None else self.now + seconds
        hold(self.store, device, who, "mine", until)
        self.held.setdefault(device, {})[who] = until

    @rule(device=st.sampled_from(DEVICES))
    def person_releases(self, device):
        before = self.record(device)
        if before.state is DeviceState.READY:
            with pytest.raises(UsageError, match=f"{device} is ready: there is nothing to release"):
                release(self.store, device, "ada")
            return
        assert release(self.store, device, "ada").state is DeviceState.READY
        self.held.pop(device, None)
        self.changed.discard(device)

    def may_write(self, taken):
        """A lease that was revoked keeps the device from others until its time is over, and writes nothing more."""
        with self.store.read() as session:
            try:
                leases.check(session, taken.lease, self.now)
            except LeaseLost:
                return False
            return True

    def holders(self, device):
        good = []
        with self.store.read() as session:
            for taken in self.claims:
                if taken.job.device == device and leases.is_valid(session, device, taken.lease.token, self.now):
                    good.append(taken)
        return good

    @invariant()
    def one_holder_and_nothing_outside_the_table(self):
        for device in DEVICES:
            assert len(self.holders(device)) <= 1
            held = any(until is None or until > self.now for until in self.held.get(device, {}).values())
            state = self.record(device).state
            assert (state is DeviceState.HELD) == held
            assert held or (state is DeviceState.HOST_KEY_CHANGED) == (device in self.changed)
            for event in events_of(self.store, device, 3):
                before, after = DeviceState(event.before), DeviceState(event.after)
                assert before is after or allowed(before, after, event.actor), event
                if before is DeviceState.HOST_KEY_CHANGED and after is not before:
                    assert event.actor == "person:ada"

    @invariant()
    def every_job_ends_once(self):
        done = {}
        for entry in self.jobs():
            if entry.id in self.ended:
                assert replace(entry, tries=()) == self.ended[entry.id]
            elif entry.status.ended:
                self.ended[entry.id] = replace(entry, tries=())
            assert entry.status is not JobStatus.RUNNING or entry.tries[-1].outcome == "running"
            assert sum(tried.outcome == "done" for tried in entry.tries) == (entry.status is JobStatus.DONE)
            if entry.status is JobStatus.DONE:
                done.setdefault(entry.run_id, set()).add(entry.device)
        assert all(len(units) == 1 for units in done.values()), "head and base are measured on one unit"

    def teardown(self):
        """With everybody gone and time passing, what is left ends."""
        for worker in "vw":
            lose_worker(self.store, worker)
        for device in DEVICES:
            hold(self.store, device, "ada", "closing", None)
        for run in self.runs:
            reclaim(self.store, run)
            assert all(entry.status.ended for entry in jobs_of(self.store, run) if not entry.dispatched)
        self.store.close()


TestDeviceLife = DeviceLife.TestCase
TestDeviceLife.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)


def test_the_table_covers_every_state_and_leads_out_of_each():
    for table in (BY_MACHINE, BY_PERSON):
        assert set(table) == set(DeviceState)
    assert all(DeviceState.READY in BY_PERSON[state] for state in DeviceState if state is not DeviceState.READY)
    assert not any(BY_MACHINE[state] for state in WAITS_FOR_A_PERSON)


def one_job(store, device="d", **health):
    payload = {"health": health}
    run_id = create_run(
        store, RunSpec(suite="s", engine="e", command="c", payload=payload), [JobSpec(case="c", device=device)]
    )
    return run_id, jobs_of(store, run_id)[0].id


def state(store, device="d"):
    with store.read() as session:
        return record_of(session, device, store.clock())


def test_a_device_that_never_failed_has_no_row(store):
    _, one = one_job(store)
    finish(store, claim(store, one, "w", TTL), {})
    with store.read() as session:
        assert session.scalars(select(DeviceRow)).all() == []
    assert events_of(store, "d") == ()


def test_a_device_whose_key_changed_ends_the_job_at_once_and_waits_for_a_person(store, clock):
    _, one = one_job(store)
    fail(store, claim(store, one, "w", TTL), ERRORS["HostKeyChanged"], retry=True)
    assert job(store, one).status is JobStatus.FAILED
    assert job(store, one).error.message == "HostKeyChanged on it"
    clock.now += 10_000_000
    assert state(store).state is DeviceState.HOST_KEY_CHANGED
    later, other = one_job(store)
    assert claim(store, other, "w", TTL) is None
    reclaim(store, later)
    ended = job(store, other)
    assert (ended.status, ended.attempts) == (JobStatus.FAILED, 0)
    assert (ended.error.type, ended.error.status) == ("HostKeyChanged", "infra")
    assert ended.error.message.startswith("d is host-key-changed since 19")
    assert ended.error.message.endswith("set by the farm: HostKeyChanged on it")
    assert "`lockstep devices release d`" in ended.error.hint
    assert release(store, "d", "ada").actor == "person:ada"
    _, third = one_job(store)
    assert claim(store, third, "w", TTL)


def spoil(store, name, clock):
    for _ in range(2 if name == "DeviceUnavailable" else 1):
        _, one = one_job(store)
        fail(store, claim(store, one, "w", TTL), ERRORS[name], retry=False)
        clock.now += 30
    return state(store)


@pytest.mark.parametrize(
    ("error", "before"),
    [
        ("HostKeyChanged", "host-key-changed"),
        ("DeviceUnavailable", "quarantined"),
        ("DeviceUnauthorized", "unauthorized"),
    ],
)
def test_a_hold_for_a_time_gives_back_the_state_that_was_there_before(store, clock, error, before):
    spoiled = spoil(store, error, clock)
    assert spoiled.state == before
    hold(store, "d", "ada", "new heat sink", clock.now + 2)
    assert state(store).state is DeviceState.HELD
    clock.now += 3
    assert state(store) == spoiled
    assert release(store, "d", "ada").reason == f"was {before}"
    assert state(store).state is DeviceState.READY


def test_a_hold_gives_back_a_ready_device_as_ready(store, clock):
    hold(store, "d", "ada", "mine", clock.now + 2)
    clock.now += 3
    ready = state(store)
    assert (ready.state, ready.reason, ready.since) == (DeviceState.READY, "the hold ended", clock.now - 1)


def test_what_an_attempt_shows_of_a_held_device_counts_after_the_hold(store, clock):
    _, one = one_job(store)
    running = claim(store, one, "w", TTL)
    hold(store, "d", "ada", "mine", clock.now + 2)
    fail(store, running, ERRORS["HostKeyChanged"], retry=False)
    assert state(store).state is DeviceState.HELD
    clock.now += 3
    assert state(store).state is DeviceState.HOST_KEY_CHANGED


def test_a_passed_probe_of_a_held_device_ends_the_quarantine_beneath(store, clock):
    spoil(store, "DeviceUnavailable", clock)
    hold(store, "d", "ada", "mended", clock.now + 2)
    with store.write() as session:
        note_pass(session, "d", clock.now, "passed a probe")
    assert state(store).state is DeviceState.HELD
    assert events_of(store, "d", 1)[0].kind == "cleared"
    clock.now += 3
    assert state(store).state is DeviceState.READY


def test_a_hold_upon_the_hold_of_another_gives_theirs_back(store, clock):
    spoil(store, "HostKeyChanged", clock)
    theirs = hold(store, "d", "bob", "on loan", None)
    hold(store, "d", "ada", "a minute", clock.now + 60)
    hold(store, "d", "ada", "no, two seconds", clock.now + 2)
    clock.now += 3
    assert state(store) == theirs
    hold(store, "d", "bob", "nearly done", clock.now + 2)
    clock.now += 3
    assert state(store).state is DeviceState.HOST_KEY_CHANGED, "bob's new hold took the place of his old one"
    hold(store, "d", "bob", "mine", None)
    assert release(store, "d", "ada").reason == "was held, before that host-key-changed"
    assert state(store).state is DeviceState.READY


def test_a_device_that_fails_its_job_and_the_retry_is_quarantined_until_a_probe_passes(store, clock):
    _, one = one_job(store)
    fail(store, claim(store, one, "w", TTL), ERRORS["DeviceUnavailable"], retry=True)
    assert state(store).state is DeviceState.OFFLINE
    clock.now = job(store, one).not_before
    fail(store, claim(store, one, "w", TTL), ERRORS["TransferError"], retry=True)
    assert job(store, one).status is JobStatus.FAILED
    quarantined = state(store)
    assert (quarantined.state, quarantined.reason) == (DeviceState.QUARANTINED, "TransferError on it")
    run_id, other = one_job(store)
    reclaim(store, run_id)
    assert job(store, other).error.type == "DeviceQuarantined"
    assert "`lockstep devices --probe`" in job(store, other).error.hint
    clock.now = quarantined.not_before
    run_id, probe = one_job(store)
    reclaim(store, run_id)
    finish(store, claim(store, probe, "w", TTL), {})
    assert state(store).state is DeviceState.READY
    assert [event.kind for event in events_of(store, "d")] == ["cleared", "failed", "failed"]


def test_a_failed_probe_waits_twice_as_long_and_its_time_has_a_limit(store, clock):
    waits = []
    for _ in range(8):
        _, one = one_job(store, failures=1, of=1, probe_after_seconds=10, probe_most_seconds=100)
        taken = claim(store, one, "w", TTL)
        fail(store, taken, ERRORS["DeviceUnavailable"], retry=False)
        waits.append(state(store).not_before - clock.now)
        clock.now = state(store).not_before
    assert waits[0] < waits[1] < waits[2] < waits[3]
    assert 10 <= waits[0] <= 12.5
    assert all(100 <= wait <= 125 for wait in waits[4:])


def test_old_failures_are_forgotten_as_the_window_moves_on(store, clock):
    for kind in ["fail", "pass", "pass", "fail", "pass", "pass", "fail"]:
        _, one = one_job(store, failures=2, of=3)
        taken = claim(store, one, "w", TTL)
        if kind == "fail":
            fail(store, taken, ERRORS["TransferError"], retry=False)
            assert state(store).state is DeviceState.COOLING
            clock.now = state(store).not_before
        else:
            finish(store, taken, {})
            assert state(store).state is DeviceState.READY


@pytest.mark.parametrize("error", ["RunnerCrashed", "internal"])
def test_what_the_engine_or_the_farm_did_is_not_held_against_the_device(store, error):
    _, one = one_job(store, failures=1, of=1)
    fail(store, claim(store, one, "w", TTL), ERRORS[error], retry=False)
    assert state(store).state is DeviceState.READY
