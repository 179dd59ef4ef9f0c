"""What an emulated Android device says of itself comes from files that a test may change."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.emulation import kernel
from tests.agents.adbd import AdbDevice, running_adbd

pytestmark = pytest.mark.adb


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbDevice]:
    with running_adbd(tmp_path_factory.mktemp("android") / "phone") as made:
        yield made


def shell(device: AdbDevice, script: str) -> subprocess.CompletedProcess[str]:
    """In the device's namespaces, without adb between."""
    inside = str(device.status().init)
    users = ["-U"] if kernel.privileged() else ["-U", "--preserve-credentials"]
    nsenter = shutil.which("nsenter")
    assert nsenter
    return subprocess.run(
        [nsenter, "-t", inside, *users, "-m", "-p", "-n", "-r", "-w", "/system/bin/sh", "-c", script],
        env={"PATH": "/system/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def told(device: AdbDevice, script: str) -> str:
    done = shell(device, script)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_properties_name_an_emulated_product_of_this_abi(device: AdbDevice) -> None:
    names = (
        "ro.product.model",
        "ro.product.cpu.abi",
        "ro.kernel.qemu",
        "ro.serialno",
        "ro.build.version.sdk",
        "absent",
    )
    assert told(device, "; ".join(f"getprop {name}" for name in names)).split("\n") == [
        "emulated-adb", "x86_64", "1", "phone", "34", "", ""
    ]  # fmt: skip
    assert told(device, "getprop absent fallback") == "fallback\n"
    assert "[ro.soc.model]: [x86-64]" in told(device, "getprop")


def test_a_property_can_be_set_and_a_read_only_one_once(device: AdbDevice) -> None:
    assert told(device, "setprop debug.it 'a b'; setprop debug.it c; getprop debug.it") == "c\n"
    refused = shell(device, "setprop ro.serialno other")
    assert (refused.returncode, refused.stderr) == (1, "Failed to set property 'ro.serialno' to 'other'.\n")


def test_the_performance_mode_reads_back_and_may_be_refused(device: AdbDevice) -> None:
    ask = "cmd power set-fixed-performance-mode-enabled"
    state = "dumpsys power | grep FixedPerformance"
    assert told(device, f"{ask} true; {state}; {ask} false; {state}").split() == [
        "mFixedPerformanceMode=true", "mFixedPerformanceMode=false"
    ]  # fmt: skip
    (device.root / "data/emulation/fixed-performance.txt").write_text("unsupported\n")
    refused = shell(device, f"{ask} true")
    assert refused.returncode == 255
    assert "Power HAL AIDL is not implemented" in refused.stderr


def test_meminfo_is_of_the_process_asked_for(device: AdbDevice) -> None:
    assert "MEMINFO in pid 1 " in told(device, "dumpsys meminfo 1")
    assert told(device, "dumpsys meminfo 99999") == "No process found for: 99999\n"


def test_a_service_is_a_file_and_never_a_path(device: AdbDevice) -> None:
    (device.root / "data/emulation/dumpsys-mine.txt").write_text("hello\n")
    assert told(device, "dumpsys mine") == "hello\n"
    assert shell(device, "dumpsys ../../etc/passwd").returncode == 1


def test_the_log_can_be_written_read_and_cleared(device: AdbDevice) -> None:
    told(device, "logcat -c; log -p E -t tag words")
    assert told(device, "logcat -d").endswith(" E tag: words\n")


def test_shared_storage_runs_nothing_though_chmod_says_it_did(device: AdbDevice) -> None:
    script = "echo 'echo hi' > /sdcard/x; chmod 755 /sdcard/x; echo $?; /sdcard/x 2>/dev/null; echo $?"
    assert told(device, script) == "0\n126\n"


def test_links_hold_when_the_root_is_looked_at_from_the_host(device: AdbDevice) -> None:
    programs = list((device.root / "system/bin").iterdir())
    assert len(programs) > 150
    assert all(path.exists() for path in programs)
    assert not [path for path in programs if path.is_symlink() and Path(path.readlink()).is_absolute()]
