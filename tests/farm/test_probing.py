import contextlib
import threading

import pytest

from engine.contract.errors import DeviceUnavailable, HostKeyChanged, MissingToolError, UsageError
from farm import leases
from farm.devicestates import DeviceState
from farm.health import Health
from farm.inventory import Device, Link
from farm.probing import preflight, probe, probe_all
from farm.store.devices import events_of, hold, record_of
from farm.store.models import LeaseRow

HEALTH = Health()


def device(name="d", **more):
    fields = {"chip": "c", "model": "m", "tier": "low", "abis": ("x86-64",), "memory_mb": 1, "link": Link(kind="local")}
    return Device(name=name, **fields | more)


def state(store, name="d"):
    with store.read() as session:
        return record_of(session, name, store.clock()).state


def passes(device, token):
    assert token > 0


def gone(device, token):
    raise DeviceUnavailable(f"{device.name} is gone", hint="plug it in", device=device.name)


def test_a_real_device_passes_where_programs_run(store, monkeypatch, tmp_path):
    monkeypatch.setenv("LOCKSTEP_STATE", str(tmp_path))
    assert probe(store, device(), HEALTH, "ada", preflight).passed


def test_what_a_probe_shows_counts_and_a_passed_one_makes_ready_again(store, clock):
    for expected in (DeviceState.OFFLINE, DeviceState.QUARANTINED):
        found = probe(store, device(), HEALTH, "ada", gone)
        assert (found.passed, found.words, found.hint) == (False, "d is gone", "plug it in")
        assert state(store) is expected
    clock.now += 1  # a person need not wait for the time of the next probe
    assert probe(store, device(), HEALTH, "ada", passes).passed
    assert state(store) is DeviceState.READY
    assert [event.kind for event in events_of(store, "d")] == ["cleared", "failed", "failed"]


def test_a_passed_probe_ends_neither_a_hold_nor_a_changed_host_key(store):
    def changed(device, token):
        raise HostKeyChanged("another key", device=device.name)

    hold(store, "held", "ada", "mine", None)
    probe(store, device("key"), HEALTH, "ada", changed)
    for name, kept in (("held", DeviceState.HELD), ("key", DeviceState.HOST_KEY_CHANGED)):
        assert probe(store, device(name), HEALTH, "ada", passes).passed
        assert state(store, name) is kept


def test_a_device_in_use_is_not_probed_and_a_probed_one_is_not_used(store):
    with store.write() as session:
        leases.acquire(session, "d", "worker", 10, store.clock())
    found = probe(store, device(), HEALTH, "ada", gone)
    assert (found.passed, found.words, state(store)) == (None, "in use", DeviceState.READY)

    def somebody_else_wants_it(other, token):
        with store.write() as session:
            assert leases.acquire(session, other.name, "worker", 10, store.clock()) is None

    assert probe(store, device("e"), HEALTH, "ada", somebody_else_wants_it).passed


def test_what_this_machine_lacks_is_not_held_against_the_device(store):
    def lacking(device, token):
        raise MissingToolError("no qemu-arm", hint="install it")

    assert probe(store, device(), HEALTH, "ada", lacking).passed is None
    assert state(store) is DeviceState.READY


def test_a_device_is_probed_on_the_host_that_reaches_it(store):
    found = probe(store, device(at="lab1"), HEALTH, "ada", gone)
    assert (found.passed, found.words) == (None, "reached by host lab1 only")
    assert found.hint == "`lockstep devices --probe --at lab1` there"
    found = probe(store, device(), HEALTH, "ada", gone, at="lab1")
    assert (found.passed, found.words) == (None, "reached by the machine without a name only")
    assert found.hint == "`lockstep devices --probe` there"
    assert state(store) is DeviceState.READY
    assert probe(store, device(at="lab1"), HEALTH, "ada", gone, at="lab1").passed is False
    assert probe_all(store, [device(at="lab1")], HEALTH, "ada", passes, at="lab1")[0].passed


@pytest.mark.parametrize("error", [DeviceUnavailable("gone"), UsageError("a mistake"), KeyboardInterrupt()])
def test_the_device_is_given_back_however_a_probe_ends(store, error):
    def fails(device, token):
        raise error

    with contextlib.suppress(KeyboardInterrupt):
        probe(store, device(), HEALTH, "ada", fails)
    with store.read() as session:
        assert session.get(LeaseRow, "d").holder == ""


def test_several_devices_are_probed_at_a_time_and_answer_in_their_order(store):
    together = threading.Barrier(4, timeout=30)

    def waits(device, token):
        together.wait()

    names = ["d0", "d1", "d2", "d3"]
    found = probe_all(store, [device(name) for name in names], HEALTH, "ada", waits)
    assert [probed.device for probed in found] == names
    assert all(probed.passed for probed in found)
