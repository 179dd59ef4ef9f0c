"""Debian packages unpacked into the cache: the same with and without root, and the machine is not changed.

apt fetches and verifies with a configuration of its own: its own source list (the mirror that the machine's apt
already uses), its own package lists and an empty status file, so an outdated or empty system list does not matter.
Of the machine's configuration it takes proxy and certificate settings, nothing else. Standard library only: `make
setup` needs this module before any package is installed.
"""

from __future__ import annotations

import concurrent.futures
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.contract.errors import MissingToolError
from engine.locking import exclusive

RELEASE = "bookworm"
LISTS_LIVE_SECONDS = 3600
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR_HINT = "set LOCKSTEP_DEBIAN_MIRROR to the address of a Debian mirror, then type: make setup"

#: Fields that do not count where they are empty: the keys of trees that need none of them stay as they were.
_MAY_BE_ABSENT = ("release", "architecture")

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """The progress callback of those who do not want any."""


@dataclass(frozen=True)
class Group:
    """Packages that are unpacked together into one tree.

    ``suite`` overrides the suite within the release; ``skip`` are shell patterns of dependencies left out; ``keep`` are
    the only paths unpacked (all when empty); without ``dependencies`` just the named packages are taken. ``release``
    and ``architecture`` (Debian's words: trixie, arm64) make a tree for a device that is not like this machine.
    """

    name: str
    packages: tuple[str, ...]
    suite: str = ""
    skip: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    dependencies: bool = True
    release: str = ""
    architecture: str = ""

    @property
    def key(self) -> str:
        """Twelve hex digits that change when anything of the group does."""
        facts = {name: value for name, value in asdict(self).items() if value or name not in _MAY_BE_ABSENT}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    def folder(self, cache: Path) -> Path:
        """Where the group is published: ``tree/`` and ``manifest.json`` under it."""
        return cache / "debian" / f"{self.name}-{self.key}"


def fetch_package(name: str, version: str | None, cache: Path, progress: Progress = silent) -> Path:
    """The unpacked tree of one package without its dependencies; offline once cached.

    ``version`` is the exact Debian version, or None for the newest of the release.
    Raises MissingToolError when apt is absent, the mirror cannot be reached or has no such package.
    """
    wanted = f"{name}={version}" if version else name
    return unpack(Group(name, (wanted,), dependencies=False), cache, progress)


def unpack(group: Group, cache: Path, progress: Progress = silent) -> Path:
    """The tree of a group, unpacked now unless it already is. Safe to call from several processes at once."""
    folder = group.folder(cache)
    if (folder / "manifest.json").is_file():
        return folder / "tree"
    base = cache / "debian"
    with exclusive(base / "lock", lambda: progress(f"{group.name}: waiting for another process that unpacks packages")):
        if not (folder / "manifest.json").is_file():
            _publish(group, folder, Apt.prepare(base, group.release, group.architecture), progress)
    return folder / "tree"


def _publish(group: Group, folder: Path, apt: Apt, progress: Progress) -> None:
    started = time.monotonic()
    progress(f"{group.name}: asking the Debian mirror for {', '.join(group.packages)}")
    apt.update()
    names = _without(apt.closure(group), group.skip) if group.dependencies else list(group.packages)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as scratch:
        archives, tree = Path(scratch) / "archives", Path(scratch) / "publish" / "tree"
        archives.mkdir()
        _make_root(tree)
        apt.download(names, group.suite, archives)
        debs = sorted(archives.glob("*.deb"))
        size = sum(deb.stat().st_size for deb in debs)
        progress(f"{group.name}: unpacking {len(debs)} packages, {size / 1e6:.0f} MB")
        with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
            manifest = list(pool.map(lambda deb: _unpack_one(deb, tree, group.keep), debs))
        (tree.parent / "manifest.json").write_text(json.dumps({"group": asdict(group), "packages": manifest}, indent=1))
        shutil.rmtree(folder, ignore_errors=True)
        tree.parent.rename(folder)
    progress(f"{group.name}: ready in {time.monotonic() - started:.0f} s")


def _without(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if not any(fnmatch.fnmatchcase(name.split("=")[0], one) for one in patterns)]


