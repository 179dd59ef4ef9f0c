"""The compiler and the emulators: where they are, and how to get them.

Both come from Debian packages unpacked into the cache (``engine/debian.py``); ``setup/packages.yaml`` is the one list
of them. Nothing is taken from the host but its loader and C library, so every machine builds the same binaries.
"""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import yaml

from engine import debian
from engine.contract.errors import ConfigError, MissingToolError
from engine.debian import Group, Progress, silent
from engine.places import cache_root

PACKAGE_LIST = Path(__file__).resolve().parents[1] / "setup" / "packages.yaml"
EMULATORS = ("qemu-aarch64", "qemu-arm", "qemu-riscv64", "qemu-x86_64")


@functools.cache
def _list() -> dict[str, Any]:
    try:
        document: dict[str, Any] = yaml.safe_load(PACKAGE_LIST.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {PACKAGE_LIST}: {error}", hint="restore it: git checkout setup") from error
    return document


def package_group(name: str) -> Group:
    """One group of ``setup/packages.yaml``."""
    entry = _list()["groups"][name]
    return Group(
        name=name,
        packages=tuple(entry["packages"]),
        suite=entry.get("suite", ""),
        skip=tuple(entry.get("skip", ())),
        keep=tuple(entry.get("keep", ())),
        release=entry.get("release", ""),
        architecture=entry.get("architecture", ""),
    )


def groups_needed_by(target: str) -> tuple[str, ...]:
    """Names of the groups that a make target needs, in the order of the list."""
    return tuple(name for name, entry in _list()["groups"].items() if target in entry["needed_by"])


def group_tree(name: str, cache: Path | None = None) -> Path:
    """The unpacked tree of a group. Raises MissingToolError when it is not there yet."""
    folder = package_group(name).folder(cache or cache_root())
    if not (folder / "manifest.json").is_file():
        raise MissingToolError(f"the {name} packages are not in the cache ({folder})", hint="type: make setup")
    return folder / "tree"


@dataclass(frozen=True)
class Toolchain:
    """clang 19 and lld 19 with the C++ libraries of all targets, and the emulators.

    ``root`` is the tree with the compiler (also the sysroot of every target), ``emulators`` the tree with qemu.
    """

    root: Path
    emulators: Path

    @classmethod
    def locate(cls, cache: Path | None = None) -> Toolchain:
        """What is in the cache. Raises MissingToolError when something is not; touches no network."""
        return cls(root=group_tree("toolchain", cache), emulators=group_tree("emulators", cache))

    @classmethod
    def ensure(cls, progress: Progress = silent, cache: Path | None = None) -> Toolchain:
        """Unpack what is missing, then locate. Does nothing but look when all is there."""
        for name in ("emulators", "toolchain"):
            debian.unpack(package_group(name), cache or cache_root(), progress)
        return cls.locate(cache)

    @property
    def identity(self) -> str:
        """SHA-256 over names, versions and hashes of all packages: what a cached build depends on."""
        return hashlib.sha256((self.root.parent / "manifest.json").read_bytes()).hexdigest()

    @property
    def compiler(self) -> Path:
        """The C++ compiler driver."""
        return self.root / "usr" / "lib" / "llvm-19" / "bin" / "clang++"

    def environment(self) -> dict[str, str]:
        """The environment in which the compiler runs: this process's with the tree's libraries in front."""
        return environment_of(self.root)

    def emulator(self, name: str) -> Path:
        """The static emulator binary. Raises MissingToolError when the list or the tree has none of that name."""
        path = self.emulators / "usr" / "bin" / name
        if not path.is_file():
            raise MissingToolError(
                f"no emulator {name!r}: there are {', '.join(EMULATORS)}",
                hint="correct the name in devices.yaml, or type: make setup",
            )
        return path


def emulator(name: str) -> Path:
    """The static binary of an emulator (``qemu-aarch64``, …) without needing the compiler."""
    tree = group_tree("emulators")
    return Toolchain(root=tree, emulators=tree).emulator(name)


def browser(cache: Path | None = None) -> tuple[Path, dict[str, str]]:
    """Headless Chromium for the tests of reports: its program and the environment that it needs.

    It runs without a sandbox of its own (its launcher needs root for that), so show it nothing from outside.
    Raises MissingToolError when `make test` has not unpacked it.
    """
    tree = group_tree("browser", cache)
    environment = environment_of(tree) | {"FONTCONFIG_FILE": str(_fonts_of(tree))}
    return tree / "usr" / "lib" / "chromium" / "chromium-headless-shell", environment


def _fonts_of(tree: Path) -> Path:
    """A font configuration that names the tree's own fonts: a minimal machine has none, and text without a font has
    no height. (fontconfig's sysroot does not do: Chromium opens the paths it gives without that prefix.)
    """
    path = tree.parent / "fonts.conf"
    if not path.is_file():
        part = path.with_name(f".fonts.{os.getpid()}.part")
        fonts, cache = (escape(str(folder)) for folder in (tree / "usr/share/fonts", tree.parent / "fonts"))
        part.write_text(f"<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>\n")
        part.rename(path)
    return path


def environment_of(tree: Path) -> dict[str, str]:
    """This process's environment with the libraries of an unpacked tree in front of the machine's."""
    libraries = tree / "usr" / "lib" / "x86_64-linux-gnu"
    folders = [str(tree / "usr/lib/llvm-19/lib"), *(str(libraries / name) for name in ("", "nss", "pulseaudio"))]
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([*folders, *([inherited] if inherited else [])])}
