"""The root of an emulated device: a shared tree under an overlay of its own, or a copy where there are no overlays."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from agents.emulation import android, kernel, linux
from agents.emulation.boot import Boot
from agents.emulation.spec import Kind, Spec
from engine.contract.errors import UsageError
from engine.debian import Progress, unpack
from engine.places import cache_root
from engine.toolchain import emulator, package_group

KINDS: Mapping[Kind, ModuleType] = {"adb": android, "ssh": linux}
_GROUPS: Mapping[Kind, str] = {"adb": "android", "ssh": "linux"}


def tree_of(spec: Spec, progress: Progress) -> Path:
    """The packages of its kind and ABI, unpacked into the cache now unless they are there.

    UsageError when qemu has no CPU of that name.
    """
    if spec.abi == "arm64":
        unpack(package_group("emulators"), cache_root(), progress)
        _check_cpu(spec)
    return unpack(package_group(f"{_GROUPS[spec.kind]}-{spec.abi}"), cache_root(), progress)


def _check_cpu(spec: Spec) -> None:
    listing = subprocess.run([emulator("qemu-aarch64"), "-cpu", "help"], capture_output=True, text=True, check=False)
    known = [line.split()[0] for line in listing.stdout.splitlines() if line.startswith("  ")]
    name = spec.chip.partition(",")[0]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise UsageError(
            f"{spec.name}: qemu has no Arm CPU named {name!r}" + (f": did you mean {near[0]}?" if near else ""),
            hint=f"it has: {', '.join(known)}",
        )


def make_root(folder: Path, tree: Path, spec: Spec, *, overlay: bool, own_users: bool) -> Boot:
    """Lay out a device's files in a new ``folder``, and say how to boot them."""
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o755)
    if not overlay:
        subprocess.run(["cp", "-a", "--reflink=auto", f"{tree}/.", folder / "root"], check=True)
    kind = KINDS[spec.kind]
    kind.furnish(folder / ("upper" if overlay else "root"), spec)
    boot = Boot(
        root=str(folder / "root"),
        lower=str(tree) if overlay else "",
        upper=str(folder / "upper"),
        work=str(folder / "work"),
        hostname=spec.name,
        rootless=not kernel.privileged(),
        own_users=own_users,
        interpreters={"aarch64": str(emulator("qemu-aarch64"))} if spec.abi == "arm64" else {},
    )
    made: Boot = kind.furnished(boot, spec)
    return made


def remove_tree(folder: Path) -> None:
    """Remove a device's files; overlayfs leaves a folder behind that allows nobody in."""
    for base, names, _ in os.walk(folder):
        for name in names:
            path = Path(base) / name
            if not path.is_symlink():
                path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
