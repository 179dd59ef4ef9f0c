"""Files that only the user reads, and children that end with their parent."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.supervising import write_private


def test_a_private_file_is_nobody_else_s_even_if_it_was(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        write_private(path, "new")
    finally:
        os.umask(before)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / ".secret.new").symlink_to(other)
    write_private(tmp_path / "secret", "new")
    assert other.read_text() == "mine"


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal of a parent is Linux's")
def test_a_child_ends_with_its_parent_however_that_ends() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess as s; from engine.supervising import end_with_parent as e; "
         "print(s.Popen(['sleep', '600'], preexec_fn=e).pid, flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdout is not None
    assert parent.stdin is not None
    child = int(parent.stdout.readline())
    fd = os.pidfd_open(child)
    try:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert select.select([fd], [], [], 20)[0], "the child has ended"
    finally:
        os.close(fd)
        parent.stdin.close()
        parent.stdout.close()
