"""The devices file that `lockstep emulate up` writes, and the command itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agents.emulation.park import Park
from agents.emulation.spec import Spec
from agents.emulation.units import Unit
from ci.cli.emulate import command
from ci.emulate import MARK, write_fleet
from engine.contract.errors import UsageError


def unit(folder: Path, spec: Spec, port: int) -> Unit:
    folder.mkdir()
    (folder / "host_key.pub").write_text("ssh-ed25519 AAAA\n")
    return Unit(folder, spec, 1, 1, port)


def test_a_gate_reads_every_device_as_emulated_and_none_as_real(tmp_path: Path) -> None:
    phone = unit(tmp_path / "a", Spec("adb-arm64-1", "adb", "arm64", "cortex-a76"), 5001)
    board = unit(tmp_path / "b", Spec("ssh-x86-64-1", "ssh", "x86-64"), 5002)
    fleet = write_fleet(tmp_path / "fleet.yaml", [phone, board])
    assert [(device.name, device.chip, device.abis, device.real) for device in fleet.devices] == [
        ("adb-arm64-1", "cortex-a76", ("arm64",), False),
        ("ssh-x86-64-1", "x86-64", ("x86-64",), False),
    ]
    link = fleet.device("ssh-x86-64-1").link
    assert fleet.device("adb-arm64-1").link.serial == "127.0.0.1:5001"
    assert (link.port, link.key) == (5002, str(board.folder / "user_key"))
    assert Path(link.known_hosts).read_text() == "[127.0.0.1]:5002 ssh-ed25519 AAAA\n"


def test_a_devices_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    theirs = tmp_path / "devices.yaml"
    theirs.write_text("devices: []\n")
    with pytest.raises(UsageError, match="was not written by `lockstep emulate`"):
        write_fleet(theirs, [unit(tmp_path / "a", Spec("a", "adb", "arm64"), 5001)])
    assert theirs.read_text() == "devices: []\n"


def test_what_it_wrote_itself_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    for port in (5001, 5002):
        write_fleet(path, [Unit(tmp_path, Spec("a", "adb", "arm64"), 1, 1, port)])
    assert path.read_text().startswith(MARK)
    assert "5001" not in path.read_text()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False, standalone_mode=False)


@pytest.mark.adb
def test_up_list_and_down_say_what_runs_and_what_to_type_next(tmp_path: Path) -> None:
    folder, fleet = ["--folder", str(tmp_path / "park")], tmp_path / "fleet.yaml"
    none = ["--adb-arm64", "0", "--ssh-arm64", "0", "--ssh-x86-64", "0"]
    try:
        assert run("list", *folder).output == "no emulated devices; start some: lockstep emulate up\n"
        up = run("up", *none, *folder, "--write", str(fleet))
        assert up.return_value == 0
        assert f"next: lockstep gate --devices {fleet}" in up.output
        listed = run("list", *folder).output
        (device,) = Park(tmp_path / "park").units()
        assert listed.splitlines()[1].split() == [
            "adb-x86-64-1", "adb", "x86-64", device.serial, "running", str(device.pid)
        ]  # fmt: skip
        device.cut()
        assert "running, line cut" in run("list", *folder).output
        assert run("down", *folder).output == "adb-x86-64-1: ended\n"
        assert run("down", *folder).output == "no emulated devices were running\n"
    finally:
        Park(tmp_path / "park").down()


@pytest.mark.qemu
def test_what_does_not_exist_is_a_fault_of_the_command_line(tmp_path: Path) -> None:
    none = ["--adb-x86-64", "0", "--ssh-arm64", "0", "--ssh-x86-64", "0"]
    done = run("up", *none, "--cpu", "pentium", "--folder", str(tmp_path), "--write", str(tmp_path / "fleet.yaml"))
    assert done.return_value == 2
    assert "qemu has no Arm CPU named 'pentium'" in done.stderr
    assert not (tmp_path / "fleet.yaml").exists()
