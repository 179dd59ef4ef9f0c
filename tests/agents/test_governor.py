"""Governors are set and come back; case C12 of the acceptance cases, in the shells that devices have."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.base import Completed
from agents.governor import governor, restore_left_over
from agents.probes.clocks import RECORD
from agents.readings import Place
from engine.contract.errors import DeviceUnavailable
from tests.agents.shells import NAMES, Shell, shell_named, tree_of

MIXED = ["schedutil", "schedutil", "schedutil", "schedutil", "walt", "walt", "OFFLINE", "walt"]


@pytest.fixture(params=NAMES)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return shell_named(request.param, tmp_path / "tools")


class Phone:
    """A folder tree shaped like sysfs: one core a governor; ``OFFLINE`` has no node, as in the kernel."""

    def __init__(self, root: Path, governors: list[str]) -> None:
        self.cpus = root / "sys/devices/system/cpu"
        for number, told in enumerate(governors):
            self.set(number, told)
        home = root / "device home"
        home.mkdir(parents=True)
        self.record = home / RECORD
        self.place = Place(str(home), "/proc", str(root / "sys"))

    def node(self, number: int) -> Path:
        return self.cpus / f"cpu{number}" / "cpufreq" / "scaling_governor"

    def set(self, number: int, told: str) -> None:
        """Bring a core online with a governor, or take it offline."""
        core = f"cpu{number}"
        tree_of(self.cpus, {f"{core}/online": "0\n" if told == "OFFLINE" else "1\n"})
        if told == "OFFLINE":
            self.node(number).unlink(missing_ok=True)
        else:
            tree_of(self.cpus, {f"{core}/cpufreq/scaling_governor": f"{told}\n"})

    def governors(self) -> list[str]:
        cores = sorted(self.cpus.glob("cpu[0-9]*"), key=lambda path: int(path.name[3:]))
        nodes = [core / "cpufreq" / "scaling_governor" for core in cores]
        return [node.read_text().strip() if node.exists() else "OFFLINE" for node in nodes]


def asked(before: list[str], wanted: str = "performance") -> list[str]:
    return [told if told == "OFFLINE" else wanted for told in before]


def test_each_core_returns_to_its_own_governor(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, MIXED)
    with governor(shell.script, "performance", phone.place) as held:
        assert phone.governors() == asked(MIXED)
        assert held.changed == {f"cpu{n}": told for n, told in enumerate(MIXED) if told != "OFFLINE"}
        assert held.notes == ["cpu6 is offline: skipped"]
    assert phone.governors() == MIXED
    assert held.notes == ["cpu6 is offline: skipped"]
    assert list(phone.record.parent.iterdir()) == []


@pytest.mark.parametrize("error", [RuntimeError("the run failed"), KeyboardInterrupt(), SystemExit(1)])
def test_each_core_returns_to_its_own_governor_after_an_abort(
    shell: Shell, tmp_path: Path, error: BaseException
) -> None:
    phone = Phone(tmp_path, MIXED)

    def run() -> None:
        with governor(shell.script, "performance", phone.place):
            assert phone.governors() == asked(MIXED)
            raise error

    with pytest.raises(type(error)):
        run()
    assert phone.governors() == MIXED
    assert not phone.record.exists()


class Cut:
    """A link over which ``calls`` scripts run and no more."""

    def __init__(self, shell: Shell, calls: int) -> None:
        self.shell, self.left = shell, calls

    def script(self, text: str, *arguments: str, seconds: float) -> Completed:
        self.left -= 1
        if self.left < 0:
            raise DeviceUnavailable("phone: the link was lost")
        return self.shell.script(text, *arguments, seconds=seconds)


def test_the_next_lease_puts_back_what_a_dead_holder_left(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, MIXED)
    with governor(Cut(shell, 1).script, "performance", phone.place) as held:
        pass
    assert held.notes[-1] == "the governors could not be put back: the next lease does it"
    assert phone.governors() == asked(MIXED)
    assert restore_left_over(shell.script, phone.place) == []
    assert phone.governors() == MIXED
    assert not phone.record.exists()


def test_an_error_of_the_run_is_not_hidden_by_a_lost_link(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, MIXED)
    with pytest.raises(RuntimeError, match="the run failed"), governor(Cut(shell, 1).script, "powersave", phone.place):
        raise RuntimeError("the run failed")


def test_who_sets_over_a_dead_holder_s_record_still_knows_the_first_governors(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, MIXED)
    with governor(Cut(shell, 1).script, "performance", phone.place):
        pass
    with governor(shell.script, "powersave", phone.place) as held:
        assert phone.governors() == asked(MIXED, "powersave")
        assert set(held.changed.values()) == {"schedutil", "walt"}
    assert phone.governors() == MIXED


def test_a_core_that_went_offline_meanwhile_is_put_back_by_who_comes_when_it_is_online(
    shell: Shell, tmp_path: Path
) -> None:
    phone = Phone(tmp_path, MIXED)
    with governor(shell.script, "performance", phone.place) as held:
        phone.set(7, "OFFLINE")
    assert held.notes[-1] == "cpu7 is not back at walt (offline, or not allowed): the next lease tries again"
    with governor(shell.script, "powersave", phone.place):  # it is still offline for a whole lease
        pass
    assert phone.record.exists()
    phone.set(7, "performance")
    with governor(shell.script, "powersave", phone.place):
        assert phone.governors() == asked(MIXED, "powersave")
    assert phone.governors() == MIXED
    assert not phone.record.exists()


def test_a_holder_that_lost_its_lease_leaves_the_next_one_alone(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, MIXED)
    with governor(shell.script, "performance", phone.place) as late:
        with governor(Cut(shell, 1).script, "powersave", phone.place):
            now = phone.governors()
        assert now == phone.governors()
    assert late.notes[-1] == "the record of governors is another holder's by now: left alone"
    assert phone.governors() == asked(MIXED, "powersave")
    assert restore_left_over(shell.script, phone.place) == []
    assert phone.governors() == MIXED


def test_without_permission_there_is_a_note_and_no_failure(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, ["schedutil", "schedutil"])
    phone.node(1).unlink()
    phone.node(1).symlink_to("/proc/sys/kernel/ostype")  # nobody can write it, not even root
    with governor(shell.script, "performance", phone.place) as held:
        assert phone.governors() == ["performance", "Linux"]
    assert held.changed == {"cpu0": "schedutil"}
    assert len(held.notes) == 1
    assert held.notes[0].startswith("cpu1 stays at Linux: ")
    assert phone.governors() == ["schedutil", "Linux"]
    assert not phone.record.exists()


def test_cores_without_governors_are_skipped_with_a_note(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, [])
    tree_of(phone.cpus, {"cpu0/topology/core_id": "0", "cpuidle/none": ""})
    with governor(shell.script, "performance", phone.place) as held:
        assert held.changed == {}
    assert held.notes == ["cpu0 has no governor: skipped"]


def test_nothing_is_changed_that_cannot_be_recorded(shell: Shell, tmp_path: Path) -> None:
    phone = Phone(tmp_path, MIXED)
    place = Place("/proc", "/proc", phone.place.sys)
    with governor(shell.script, "performance", place) as held:
        assert phone.governors() == MIXED
    assert "no governor was changed" in held.notes[-1]


@pytest.mark.parametrize("line", ["cpu0/../../../../../escape walt", "../escape walt", "cpu walt", "cpu1x walt", ""])
def test_a_record_that_somebody_wrote_reaches_no_other_file(shell: Shell, tmp_path: Path, line: str) -> None:
    phone = Phone(tmp_path, ["schedutil"])
    outside = tree_of(tmp_path / "sys", {"escape/cpufreq/scaling_governor": "mine\n"})
    phone.record.write_text(f"owner x\n{line}\n")
    assert restore_left_over(shell.script, phone.place) == []
    assert (outside / "escape/cpufreq/scaling_governor").read_text() == "mine\n"


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from(["schedutil", "walt", "interactive", "performance", "OFFLINE"]), min_size=1, max_size=12)
)
def test_whatever_the_cores_had_comes_back(tmp_path_factory: pytest.TempPathFactory, before: list[str]) -> None:
    root = tmp_path_factory.mktemp("phone")
    phone, dash = Phone(root, before), shell_named("dash", root / "tools")
    with governor(dash.script, "performance", phone.place):
        assert phone.governors() == asked(before)
    assert phone.governors() == before
    assert not phone.record.exists()