def _make_root(tree: Path) -> None:
    """Debian 12 packages ship files in both /lib and /usr/lib: links make them one folder, as on a merged system."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")


def _unpack_one(deb: Path, tree: Path, keep: Sequence[str]) -> dict[str, str]:
    members = [f"./{path}" for path in keep] or ["--exclude=./usr/share/doc", "--exclude=./usr/share/man"]
    command = ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(tree), *members]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as packed:
        done = subprocess.run(command, stdin=packed.stdout, capture_output=True, text=True, check=False)
    if done.returncode or packed.returncode:
        raise MissingToolError(
            f"cannot unpack {deb.name}: {done.stderr.strip()[-400:]}", hint="is the disk full? then type: make setup"
        )
    name, version, _ = deb.name.split("_")
    with deb.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"package": name, "version": version.replace("%3a", ":"), "sha256": digest}


@dataclass(frozen=True)
class Apt:
    """apt-get with a private configuration that lives in one folder."""

    home: Path

    @classmethod
    def prepare(cls, base: Path, release: str = "", architecture: str = "") -> Apt:
        """Write the private configuration into a folder of ``base``, one per release and architecture.

        Raises MissingToolError where there is no apt or no Debian mirror.
        """
        home = base / "-".join(("apt", *filter(None, (release, architecture))))
        for program in ("apt-get", "dpkg-deb", "tar"):
            if shutil.which(program) is None:
                raise MissingToolError(
                    f"{program} is not here: packages can be unpacked only on Debian and its relatives",
                    hint="use a Debian 12 machine or container",
                )
        for part in ("lists/partial", "archives/partial", "none"):
            (home / part).mkdir(parents=True, exist_ok=True)
        (home / "status").touch()
        (home / "sources.list").write_text(source_list(find_mirrors(), release or RELEASE))
        (home / "apt.conf").write_text(private_configuration(home, _host_settings(), architecture))
        return cls(home)

    def update(self) -> None:
        """Fetch the package lists, at most once an hour unless the source list changed."""
        stamp, sources = self.home / "updated", (self.home / "sources.list").read_text()
        fresh = stamp.is_file() and time.time() - stamp.stat().st_mtime < LISTS_LIVE_SECONDS
        if not fresh or stamp.read_text() != sources:
            self._run("apt-get", "update", "-q", "-o", "APT::Update::Error-Mode=any")
            stamp.write_text(sources)

    def closure(self, group: Group) -> list[str]:
        """``name=version`` of the group's packages and all they depend on."""
        suite = ["-t", group.suite] if group.suite else []
        listing = self._run("apt-get", "install", "-s", "-y", "--no-install-recommends", *suite, *group.packages)
        return [f"{name}={version}" for name, version in re.findall(r"^Inst (\S+) \((\S+) ", listing, re.MULTILINE)]

    def download(self, names: Sequence[str], suite: str, into: Path) -> None:
        """Fetch the packages' archives; apt checks each against the signed list."""
        chosen = ["-t", suite] if suite else []
        self._run("apt-get", "download", "-q", *chosen, *names, cwd=into)

    def _run(self, *command: str, cwd: Path | None = None) -> str:
        environment = {**os.environ, "APT_CONFIG": str(self.home / "apt.conf"), "LC_ALL": "C"}
        done = subprocess.run(
            command, cwd=cwd or self.home, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            tail = "\n    ".join(done.stderr.strip().splitlines()[-6:])
            raise MissingToolError(
                f"`{' '.join(command[:2])}` could not get packages from the Debian mirror:\n    {tail}",
                hint=f"is the mirror reachable (proxy, certificates)? {MIRROR_HINT}",
                command=" ".join(command),
                exit_code=done.returncode,
                stderr=done.stderr[-2000:],
            )
        return done.stdout


def find_mirrors() -> tuple[str, str]:
    """Addresses of the Debian mirror and of its security archive ("" when unknown).

    ``LOCKSTEP_DEBIAN_MIRROR``, else the ones that the machine's apt is configured with, in either format.
    """
    chosen = os.environ.get("LOCKSTEP_DEBIAN_MIRROR", "").rstrip("/")
    if chosen:
        return chosen, ""
    with tempfile.TemporaryDirectory() as empty:
        Path(empty, "partial").mkdir()
        listing = subprocess.run(
            ["apt-get", "update", "--print-uris", "-o", f"Dir::State::Lists={empty}"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
    found = {suite: address for address, suite in re.findall(r"'(\S+?)/dists/([^/']+)/InRelease'", listing)}
    plain = [address for suite, address in found.items() if re.fullmatch(r"[a-z]+", suite)]
    if not plain:
        raise MissingToolError("the machine's apt has no Debian mirror configured", hint=MIRROR_HINT)
    security = [address for suite, address in found.items() if suite.endswith("-security")]
    return plain[0], security[0] if security else ""


def source_list(mirrors: tuple[str, str], release: str = RELEASE) -> str:
    """The private source list: release, its security archive where known, its backports."""
    mirror, security = mirrors
    signed = f" [signed-by={KEYRING}]" if KEYRING.is_file() else ""
    lines = [f"deb{signed} {mirror} {release} main", f"deb{signed} {mirror} {release}-backports main"]
    if security:
        lines.append(f"deb{signed} {security} {release}-security main")
    return "\n".join(lines) + "\n"


def private_configuration(home: Path, host_settings: str, architecture: str = "") -> str:
    """apt.conf that reads nothing of the machine's but the given settings (no hooks, no pins, no sources)."""
    chosen = f'APT::Architecture "{architecture}"; APT::Architectures {{ "{architecture}"; }};' if architecture else ""
    return "\n".join(
        [
            f'Dir::Etc::Parts "{home}/none";',
            f'Dir::Etc::Main "{home}/none/apt.conf";',
            f'Dir::Etc::SourceList "{home}/sources.list";',
            f'Dir::Etc::SourceParts "{home}/none";',
            f'Dir::Etc::Preferences "{home}/none/preferences";',
            f'Dir::Etc::PreferencesParts "{home}/none";',
            f'Dir::State "{home}";',
            f'Dir::State::Lists "{home}/lists";',
            f'Dir::State::Status "{home}/status";',
            f'Dir::Cache "{home}";',
            f'Dir::Cache::Archives "{home}/archives";',
            'APT::Sandbox::User "root";',  # the cache may lie where apt's own user cannot read
            'Acquire::Languages "none";',
            'Acquire::Retries "3";',
            chosen,
            host_settings,
        ]
    )


def _host_settings() -> str:
    """The machine's proxy, certificate and date settings: without them its mirror may be out of reach."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    wanted = re.compile(r'Acquire::(https?|ftp|Check-\S+)(::\S+)? "[^"]+";')
    return "\n".join(line for line in dump.splitlines() if wanted.fullmatch(line)) + "\n"
