from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.probes._text import Unknown
from agents.probes.peak import RECORD, SAMPLER, Peak, parse
from agents.readings import Place, take
from tests.agents.shells import Shell

HELD_MIB = 64
#: Says that it holds its memory, then waits until it is let go.
HOLDER = f"held = bytearray(b'x' * ({HELD_MIB} << 20)); print('held', flush=True); input()"


@pytest.mark.parametrize(
    ("told", "reading"),
    [
        ("5000 1000 3\n", Peak(5000, 1000, 3)),
        ("5000 1000 3\r\r\n", Peak(5000, 1000, 3)),
        ("5000 0 3\n", Peak(5000, None, 3)),
        ("0 0 0\n", Unknown("the runner ended before its memory was read")),
        ("", Unknown("the runner ended before its memory was read")),
        ("5000 1000", Unknown("the runner ended before its memory was read")),
        ("-1 5 5", Unknown("the runner ended before its memory was read")),
    ],
)
def test_the_record_is_read(told: str, reading: Peak | Unknown) -> None:
    assert parse(told) == reading


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    reading = parse(text)
    assert isinstance(reading, Unknown) or reading.rss_kib > 0


def test_a_record_is_read_once(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text("5000 1000 3\n")
    place = Place(str(tmp_path))
    assert take(shell.script, ["peak"], place)["peak"] == Peak(5000, 1000, 3)
    assert isinstance(take(shell.script, ["peak"], place)["peak"], Unknown)


def test_the_sampler_sees_what_a_program_holds_in_the_shells_of_devices(shell: Shell, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "held\n"
        watch = SAMPLER + 'program=$2; watch_memory "$1" & until [ -s "$1" ]; do :; done; kill $!\n'
        shell.script(watch, str(tmp_path / RECORD), str(held.pid), seconds=30)
        held.communicate("\n")
    reading = take(shell.script, ["peak"], Place(str(tmp_path)))["peak"]
    assert isinstance(reading, Peak)
    assert reading.rss_kib >= HELD_MIB * 1024
    assert reading.pss_kib is not None
    assert HELD_MIB * 1024 <= reading.pss_kib <= reading.rss_kib


def test_the_sampler_ends_with_its_program_and_joins_earlier_peaks(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text("99999999 7 4\n")
    done = shell.script(SAMPLER + 'program=$$; sleep 3 & program=$!; watch_memory "$1"\n', str(tmp_path / RECORD),
                        seconds=30)  # fmt: skip
    assert done.exit_code == 0
    reading = take(shell.script, ["peak"], Place(str(tmp_path)))["peak"]
    assert isinstance(reading, Peak)
    assert reading.rss_kib == 99999999
    assert reading.samples > 4
