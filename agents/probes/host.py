"""What the host tells of itself: CPU, features, kernel, operating system."""

from __future__ import annotations

import functools
import hashlib
import platform
from pathlib import Path


@functools.cache
def host_facts() -> dict[str, str]:
    """Flat fingerprint facts of this host; absent readings are ``unknown``."""
    cpu, features = _cpuinfo(Path("/proc/cpuinfo"))
    return {
        "cpu": cpu,
        "cpu_features": features,
        "kernel": platform.release(),
        "os_build": _os_release(Path("/etc/os-release")),
        "drivers": "none",
    }


def _cpuinfo(path: Path) -> tuple[str, str]:
    """CPU name, and the digest of its sorted feature list (the list itself is long)."""
    name, flags = "unknown", ""
    try:
        for line in path.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and name == "unknown":
                name = value.strip()
            if key.strip() in ("flags", "Features", "isa") and not flags:
                flags = " ".join(sorted(value.split()))
    except OSError:
        return name, "unknown"
    return name, hashlib.sha256(flags.encode()).hexdigest()[:16] if flags else "unknown"


def _os_release(path: Path) -> str:
    try:
        for line in path.read_text().splitlines():
            if line.startswith("PRETTY_NAME="):
                return line.partition("=")[2].strip().strip('"')
    except OSError:
        pass
    return "unknown"
