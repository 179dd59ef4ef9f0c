"""Probing devices by hand: connect, run the preflight, and let the outcome count as the health of the device.

A probe has the device's lease, like a job: nobody else uses the device meanwhile, and a device in use is not probed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from engine.contract.errors import LeaseLost, LockstepError, MissingToolError, StoreError
from engine.toolchain import emulator
from farm import leases
from farm.health import Health, blames_device
from farm.inventory import Device
from farm.jobs import JobError
from farm.leases import Lease
from farm.runnercall import agent_for
from farm.store.database import Store
from farm.store.devices import note_failure, note_pass
from farm.ticking import ticking

LEASE_SECONDS = 30.0
AT_ONCE = 8
"""So many devices are probed at a time: a link that hangs waits for its own deadline only."""
Check = Callable[[Device, int], None]
"""Raises what is wrong with a device; gets the token of the lease."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a probe of one device showed. ``passed`` is None when it could not be tried."""

    device: str
    passed: bool | None
    words: str = ""
    hint: str = ""


def preflight(device: Device, token: int) -> None:
    """Connect and prove that programs run there; the error says what is wrong."""
    name = device.link.emulator
    emulators: dict[str, str] = {name: str(emulator(name))} if name else {}
    with agent_for(device, device.abis[0], emulators, token) as agent:
        agent.preflight()


def probe_all(
    store: Store,
    devices: Sequence[Device],
    health: Health,
    who: str,
    check: Check = preflight,
    *,
    at: str | None = None,
) -> list[Probe]:
    """Probe devices, several at a time; the answers are in their order. ``at`` as in ``probe``."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="probe") as pool:
        return list(pool.map(lambda device: probe(store, device, health, who, check, at=at), devices))


def probe(
    store: Store, device: Device, health: Health, who: str, check: Check = preflight, *, at: str | None = None
) -> Probe:
    """Probe one device and keep what that shows of it. ``at`` is the device host that this machine is, if any."""
    if device.at != at:
        where = f"host {device.at}" if device.at else "the machine without a name"
        option = f" --at {device.at}" if device.at else ""
        hint = f"`lockstep devices --probe{option}` there"
        return Probe(device=device.name, passed=None, words=f"reached by {where} only", hint=hint)
    with store.write() as session:
        lease = leases.acquire(session, device.name, f"probe by {who}", LEASE_SECONDS, store.clock())
    if lease is None:
        return Probe(device=device.name, passed=None, words="in use", hint="its jobs prove it")
    error = None
    try:
        with _kept(store, lease):
            check(device, lease.token)
    except MissingToolError as absent:  # this machine lacks it, the device is not to blame
        _return(store, lease)
        return Probe(device=device.name, passed=None, words=absent.message, hint=absent.hint)
    except LockstepError as found:
        error = found
    except BaseException:
        _return(store, lease)
        raise
    return _keep(store, lease, health, error)


def _keep(store: Store, lease: Lease, health: Health, error: LockstepError | None) -> Probe:
    """Free the device; what the probe showed counts if it had the device to its end."""
    now = store.clock()
    with store.write() as session:
        valid = leases.is_valid(session, lease.device, lease.token, now)
        leases.release(session, lease.device, lease.token)
        if not valid:
            return Probe(device=lease.device, passed=None, words="the probe lost the device", hint="probe again")
        if error is None:
            note_pass(session, lease.device, now, "passed a probe")
        elif blames_device(JobError.of(error)):
            note_failure(session, lease.device, JobError.of(error), now, health)
    if error is None:
        return Probe(device=lease.device, passed=True)
    return Probe(device=lease.device, passed=False, words=error.message, hint=error.hint)


def _return(store: Store, lease: Lease) -> None:
    with store.write() as session:
        leases.release(session, lease.device, lease.token)


@contextmanager
def _kept(store: Store, lease: Lease) -> Iterator[None]:
    """Renew a lease while the block runs."""

    def renew() -> bool:
        try:
            with store.write() as session:
                leases.renew(session, lease, LEASE_SECONDS, store.clock())
        except LeaseLost:
            return False
        except StoreError:  # it may come back before the lease is over
            return True
        return True

    with ticking("probe-lease", LEASE_SECONDS / 6, renew):
        yield
