from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.base import Completed
from agents.localshell import local_script
from agents.probes._text import Unknown
from agents.readings import Place, all_probes, answers, every_run, flat, joined, take
from engine.contract.errors import DeviceUnavailable
from tests.agents.shells import NAMES, Shell, shell_named


@pytest.fixture(params=NAMES)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return shell_named(request.param, tmp_path / "tools")


def test_probes_are_found_by_their_files() -> None:
    files = {path.stem for path in (Path(__file__).parents[2] / "agents" / "probes").glob("[a-z]*.py")}
    assert set(all_probes()) == files
    assert set(every_run()) == {"battery", "clocks", "peak", "skew", "storage", "thermal"}


def test_all_probes_answer_in_one_round_trip_in_the_shells_of_devices(shell: Shell) -> None:
    trips = []

    def counted(text: str, *arguments: str, seconds: float) -> Completed:
        trips.append(text)
        return shell.script(text, *arguments, seconds=seconds)

    found = take(counted, all_probes(), Place("/"), pid=1)
    assert len(trips) == 1
    assert set(found) == set(all_probes())
    assert all("did not arrive" not in reading.reason for reading in found.values() if isinstance(reading, Unknown))
    told = flat(found)
    assert told["cores"]
    assert told["storage_total_mib"]
    assert told["clock_skew_seconds"] is not None


def test_a_device_where_nothing_is_to_be_read_answers_every_probe(shell: Shell, tmp_path: Path) -> None:
    nowhere = Place(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c"))
    found = take(shell.script, all_probes(), nowhere, pid=1)
    assert not [name for name, told in found.items() if isinstance(told, Unknown) and "not arrive" in told.reason]
    assert {"battery", "clocks", "memory", "peak", "storage", "thermal"} == {
        name for name, told in found.items() if isinstance(told, Unknown)
    }


def test_the_script_of_a_trip_is_a_constant() -> None:
    assert joined(("skew", "storage")) == joined(("skew", "storage"))
    texts = []

    def seen(text: str, *arguments: str, seconds: float) -> Completed:
        texts.append(text)
        return local_script(text, *arguments, seconds=seconds)

    for folder in ("/tmp", "/a folder; rm -rf x"):
        take(seen, ["storage"], Place(folder))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("folder", ["/no such", "a'b", 'a"b$(id)`id`', "; echo MARK"])
def test_a_strange_folder_is_a_value_and_never_a_command(shell: Shell, folder: str) -> None:
    found = take(shell.script, ["storage", "clocks"], Place(folder))
    assert isinstance(found["storage"], Unknown)
    assert not isinstance(found["clocks"], Unknown)


def test_a_probe_that_prints_another_s_name_cannot_answer_for_it() -> None:
    def liar(text: str, mark: str, *arguments: str, seconds: float) -> Completed:
        forged = "storage\n@room\nx 1 1 1 1% /\n"
        return Completed(0, f"{mark} thermal\nMARK {forged}{'0' * 16} {forged}{mark} end\n".encode(), b"", 0.0)

    found = take(liar, ["thermal", "storage"], Place("/"))
    assert found["storage"] == Unknown("its answer did not arrive")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
def test_answers_are_told_apart_whatever_lines_end_with(ending: str) -> None:
    text = ending.join(["hello", "m a", "1", "m b", "m a", "2", "m end", ""])
    found = {name: answer.replace("\r", "") for name, answer in answers(text, "m").items()}
    assert found == {"a": "1\n2\n", "b": "", "end": ""}


@given(st.binary())
def test_no_answer_breaks_a_trip(told: bytes) -> None:
    def device(text: str, mark: str, *arguments: str, seconds: float) -> Completed:
        before = b"".join(b"%s %s\n%s\n" % (mark.encode(), name.encode(), told) for name in all_probes())
        return Completed(1, before, b"", 0.0)

    flat(take(device, all_probes(), Place("/")))


def test_a_cut_answer_is_unknown_and_never_half_a_reading() -> None:
    def tail(text: str, *arguments: str, seconds: float) -> Completed:
        done = local_script(text, *arguments, seconds=seconds)
        return Completed(done.exit_code, done.stdout[-120:], done.stderr, done.seconds)

    found = take(tail, ["clocks", "fingerprint", "storage"], Place("/"))
    assert found["clocks"] == found["fingerprint"] == Unknown("its answer did not arrive")


def test_a_device_that_hangs_is_unavailable() -> None:
    with pytest.raises(DeviceUnavailable, match="pi: no answer within"):
        local_script("sleep 600", seconds=0.05, name="pi")


def test_an_unknown_reading_is_null_with_its_reason() -> None:
    assert flat({"thermal": Unknown("permission denied")}) == {"thermal": None, "thermal_reason": "permission denied"}
