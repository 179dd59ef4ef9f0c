from __future__ import annotations

from pathlib import Path

import pytest

from engine.contract.errors import ConfigError, UsageError
from farm.inventory import load_fleet

DEVICE = "{name: %s, chip: c, model: m, tier: low, abis: [arm64], memory_mb: 1, link: %s}"
REPOSITORY = Path(__file__).parents[2]


def fleet_of(folder: Path, *devices: str) -> Path:
    path = folder / "devices.yaml"
    path.write_text("devices:\n" + "".join(f"  - {device}\n" for device in devices))
    return path


def test_the_default_fleet_has_six_chips_in_three_tiers_each_with_a_path_of_its_own() -> None:
    fleet = load_fleet(REPOSITORY / "devices.yaml")
    assert len({device.chip for device in fleet.devices}) >= 6
    assert {device.tier for device in fleet.devices} == {"high", "mid", "low"}
    assert len({device.abis[0] for device in fleet.devices}) == len(fleet.devices)


def test_an_unknown_device_is_answered_with_the_nearest_name() -> None:
    fleet = load_fleet(REPOSITORY / "devices.yaml")
    with pytest.raises(UsageError, match=r"unknown device 'cortex-a35': did you mean 'cortex-a53'\?"):
        fleet.device("cortex-a35")


def test_a_name_given_twice_is_refused(tmp_path: Path) -> None:
    path = fleet_of(tmp_path, DEVICE % ("a", "{kind: emulated}"), DEVICE % ("a", "{kind: emulated}"))
    with pytest.raises(ConfigError, match="given twice: a"):
        load_fleet(path)


@pytest.mark.parametrize("name", ["../x", "a/b", "a:b", "'a b'", "''", "'.hidden'", "x" * 65])
def test_names_that_could_leave_a_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a plain name"):
        load_fleet(fleet_of(tmp_path, DEVICE % (name, "{kind: emulated}")))


def test_a_local_link_takes_no_emulator(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a local link has no emulator"):
        load_fleet(fleet_of(tmp_path, DEVICE % ("a", "{kind: local, emulator: qemu-arm}")))


def test_an_emulated_chip_never_counts_as_real() -> None:
    fleet = load_fleet(REPOSITORY / "devices.yaml")
    assert fleet.device("cortex-a53").emulated
    assert not fleet.device("x86-64-v3").emulated


def test_chip_and_model_make_the_name_of_expectations() -> None:
    assert load_fleet(REPOSITORY / "devices.yaml").device("cortex-a53").chip_model == "cortex-a53-qemu"


SSH = "{kind: ssh, host: 127.0.0.1, user: pi%s}"


def test_an_ssh_link_has_port_folder_and_known_hosts_unless_it_says_otherwise(tmp_path: Path) -> None:
    link = load_fleet(fleet_of(tmp_path, DEVICE % ("a", SSH % ""))).devices[0].link
    assert (link.port, link.folder, link.known_hosts, link.key) == (22, None, "~/.ssh/known_hosts", None)
    link = load_fleet(fleet_of(tmp_path, DEVICE % ("a", SSH % ", port: 2201, key: ~/.ssh/lab"))).devices[0].link
    assert (link.port, link.key) == (2201, "~/.ssh/lab")


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("{kind: ssh, user: pi}", "kind ssh needs host"),
        ("{kind: ssh}", "kind ssh needs host and user"),
        (SSH % ", emulator: qemu-arm", "kind ssh takes no emulator"),
        ("{kind: local, host: pi}", "kind local takes no host"),
        ("{kind: emulated, port: 22}", r"kind emulated takes no port \(it takes: cpu, emulator\)"),
        (SSH % ", prot: 22", "did you mean 'port'"),
        (SSH % ", port: 70000", "less than or equal to 65535"),
        ("{kind: ssh, host: '-oProxyCommand=x', user: pi}", "link.host"),
        ("{kind: ssh, host: a, user: 'pi;id'}", "link.user"),
        (SSH % ", folder: '-rf'", "link.folder"),
        (SSH % ', folder: "a\\nb"', "link.folder"),
        (SSH % ", jump: '-oProxyCommand=x'", "link.jump"),
        (SSH % ", jump: 'gate:0'", "link.jump"),
        (SSH % ", jump: 'a b@gate'", "link.jump"),
        ("{kind: adb, serial: x, jump: gate}", "kind adb takes no jump"),
    ],
)
def test_what_an_ssh_link_cannot_be_is_refused(tmp_path: Path, link: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_fleet(fleet_of(tmp_path, DEVICE % ("a", link)))


ADB = "{kind: adb, serial: '%s'%s}"


def test_an_adb_link_has_the_folder_that_shells_may_execute_in_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = fleet_of(
        tmp_path,
        DEVICE % ("a", ADB % ("R58M", ", serials: ['192.168.1.5:5555', R58M]")),
        DEVICE % ("b", ADB % ("emulator-5554", ", folder: /data/here")),
    )
    first, second = load_fleet(path).devices
    assert (first.link.folder, second.link.folder) == ("/data/local/tmp/lockstep", "/data/here")
    assert first.serials == ("R58M", "192.168.1.5:5555")
    assert second.serials == ("emulator-5554",)
    assert not first.emulated


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("{kind: adb}", "kind adb needs serial"),
        (ADB % ("R58M", ", host: pi"), "kind adb takes no host"),
        (ADB % ("R58M", ", serials: ['a b']"), "String should match pattern"),
        (ADB % ("-s", ""), "String should match pattern"),
        (ADB % ("a/b", ""), "String should match pattern"),
        ("{kind: local, serial: R58M}", "kind local takes no serial"),
    ],
)
def test_an_adb_link_says_what_is_wrong_with_it(tmp_path: Path, link: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_fleet(fleet_of(tmp_path, DEVICE % ("a", link)))


@pytest.mark.parametrize(
    ("one", "other"),
    [("R58M", "R58M"), ("R58M', serials: ['1.2.3.4:5555'], folder: '/x", "1.2.3.4:5555")],
)
def test_one_unit_is_one_device(tmp_path: Path, one: str, other: str) -> None:
    path = fleet_of(tmp_path, DEVICE % ("a", ADB % (one, "")), DEVICE % ("b", ADB % (other, "")))
    with pytest.raises(ConfigError, match=r"a and b both have serial .*one unit is one device"):
        load_fleet(path)


@pytest.mark.parametrize(
    "link", ['{kind: adb, serial: "127.0.0.1:5555"%s}', "{kind: ssh, host: a, user: b%s}"], ids=["adb", "ssh"]
)
def test_what_answers_over_a_real_link_may_be_emulated_and_is_then_not_counted_as_real(
    link: str, tmp_path: Path
) -> None:
    plain = load_fleet(fleet_of(tmp_path, DEVICE % ("a", link % ""))).devices[0]
    said = load_fleet(fleet_of(tmp_path, DEVICE % ("a", link % ", emulated: true"))).devices[0]
    assert (plain.real, plain.emulated, said.real, said.emulated) == (True, False, False, True)
