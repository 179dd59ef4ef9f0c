"""What is in an emulated Linux device: Debian's own sshd, a user who is not root, keys made for this device alone."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from agents.emulation import kernel
from agents.emulation.boot import Boot
from agents.emulation.spec import CPUS, Spec
from agents.emulation.sysfiles import make_sys

USER = "lockstep"
USER_NUMBER = 1000
#: Not 22: without root the daemon may not take it.
SSHD_PORT = 2222
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_CONFIG = f"""\
Port {SSHD_PORT}
ListenAddress 127.0.0.1
HostKey /etc/ssh/host_key
AuthorizedKeysFile /etc/ssh/user_key.pub
PidFile none
UsePAM no
UseDNS no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
PerSourcePenalties no
MaxStartups 100
MaxSessions 100
Subsystem sftp /usr/lib/openssh/sftp-server
"""
_PASSWD = f"""\
root:x:0:0:root:/root:/bin/sh
sshd:x:100:65534::/run/sshd:/usr/sbin/nologin
{USER}:x:{USER_NUMBER}:{USER_NUMBER}::/home/{USER}:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
_GROUP = f"root:x:0:\n{USER}:x:{USER_NUMBER}:\nnogroup:x:65534:\n"
_OS_RELEASE = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nNAME="Debian GNU/Linux"\nVERSION_ID="13"\nID=debian\n'
_FOLDERS = ("proc", "dev", "sys", "tmp", "run/sshd", "root", "var/log", f"home/{USER}")


def furnish(root: Path, spec: Spec) -> None:
    """Fill a new device's root; the keys that its guests need lie beside the root."""
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    etc = root / "etc"
    (etc / "ssh").mkdir(parents=True, exist_ok=True)
    (etc / "passwd").write_text(_PASSWD)
    (etc / "group").write_text(_GROUP)
    (etc / "os-release").write_text(_OS_RELEASE)
    (etc / "hostname").write_text(f"{spec.name}\n")
    emulated = f"SetEnv QEMU_CPU={spec.chip}\n" if spec.abi == "arm64" else ""
    (etc / "ssh/sshd_config").write_text(_CONFIG + emulated)
    _make_key(etc / "ssh/host_key")
    _make_key(root.parent / "user_key")
    shutil.copyfile(root.parent / "user_key.pub", etc / "ssh/user_key.pub")
    shutil.copyfile(etc / "ssh/host_key.pub", root.parent / "host_key.pub")
    if spec.abi == "x86-64":
        (etc / "emulation").mkdir()
        shutil.copyfile("/proc/cpuinfo", etc / "emulation/cpuinfo")
    make_sys(root / "sys", battery=False)
    if kernel.privileged():
        os.chown(root / "home" / USER, USER_NUMBER, USER_NUMBER)


def furnished(boot: Boot, spec: Spec) -> Boot:
    """The boot record with what makes this a Linux device. As root its sshd is root, and becomes the user itself."""
    environment = {"PATH": _PATH, "HOME": "/root"}
    if spec.abi == "arm64":
        environment["QEMU_CPU"] = spec.cpu or CPUS[spec.abi]
    return replace(
        boot,
        command=("/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"),
        environment=environment,
        port=SSHD_PORT,
        user=USER_NUMBER if boot.rootless else 0,
        bound={"/proc/cpuinfo": "/etc/emulation/cpuinfo"} if spec.abi == "x86-64" else {},
        sized={f"/home/{USER}": spec.data_mb} if spec.data_mb else {},
        scratch=("/tmp",),  # noqa: S108 - of the device
    )


def known_host(folder: Path, port: int) -> str:
    """The line of a known_hosts file for a device of this folder."""
    kind, key = (folder / "host_key.pub").read_text().split()[:2]
    return f"[127.0.0.1]:{port} {kind} {key}\n"


def _make_key(path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_name(path.name + ".pub").write_bytes(public + b"\n")
