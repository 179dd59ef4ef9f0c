"""Constant shell scripts on this host: how devices that live here answer their probes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

from agents.base import Completed
from engine.contract.errors import DeviceUnavailable

SHELL = "/bin/sh"


def local_script(
    text: str,
    *arguments: str,
    seconds: float,
    stdin: bytes = b"",
    name: str = "this host",
    shell: tuple[str, ...] = (SHELL,),
) -> Completed:
    """Run ``text`` with ``arguments`` as ``$1 $2 …``; DeviceUnavailable when it does not end in time."""
    begun = time.monotonic()
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    with subprocess.Popen(
        [*shell, "-c", text, "lockstep", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise DeviceUnavailable(
                f"{name}: no answer within {seconds:.0f} s",
                hint="is the machine overloaded or its storage failing? `lockstep doctor`",
                device=name,
            ) from error
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    return Completed(process.returncode, out, err, time.monotonic() - begun)
