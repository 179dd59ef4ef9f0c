"""The one error root of Lockstep.

::

    LockstepError                 message, hint (what to try next), fields; exit_code
    ├── UsageError                2  the command line asks for something that does not exist
    ├── ConfigError               2  devices.yaml, engines/*.yaml, suites/*.yaml, expectations
    ├── ModelError                2  a model file that cannot be read, or lies about itself
    ├── BuildError                2  the engine's own build failed
    ├── UnsupportedError          3  this model or backend is not supported there (named)
    ├── MissingToolError          3  a program or package is absent; the hint says what to type
    ├── TooHot                    3  the device is not known to be cool in time: nothing was measured
    ├── RunnerError               1  the engine under test misbehaved on a usable device
    │   ├── RunnerCrashed            a signal, or an exit code outside the contract
    │   ├── RunnerHung               no result before its deadline, though the device answers
    │   └── RunnerNonsense           its result breaks the runner contract
    └── InfraError                3  nothing is known about the engine
        ├── DeviceUnavailable        the device did not pass preflight, or vanished
        │   ├── DeviceUnauthorized      it does not know us, or we do not know it: a person must
        │   ├── HostKeyChanged          it shows another host key than before: a person must look
        │   ├── DeviceHeld              a person keeps it for themselves
        │   ├── DeviceQuarantined       it failed too often; it is probed before it is used again
        │   └── AdbServerReplaced       another adb of its host ended our server: no fault of the device
        ├── TransferError            a file arrived with another hash, or not at all
        │   └── TransferDamaged      what arrived from the device is not what is there
        ├── StorageFull              host or device has no room
        ├── LeaseLost                another holder has the device now
        ├── RunCancelled             somebody ended the run; who and why is in the message
        ├── BrokerError              the message broker cannot be reached
        └── StoreError               the relational store cannot be read or written
"""

from __future__ import annotations

from typing import ClassVar


class LockstepError(Exception):
    """Root of all errors a user can see.

    ``message`` says what is wrong, ``hint`` what to do next, ``fields`` carry facts
    (device, command, exit code, tail of stderr) for logs and the store.
    """

    exit_code: ClassVar[int] = 2
    status: ClassVar[str] = "infra"

    def __init__(self, message: str, *, hint: str = "", **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = {key: value for key, value in fields.items() if value is not None}

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.hint, self.fields))


def _rebuild(kind: type[LockstepError], message: str, hint: str, fields: dict[str, object]) -> LockstepError:
    return kind(message, hint=hint, **fields)


class UsageError(LockstepError):
    """The command line asks for something that does not exist."""


class ConfigError(LockstepError):
    """A configuration file is broken; the message names file, key path and the nearest known name."""


class ModelError(LockstepError):
    """A model file cannot be read, or claims what it does not hold."""


class BuildError(LockstepError):
    """The build command of an engine failed."""


class UnsupportedError(LockstepError):
    """A model, an operator or a backend is not supported there; the message names it."""

    exit_code = 3
    status = "unsupported"


class MissingToolError(LockstepError):
    """A program or a package is absent; the hint says what to type."""

    exit_code = 3


class TooHot(LockstepError):
    """A device is not known to be as cool as its case asks when the time for that is up: nothing was measured."""

    exit_code = 3
    status = "inconclusive"


class RunnerError(LockstepError):
    """The engine under test misbehaved on a device that is usable."""

    exit_code = 1
    status = "crashed"


class RunnerCrashed(RunnerError):
    """The runner died of a signal or left with an exit code outside the contract."""


class RunnerHung(RunnerError):
    """The runner gave no result before its deadline though the device still answers."""


class RunnerNonsense(RunnerError):
    """The runner's result breaks the runner contract."""


class InfraError(LockstepError):
    """Nothing is known about the engine: the farm itself failed."""

    exit_code = 3


class DeviceUnavailable(InfraError):
    """The device did not pass preflight, or vanished."""


class DeviceUnauthorized(DeviceUnavailable):
    """The device does not accept us, or its host key is unknown: a person must let us in."""


class HostKeyChanged(DeviceUnavailable):
    """The device shows another host key than the known one: only a person can say that this is right."""


class DeviceHeld(DeviceUnavailable):
    """A person keeps the device for themselves."""


class DeviceQuarantined(DeviceUnavailable):
    """The device failed too often of late and has not passed a probe since."""


class AdbServerReplaced(DeviceUnavailable):
    """Another adb of the device's host ended our server in the middle of an attempt: no fault of the device."""


class TransferError(InfraError):
    """A file arrived with another hash, or not at all."""


class TransferDamaged(TransferError):
    """What arrived from the device is not what lies there: the link or the storage, never the engine."""


class StorageFull(InfraError):
    """The host or the device has no room left."""


class LeaseLost(InfraError):
    """Another holder has the device now; what this holder measured is not stored."""


class RunCancelled(InfraError):
    """Somebody ended the run before its jobs had ended."""


class BrokerError(InfraError):
    """The message broker cannot be reached."""


class StoreError(InfraError):
    """The relational store cannot be read or written."""
