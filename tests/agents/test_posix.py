"""Where a device's folder may be: found by running something there."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.ssh import PLACES
from engine.contract.errors import DeviceUnavailable
from tests.agents.shellagent import ShellAgent, shell_agent

SHELLS = ["dash", "busybox", "toybox"]


@dataclass
class Choosing(ShellAgent):
    """Opens the first usable of ``named`` and then of ``places``, which the link was not given."""

    places: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    def _connect(self) -> None:
        self._open_folder(*self.named, own=self.places)


def choosing(kind: str, tmp_path: Path, places: tuple[str, ...], noexec: Path | None = None) -> Choosing:
    """An agent of that user land; ``noexec`` is mounted without execution, in a namespace of each of its scripts."""
    plain = shell_agent(kind, tmp_path / "unused", tmp_path)
    shell = plain.shell
    if noexec is not None:
        noexec.mkdir()
        shell = ("/usr/bin/unshare", "-Urm", "/bin/sh", "-c", _MOUNT, str(noexec), *shell)
    return Choosing(kind, "x86-64", shell=shell, tools=plain.tools, places=places)


#: $0 is the place to mount, then a command.
_MOUNT = (
    'before=$PATH; PATH=/usr/sbin:/usr/bin:/sbin:/bin; mount -t tmpfs -o noexec none "$0" && PATH=$before exec "$@"'
)


def can_mount() -> bool:
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /tmp"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.skipif(not can_mount(), reason="this kernel lets nobody mount in a namespace of their own")
@pytest.mark.parametrize("kind", SHELLS)
def test_a_home_without_execution_is_passed_over(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    with choosing(kind, tmp_path, (f"{home}/lockstep", f"{tmp_path}/var"), noexec=home) as agent:
        assert agent._root == f"{tmp_path}/var"
        assert (tmp_path / "var").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not can_mount(), reason="this kernel lets nobody mount in a namespace of their own")
@pytest.mark.parametrize("kind", SHELLS)
def test_a_named_folder_without_execution_is_refused_with_the_next_step(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "home"
    agent = choosing(kind, tmp_path, (), noexec=home)
    agent.named = (f"{home}/lockstep",)
    with pytest.raises(DeviceUnavailable, match=r"its folder .*home/lockstep \(not executable here\)") as caught, agent:
        pass
    assert caught.value.hint.startswith("name another folder")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("kind", SHELLS)
def test_a_folder_that_somebody_else_prepared_is_passed_over(tmp_path: Path, kind: str) -> None:
    (tmp_path / "others").mkdir()
    os.chown(tmp_path / "others", 12345, 12345)
    with choosing(kind, tmp_path, (f"{tmp_path}/others", f"{tmp_path}/mine")) as agent:
        assert agent._root == f"{tmp_path}/mine"
    assert list((tmp_path / "others").iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link away")
@pytest.mark.parametrize("kind", SHELLS)
def test_only_a_link_of_our_own_leads_to_the_folder(tmp_path: Path, kind: str) -> None:
    (tmp_path / "large").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "large")
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    with choosing(kind, tmp_path, (f"{tmp_path}/link", f"{tmp_path}/mine")) as agent:
        assert agent._root == f"{tmp_path}/mine"
        assert (tmp_path / "large").stat().st_mode & 0o777 == 0o755
    os.chown(tmp_path / "link", 0, 0, follow_symlinks=False)
    with choosing(kind, tmp_path / "mine", (f"{tmp_path}/link",)) as agent:
        assert agent._root == f"{tmp_path}/large"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("kind", SHELLS)
def test_a_named_folder_may_be_somebody_elses_and_the_rest_may_not(tmp_path: Path, kind: str) -> None:
    for name in ("named", "others"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, 12345, 12345)
    agent = choosing(kind, tmp_path, (f"{tmp_path}/others", f"{tmp_path}/mine"))
    agent.named = (f"{tmp_path}/named",)
    with agent:
        assert agent._root == f"{tmp_path}/named"
    agent.named = ("/proc/lockstep",)
    with agent:
        assert agent._root == f"{tmp_path}/mine"


@pytest.mark.parametrize("kind", SHELLS)
def test_nobody_else_can_write_to_a_folder_that_was_made_here(tmp_path: Path, kind: str) -> None:
    before = os.umask(0)  # as adbd's is
    try:
        agent = choosing(kind, tmp_path, ())
        agent.named = (f"{tmp_path}/data/lockstep",)
        with agent:
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "data/lockstep").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("kind", SHELLS)
def test_every_place_is_told_with_its_reason(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    agent = choosing(kind, tmp_path, (f"{tmp_path}/file/a", f"{tmp_path}/file/b"))
    with pytest.raises(
        DeviceUnavailable, match=r"file/a \(.*Not a directory.*\); .*file/b \(.*Not a directory"
    ) as caught:
        agent.__enter__()
    assert "`folder` of the link" in caught.value.hint


def test_the_usual_places_end_where_anybody_may_write() -> None:
    assert [place.format(user="pi") for place in PLACES] == ["lockstep", "/var/tmp/lockstep-pi", "/tmp/lockstep-pi"]
