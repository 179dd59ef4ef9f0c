"""Files to deploy, made on the spot, and what a device's folder holds of a bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from agents.deployment import Blob, BundleFiles
from agents.posix import PosixAgent


def blob_of(folder: Path, data: bytes, executable: bool = False) -> Blob:
    sha256 = hashlib.sha256(data).hexdigest()
    path = folder / f"{sha256[:16]}.host"
    path.write_bytes(data)
    return Blob(path, sha256, len(data), executable)


def bundle_of(folder: Path, files: Mapping[str, bytes]) -> BundleFiles:
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    return BundleFiles(digest, {name: blob_of(folder, data, name.startswith("bin/")) for name, data in files.items()})


def there(tmp_path: Path, bundle: BundleFiles) -> dict[str, bytes]:
    """The bundle as it lies in the device's folder ``tmp_path/device``."""
    root = tmp_path / "device/bundles" / bundle.digest
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def fill(agent: PosixAgent, folder: str) -> bool:
    """Write to a file below ``folder`` until the device's disk is full; whether it is."""
    text = 'cd -- "$1" && mkdir -p -- "$2" && cat /dev/zero >"$2/filler"'
    done = agent.run_script(text, agent.home, folder, seconds=60)
    return done.exit_code != 0 and b"o space left" in done.stderr
