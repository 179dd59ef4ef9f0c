"""What the kernel does not allow is named, with the next step."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents.emulation import capabilities
from agents.emulation.capabilities import explain
from tests.agents.emulation.allowed import user_namespaces


def sysctl(folder: Path, name: str, value: str) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"{value}\n")
    return folder


@pytest.fixture(params=[True, False], ids=["root", "user"])
def root(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: 0 if request.param else 1000)
    return bool(request.param)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    ],
)
def test_the_setting_that_forbids_it_is_named(name: str, value: str, words: str, root: bool, tmp_path: Path) -> None:
    report = {"failed": "user namespace", "errno": 1, "detail": "Operation not permitted"}
    error = explain("phone", report, "", sysctl(tmp_path, name, value))
    assert error.message == "phone: user namespaces are not allowed here (Operation not permitted)"
    assert error.hint == f"as root: {words}" + ("" if root else "; or run `lockstep emulate` as root")


def test_without_a_setting_to_blame_the_container_is(root: bool, tmp_path: Path) -> None:
    error = explain("phone", {"failed": "proc", "detail": "Operation not permitted"}, "", tmp_path)
    assert "a new /proc cannot be mounted" in error.message
    assert "--privileged" in error.hint
    assert ("as root" in error.hint) is not root


def test_an_old_kernel_is_named_where_a_foreign_cpu_is_the_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(capabilities.platform, "release", lambda: "6.1.0-13-amd64")
    error = explain("phone", {"failed": "binfmt", "detail": "Operation not permitted"}, "", tmp_path)
    assert "this kernel is 6.1.0-13-amd64, it takes 6.7 or newer" in error.hint
    assert "--adb-arm64 0 --ssh-arm64 0" in error.hint


def test_a_daemon_that_does_not_start_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    error = explain("phone", {"failed": "daemon", "detail": "it accepts no connection"}, "one\ntwo\n", tmp_path)
    assert error.message == ("phone: the emulated device did not start: it accepts no connection\n    one\n    two")


def test_a_chroot_without_a_mount_is_told_apart_from_a_forbidden_mount(tmp_path: Path) -> None:
    error = explain("phone", {"failed": "mount", "errno": 22, "detail": "Invalid argument"}, "", tmp_path)
    assert "the root folder here is no mount point" in error.message
    assert error.hint == "before entering it: mount --bind FOLDER FOLDER"
    assert "no mount point" not in explain("phone", {"failed": "mount", "errno": 1}, "", tmp_path).message


@pytest.mark.skipif(not user_namespaces(), reason="no user namespaces here")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can forbid itself user namespaces, in one of its own")
def test_a_kernel_that_allows_no_more_user_namespaces_is_told_by_a_real_start(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from agents.emulation.units import start;"
        "from agents.emulation.spec import Spec; from engine.contract.errors import LockstepError\n"
        "try: start(Spec('phone', 'adb', 'x86-64'), Path(sys.argv[1]) / 'phone')\n"
        "except LockstepError as error: print(error)"
    )
    forbidding = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = ["unshare", "-U", "--map-root-user", "sh", "-c", forbidding, "sh", sys.executable, "-c", program]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True)
    assert "phone: user namespaces are not allowed here ([Errno 28] No space left on device" in done.stdout
    assert "next: as root: sysctl user.max_user_namespaces=10000" in done.stdout
    assert not (tmp_path / "phone").exists()
