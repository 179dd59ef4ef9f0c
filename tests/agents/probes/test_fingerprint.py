from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.probes._text import LONGEST
from agents.probes.fingerprint import Fingerprint, parse
from agents.readings import Place, take
from tests.agents.shells import Shell, tree_of

Sample = Callable[[str], str]
UNKNOWN = dict.fromkeys(("cpu", "cpu_features", "kernel", "os_build", "soc", "product", "abis"), "unknown")
PHONE = """@uname
5.10.177-android13-4-00003 aarch64
@os
@cpu
{cpu}
@properties
[ro.build.fingerprint]: [acme/rocket/rocket:14/UP1A.231005.007/1:user/release-keys]
[ro.soc.manufacturer]: [QTI]
[ro.soc.model]: [SM8550]
[ro.board.platform]: [kalama]
[ro.hardware]: [qcom]
[ro.product.manufacturer]: [Acme]
[ro.product.model]: [Rocket 9]
[ro.product.cpu.abilist]: [arm64-v8a,armeabi-v7a]
[ro.hardware.egl]: [adreno]
[ro.hardware.vulkan]: [adreno]
@soc
@compatible
@model
@drivers
msm_kgsl 1.0
@gpu
Adreno740v2
GLES: Qualcomm, Adreno (TM) 740, OpenGL ES 3.2 V@0676.42 (GIT@1234)
@firmware
adsp adsp.mdt
@end
"""


def facts(text: str) -> dict[str, str]:
    reading = parse(text)
    assert isinstance(reading, Fingerprint)
    return reading.facts()


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
def test_a_phone_tells_chip_product_build_and_drivers(sample: Sample, ending: str) -> None:
    told = facts(PHONE.format(cpu=sample("cpuinfo-arm64.txt")).replace("\n", ending))
    assert told == {
        "cpu": "implementer 0x41 part 0xd03 r0p4",
        "cpu_features": hashlib.sha256(b"aes asimd asimddp crc32 evtstrm fp").hexdigest()[:16],
        "kernel": "5.10.177-android13-4-00003",
        "os_build": "acme/rocket/rocket:14/UP1A.231005.007/1:user/release-keys",
        "drivers": "msm_kgsl 1.0",
        "soc": "QTI SM8550",
        "product": "Acme Rocket 9",
        "abis": "arm64-v8a,armeabi-v7a",
        "gpu": "Adreno740v2; GLES: Qualcomm, Adreno (TM) 740, OpenGL ES 3.2 V@0676.42 (GIT@1234); "
        "egl=adreno; vulkan=adreno",
        "firmware": "adsp adsp.mdt",
    }


@pytest.mark.parametrize(
    ("properties", "soc"),
    [
        ("[ro.soc.model]: [Tensor G3]\n[ro.soc.manufacturer]: [Google]\n[ro.hardware]: [zuma]\n", "Google Tensor G3"),
        ("[ro.soc.model]: []\n[ro.board.platform]: [msm8998]\n[ro.hardware]: [qcom]\n", "msm8998"),
        ("[ro.hardware]: [mt6765]\n", "mt6765"),
    ],
)
def test_old_releases_name_the_chip_elsewhere(properties: str, soc: str) -> None:
    assert facts(f"@properties\n{properties}@end\n")["soc"] == soc


@pytest.mark.parametrize(
    ("told", "soc"),
    [
        ("@compatible\nradxa,rock-5b\nrockchip,rk3588\n\n", "rockchip,rk3588"),
        ("@soc\nmachine=Snapdragon\nfamily=Snapdragon\nsoc_id=415\nrevision=1.0\n", "Snapdragon Snapdragon 415 1.0"),
    ],
)
def test_a_board_names_its_chip_in_sysfs_or_in_its_device_tree(told: str, soc: str) -> None:
    assert facts(told)["soc"] == soc


def test_an_arm_board_tells_core_system_and_drivers() -> None:
    told = facts(
        "motd of the login shell\n@uname\n5.10.160-rockchip aarch64\n@os\nNAME=Debian\n"
        'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n@model\nRadxa ROCK 5B\0\n'
        "@drivers\nrknpu 0.9.3\npanfrost loaded\n"
    )
    assert told["kernel"] == "5.10.160-rockchip"
    assert told["abis"] == "aarch64"
    assert told["os_build"] == "Debian GNU/Linux 12 (bookworm)"
    assert told["drivers"] == "rknpu 0.9.3, panfrost loaded"
    assert told["product"] == "Radxa ROCK 5B"


