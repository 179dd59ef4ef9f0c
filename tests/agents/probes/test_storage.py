from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.probes._text import Unknown
from agents.probes.storage import Storage, parse
from agents.readings import Place, take
from tests.agents.shells import Shell

TOYBOX = "Filesystem 1024-blocks Used Available Capacity Mounted\n/dev/fuse 115249236 9000000 106249236 8% /storage\n"
MOUNTS = "ext4 ro,seclabel /\nfuse rw,nosuid,nodev,noexec /storage/emulated\nf2fs rw,nosuid /storage\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
def test_the_deepest_mount_counts(ending: str) -> None:
    reading = parse(f"@room\n{TOYBOX}@mounts\n{MOUNTS}@end\n".replace("\n", ending))
    assert reading == Storage(115249236, 106249236, "fuse", "/storage/emulated", ("rw", "nosuid", "nodev", "noexec"))
    assert reading.executable is False
    assert reading.writable is True


def test_of_two_mounts_on_one_place_the_later_lies_on_top() -> None:
    reading = parse(f"@room\n{TOYBOX}@mounts\next4 rw,noexec /data\next4 rw /data\n")
    assert isinstance(reading, Storage)
    assert reading.executable is True


def test_without_mounts_it_is_not_known_whether_programs_run() -> None:
    reading = parse(f"@room\n{TOYBOX}")
    assert isinstance(reading, Storage)
    assert reading.executable is None
    assert reading.flat()["storage_executable"] is None


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("", "df: no answer"),
        ("@room\ndf: /data/secret: Permission denied\n", "df: permission denied"),
        ("@room\nsh: df: not found\n", "df: no such command"),
    ],
)
def test_without_room_there_is_a_reason(told: str, reason: str) -> None:
    assert parse(told) == Unknown(reason)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for told in (text, f"@room\n{text}", f"@room\n{TOYBOX}@mounts\n{text}"):
        reading = parse(told)
        assert isinstance(reading, Unknown) or reading.free_kib >= 0


def test_a_real_folder_is_read_in_the_shells_of_devices(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    reading = take(shell.script, ["storage"], Place(str(tmp_path / "a folder")))["storage"]
    assert isinstance(reading, Storage)
    assert 0 < reading.free_kib <= reading.total_kib
    assert reading.writable is True
    assert reading.executable is True
