"""What is in an emulated Android device: toybox, mksh, a real adbd, and answers that lie in files.

Everything a test may want to change lies under /data/emulation (properties, dumpsys, logcat) and /sys of the device.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from agents.emulation import kernel
from agents.emulation.boot import Boot
from agents.emulation.spec import CPUS, Spec
from agents.emulation.sysfiles import make_sys

#: The user of `adb shell`, as on every Android.
SHELL_USER = 2000
ADBD_PORT = 5555
_USERLAND = Path(__file__).with_name("userland") / "android"
#: What Android has and Debian's toybox lacks, from busybox. Debian's sha256sum runs at 25 MB/s; Android's toybox hashes
#: with BoringSSL, as fast as the chip can.
_BUSYBOX = ("awk", "dd", "diff", "expr", "gzip", "lsof", "sha256sum", "stty", "tr")
_TOYBOX = """
[ acpi ascii base32 base64 basename blkid blockdev bunzip2 bzcat cal cat chattr chgrp chmod chown chroot chrt cksum
clear cmp comm cp cpio cut date devmem df dirname dmesg dos2unix du echo egrep env expand factor fallocate false fgrep
file find flock fmt free fsfreeze getconf grep groups gunzip head help hostname hwclock iconv id ifconfig inotifyd
install ionice iorenice iotop kill killall link ln logger logname losetup ls lsattr lsmod lspci lsusb md5sum microcom
mkdir mkfifo mknod mkswap mktemp modinfo mount mountpoint mv nc netcat netstat nice nl nohup nproc nsenter od paste
patch pgrep pidof ping pivot_root pkill pmap printenv printf prlimit ps pwd pwdx readelf readlink realpath renice rev rm
rmdir sed seq setfattr setsid sha1sum sha224sum sha384sum sha512sum sleep sort split stat strings su swapoff
swapon sync sysctl tac tail tar taskset tee test time timeout top touch true truncate tty tunctl ulimit umount uname
uniq unix2dos unlink unshare uptime usleep uudecode uuencode uuidgen vmstat watch wc wget which who whoami xargs xxd yes
zcat
""".split()  # noqa: SIM905 - a list this long reads better as text
_PASSWD = f"root:x:0:0:root:/:/system/bin/sh\nshell:x:{SHELL_USER}:{SHELL_USER}:shell:/data/local/tmp:/system/bin/sh\n"
_GROUP = f"root:x:0:\nshell:x:{SHELL_USER}:\n"
_FOLDERS = ("data/local/tmp", "data/tombstones", "data/emulation", "proc", "dev", "sys", "sdcard", "system/bin", "etc")
_ANDROID_ABIS = {"x86-64": "x86_64", "arm64": "arm64-v8a"}


def furnish(root: Path, spec: Spec) -> None:
    """Fill a new device's root (or the upper half of its overlay)."""
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    _replace(root / "bin", "system/bin")
    for name in _TOYBOX:
        _replace(root / "system/bin" / name, "../../usr/bin/toybox")
    for name in _BUSYBOX:
        _replace(root / "system/bin" / name, "../../usr/bin/busybox")
    for name in ("sh", "mksh"):
        _replace(root / "system/bin" / name, "../../usr/bin/mksh")
    shutil.copytree(_USERLAND, root, dirs_exist_ok=True)
    for script in (_USERLAND / "system/bin").iterdir():
        (root / "system/bin" / script.name).chmod(0o755)
    _fill_in(root / "data/emulation/getprop.txt", spec)
    (root / "etc/passwd").write_text(_PASSWD)
    (root / "etc/group").write_text(_GROUP)
    if spec.abi == "x86-64":
        shutil.copyfile("/proc/cpuinfo", root / "data/emulation/cpuinfo")
    make_sys(root / "sys", battery=True)
    if kernel.privileged():
        for folder in ("data/local", "data/local/tmp", "data/emulation", "data/tombstones"):
            os.chown(root / folder, SHELL_USER, SHELL_USER)
        for file in (root / "data/emulation").iterdir():
            os.chown(file, SHELL_USER, SHELL_USER)


def furnished(boot: Boot, spec: Spec) -> Boot:
    """The boot record with what makes this an Android device."""
    environment = {
        "ADBD_PORT": str(ADBD_PORT),
        "PATH": "/system/bin",
        "HOME": "/",
        "TMPDIR": "/data/local/tmp",
        "ANDROID_DATA": "/data",
        "ANDROID_ROOT": "/system",
    }
    if spec.abi == "arm64":
        environment["QEMU_CPU"] = spec.cpu or CPUS[spec.abi]
    return replace(
        boot,
        command=("/usr/lib/android-sdk/platform-tools/adbd",),
        environment=environment,
        port=ADBD_PORT,
        user=SHELL_USER,
        bound={"/proc/cpuinfo": "/data/emulation/cpuinfo"} if spec.abi == "x86-64" else {},
        partitions=("/data",),
        noexec=("/sdcard",),
        sized={"/data/local/tmp": spec.data_mb} if spec.data_mb else {},
    )


def _replace(path: Path, target: str) -> None:
    """A relative link: it must hold when the root is looked at from the host, too."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    path.symlink_to(target)


def _fill_in(path: Path, spec: Spec) -> None:
    abi = _ANDROID_ABIS[spec.abi]
    facts = {
        "abi": spec.abi.replace("-", "_"),
        "android_abi": abi,
        "android_abilist": abi,
        "model": spec.model,
        "serial": spec.name,
        "chip": spec.chip,
    }
    text = path.read_text()
    for name, value in facts.items():
        text = text.replace("{" + name + "}", value)
    path.write_text(text)
