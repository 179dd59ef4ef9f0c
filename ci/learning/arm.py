"""ONNX Runtime's aarch64 wheel on an emulated Arm chip: an arm64 interpreter and the wheels of the lock file.

Both are unpacked into the cache when they are first asked for; nothing is installed.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.contract.errors import BuildError, ConfigError
from engine.debian import unpack
from engine.locking import exclusive
from engine.places import cache_root
from engine.toolchain import package_group

GROUP, PYTHON = "python-arm64", "3.11"
#: What the example runners import, and what that imports.
WHEELS = (
    *("flatbuffers", "ml-dtypes", "numpy", "onnx", "onnxruntime", "packaging", "protobuf", "typing-extensions"),
    "xxhash",
)
SECONDS = 600
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==.*(?:\n[ \t]+--hash=.*)+", re.MULTILINE)


@dataclass(frozen=True)
class ArmPython:
    """``program`` runs under qemu-aarch64 when ``environment`` is set."""

    program: Path
    environment: dict[str, str]


def arm_python(root: Path, report: Callable[[str], None]) -> ArmPython:
    """The interpreter and its packages, at the versions of ``root``/requirements.lock.

    ``MissingToolError`` without a Debian mirror, ``BuildError`` without the wheels.
    """
    tree = unpack(package_group(GROUP), cache_root(), report)
    wanted = requirements((root / "requirements.lock").read_text(encoding="utf-8"))
    folder = cache_root() / "wheels" / f"{GROUP}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        with exclusive(cache_root() / "wheels" / f".{folder.name}.lock"):
            if not folder.is_dir():
                report(f"{GROUP}: wheels of {', '.join(WHEELS)}")
                _install(wanted, folder)
    environment = {"QEMU_LD_PREFIX": str(tree), "PYTHONPATH": str(folder), "ORT_DISABLE_TELEMETRY": "1"}
    return ArmPython(tree / "usr" / "bin" / f"python{PYTHON}", environment)


def requirements(lock: str) -> str:
    """The entries of ``WHEELS`` in a lock file, with their hashes; ``ConfigError`` names one that is not there."""
    entries = [(match[1], match[0]) for match in _ENTRY.finditer(lock)]  # a name may have one for each Python
    missing = set(WHEELS) - {name for name, _ in entries}
    if missing:
        raise ConfigError(f"requirements.lock has no {', '.join(sorted(missing))}", hint="type: make lock")
    return "".join(f"{entry}\n" for name, entry in entries if name in WHEELS)


def _install(wanted: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as scratch:
        listing, target = Path(scratch) / "requirements.txt", Path(scratch) / "site"
        listing.write_text(wanted, encoding="utf-8")
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(target)]
        command += ["--python-platform", "aarch64-unknown-linux-gnu", "--python-version", PYTHON, "--no-deps"]
        command += ["--only-binary", ":all:", "--require-hashes", "--requirement", str(listing)]
        environment = {**os.environ, "UV_CACHE_DIR": str(cache_root() / "uv")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
        if done.returncode:
            raise BuildError(
                f"the aarch64 wheels cannot be had: {done.stderr.strip()[-600:]}",
                hint="is there a package index? --host-only learns without other chips",
                exit_code=done.returncode,
            )
        target.rename(folder)
