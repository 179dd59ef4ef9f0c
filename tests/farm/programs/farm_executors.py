"""Executors for the tests of the farm; workers import them by name through PYTHONPATH.

``spec``: ``log`` (file that gets one JSON line at each start and end), ``seconds``, ``once`` (marker file), ``hold``
(while that file is there no job ends).
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from engine.contract.errors import DeviceUnavailable, RunnerCrashed, UnsupportedError


def _note(spec, what):
    line = {"what": what, "job": spec["job"], "attempt": spec["attempt"], "pid": os.getpid(), "at": time.time()}
    line |= {"device": spec["device"], "case": spec["case"]}
    fd = os.open(spec["log"], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(fd, (json.dumps(line) + "\n").encode())
    os.close(fd)


def _first_time(spec):
    try:
        Path(spec["once"]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def record(spec, guard):
    """Take ``seconds``, checking the guard often; a child process runs meanwhile."""
    _note(spec, "start")
    child = subprocess.Popen(["sleep", "600"])
    try:
        end = time.monotonic() + spec.get("seconds", 0.05)
        while time.monotonic() < end or ("hold" in spec and Path(spec["hold"]).exists()):
            guard()
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()
        _note(spec, "end")
    return {"case": spec["case"], "nan": float("nan")}


def kill_self_once(spec, guard):
    """Die with the whole worker at the first attempt."""
    _note(spec, "start")
    if _first_time(spec):
        os.kill(os.getpid(), signal.SIGKILL)
    _note(spec, "end")
    return {}


def kill_self_always(spec, guard):
    os.kill(os.getpid(), signal.SIGKILL)


def fail_by_case(spec, guard):
    """The case names the error."""
    match spec["case"]:
        case "flaky-infra" if spec["attempt"] == 1:
            raise DeviceUnavailable("device d is gone", hint="plug it in", device="d")
        case "infra":
            raise DeviceUnavailable("device d is gone", hint="plug it in", device="d", path=Path("x"))
        case "crash":
            raise RunnerCrashed("the runner died of SIGSEGV", hint="see its log", exit_code=-11)
        case "unsupported":
            raise UnsupportedError("no operator Foo", hint="leave it out")
        case "bug":
            return {}["absent"]
        case "not-json":
            return {"path": object()}
    return {}


def stubborn(spec, guard):
    """Never looks at the guard."""
    _note(spec, "start")
    time.sleep(spec["seconds"])
    _note(spec, "end")
    return {}


def fail_on_bad(spec, guard):
    """Devices called bad… are gone; the others answer."""
    _note(spec, "start")
    if spec["device"].startswith("bad"):
        raise DeviceUnavailable(f"{spec['device']} is gone", hint="plug it in", device=spec["device"])
    time.sleep(spec.get("seconds", 0.05))
    _note(spec, "end")
    return {"case": spec["case"], "token": spec["token"]}
