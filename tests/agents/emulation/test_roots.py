"""The root of a device where overlays cannot be stacked: a copy, and otherwise the same device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.emulation import kernel
from agents.emulation.roots import remove_tree, tree_of
from agents.emulation.spec import Spec
from engine.contract.errors import UsageError

#: A folder that lies on an overlay itself, as everything in a container does.
PROGRAM = """
import sys
from pathlib import Path
from agents.emulation import kernel
from agents.emulation.spec import Spec
from agents.emulation.units import start
base = Path(sys.argv[1])
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", Path("/"), flags=kernel.MS_REC | kernel.MS_PRIVATE)
for name in ("lower", "upper", "work", "over"):
    (base / name).mkdir()
options = f"lowerdir={base}/lower,upperdir={base}/upper,workdir={base}/work"
kernel.mount("overlay", base / "over", "overlay", data=options)
unit = start(Spec("phone", "adb", "x86-64"), base / "over/phone", orphan="dies", progress=print)
print((unit.folder / "root/usr/bin/toybox").is_file(), (unit.root / "data/local/tmp").is_dir())
unit.reboot()
print(unit.alive)
unit.down()
print(sorted(path.name for path in (base / "over").iterdir()))
"""


@pytest.mark.adb
@pytest.mark.skipif(not kernel.privileged(), reason="only root may mount an overlay outside of a device")
def test_without_overlays_the_files_are_copied(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["phone: no overlayfs here: copying its files", "True True", "True", "[]"]


@pytest.mark.qemu
def test_a_cpu_that_qemu_does_not_have_is_told_with_the_nearest() -> None:
    with pytest.raises(
        UsageError, match=r"phone: qemu has no Arm CPU named 'cortex-a54': did you mean cortex-a5"
    ) as told:
        tree_of(Spec("phone", "adb", "arm64", "cortex-a54"), lambda _: None)
    assert "neoverse-n1" in told.value.hint
    assert tree_of(Spec("phone", "adb", "arm64", "max,sve=off"), lambda _: None).is_dir()


def test_a_folder_that_allows_nobody_in_is_removed(tmp_path: Path) -> None:
    closed = tmp_path / "device/work/work"
    (closed / "inner").mkdir(parents=True)
    (tmp_path / "outside").mkdir(mode=0o755)
    (tmp_path / "device/link").symlink_to(tmp_path / "outside")
    closed.chmod(0)
    remove_tree(tmp_path / "device")
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o755
