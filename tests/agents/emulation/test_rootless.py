"""The same devices for somebody who is not root: as whoever runs the tests, or as a root stripped of its powers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.emulation.allowed import STRIPPED, user_namespaces

#: Started in a process of its own; prints what the device says of itself.
PROGRAM = """
import sys
from pathlib import Path
import adbutils
from agents.emulation import kernel
from tests.agents.adbd import running_adbd
from tests.agents.sshdevice import address_of, running_ssh_device
from agents.ssh import SshAgent
assert not kernel.privileged()
folder, abi = Path(sys.argv[1]), sys.argv[2]
with running_ssh_device(folder / "board", abi) as board:
    with SshAgent("board", abi, address=address_of(board)) as agent:
        agent.preflight()
        print(agent.run_script("id -un; uname -m", seconds=60).stdout.decode(), end="")
with running_adbd(folder / "phone", abi) as phone:
    print((phone.root / "system/bin/getprop").exists(), phone.status().line)
print(sorted(path.name for path in folder.iterdir()))
"""


@pytest.mark.skipif(not user_namespaces(), reason="no user namespaces here")
@pytest.mark.ssh
@pytest.mark.adb
@pytest.mark.qemu
@pytest.mark.parametrize(("abi", "machine"), [("x86-64", "x86_64"), ("arm64", "aarch64")])
def test_devices_start_and_end_without_root(abi: str, machine: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*STRIPPED, sys.executable, "-c", PROGRAM, str(tmp_path), abi],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["lockstep", machine, "True open", "[]"]