def test_the_order_of_features_is_no_difference() -> None:
    first, other = (facts(f"@cpu\nflags : {flags}\n") for flags in ("fpu sse avx2", "avx2 fpu sse"))
    assert first["cpu_features"] == other["cpu_features"] != facts("@cpu\nflags : fpu\n")["cpu_features"]


def test_a_device_that_tells_nothing_is_unknown_not_an_error() -> None:
    assert facts("") == {**UNKNOWN, "drivers": "none", "gpu": "none", "firmware": "none"}


@given(st.text())
def test_no_text_breaks_the_parser_and_no_fact_is_long(text: str) -> None:
    for told in (text, f"@cpu\n{text}", f"@properties\n[ro.soc.model]: [{text}]", f"@gpu\n{text}"):
        assert all(fact and fact.isprintable() and len(fact) <= LONGEST for fact in facts(told).values())


def test_old_kernels_print_features_at_the_end(shell: Shell, tmp_path: Path, sample: Sample) -> None:
    proc = tree_of(tmp_path / "proc", {"cpuinfo": sample("cpuinfo-android-armv7-old.txt")})
    reading = take(shell.script, ["fingerprint"], Place("/", str(proc), str(tmp_path)))["fingerprint"]
    assert isinstance(reading, Fingerprint)
    assert reading.cpu == "implementer 0x51 part 0x06f r2p0"
    assert reading.cpu_features == hashlib.sha256(
        b"edsp fastmult half neon swp thumb tls vfp vfpv3 vfpv4"
    ).hexdigest()[:16]  # fmt: skip
    assert reading.soc.startswith("Qualcomm MSM 8974")


def test_a_board_is_read_in_the_shells_of_devices(shell: Shell, tmp_path: Path, sample: Sample) -> None:
    proc = tree_of(
        tmp_path / "proc",
        {
            "cpuinfo": sample("cpuinfo-arm64.txt"),
            "device-tree/compatible": "radxa,rock-5b\0rockchip,rk3588\0",
            "device-tree/model": "Radxa ROCK 5B\0",
        },
    )
    sys = tree_of(
        tmp_path / "sys",
        {
            "module/rknpu/version": "0.9.3\n",
            "module/panfrost/parameters/x": "1\n",
            "class/misc/mali0/device/gpuinfo": "Mali-G610 4 cores r0p0 0xA8670000\n",
            "class/remoteproc/remoteproc0/name": "npu\n",
            "class/remoteproc/remoteproc0/firmware": "npu-1.2.bin\n",
        },
    )
    reading = take(shell.script, ["fingerprint"], Place("/", str(proc), str(sys)))["fingerprint"]
    assert isinstance(reading, Fingerprint)
    assert reading.soc == "rockchip,rk3588"
    assert reading.product == "Radxa ROCK 5B"
    assert reading.drivers == "rknpu 0.9.3, panfrost loaded"
    assert reading.gpu == "Mali-G610 4 cores r0p0 0xA8670000"
    assert reading.firmware == "npu npu-1.2.bin"
    assert reading.cpu == "implementer 0x41 part 0xd03 r0p4"


def test_a_phone_is_asked_in_the_shells_of_devices(shell: Shell, tmp_path: Path) -> None:
    shell.add_command(
        "getprop",
        "echo '[dalvik.vm.x]: [1]'; echo '[ro.soc.model]: [SM8550]'; "
        "echo '[ro.product.model]: [Rocket 9]'; echo '[ro.product.cpu.abilist]: [arm64-v8a]'\n",
    )
    shell.add_command("dumpsys", "echo; echo 'GLES: ARM, Mali-G78, OpenGL ES 3.2 v1.r38p1'; echo 'GLES: again'\n")
    reading = take(shell.script, ["fingerprint"], Place("/", str(tmp_path), str(tmp_path)))["fingerprint"]
    assert isinstance(reading, Fingerprint)
    assert (reading.soc, reading.product) == ("SM8550", "Rocket 9")
    assert reading.abis == "arm64-v8a"
    assert reading.gpu == "GLES: ARM, Mali-G78, OpenGL ES 3.2 v1.r38p1"
