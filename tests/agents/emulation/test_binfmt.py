"""Without a user namespace, and so a binfmt_misc, of its own, a device of root uses the machine's, and cleans up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agents.emulation import kernel
from tests.agents.emulation.allowed import user_namespaces

#: A machine to itself: in a new user namespace with everybody in it, whose binfmt_misc is another than the real one's.
MACHINE = """
import os, sys
from pathlib import Path
from agents.emulation import kernel
from tests.agents.emulation.allowed import user_namespaces
maps = {name: kernel.same_numbers(name) for name in ("uid_map", "gid_map")}
mapped, done = os.pipe(), os.pipe()
child = os.fork()
if child:
    os.read(mapped[0], 1)
    for name, text in maps.items():
        Path(f"/proc/{child}", name).write_text(text)
    os.write(done[1], b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
kernel.unshare(kernel.CLONE_NEWUSER)
os.write(mapped[1], b"x")
os.read(done[0], 1)
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("binfmt_misc", Path("/proc/sys/fs/binfmt_misc"), "binfmt_misc")
Path("/proc/sys/user/max_user_namespaces").write_text("0")

from agents.emulation.spec import Spec
from agents.emulation.units import start

def registered():
    return sorted(set(os.listdir("/proc/sys/fs/binfmt_misc")) - {"register", "status"})

said = []
unit = start(Spec("phone", "adb", "arm64"), Path(sys.argv[1]) / "phone", orphan="dies", progress=said.append)
print(*said)
print(unit.alive, registered())
unit.reboot()
print(unit.alive, registered())
unit.down()
print(registered(), os.listdir(sys.argv[1]))
"""


@pytest.mark.skipif(not user_namespaces(()), reason="no user namespaces here")
@pytest.mark.adb
@pytest.mark.qemu
@pytest.mark.skipif(not kernel.privileged(), reason="only root may do without user namespaces")
def test_entries_are_named_for_the_device_and_go_with_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MACHINE, str(tmp_path)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "phone: no user namespace of its own here: this machine's users and binfmt_misc serve it",
        "True ['lockstep-phone-aarch64']",
        "True ['lockstep-phone-aarch64']",
        "[] []",
    ]
