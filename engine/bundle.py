"""Bundles: the files of one engine build for one ABI, built from source or taken as a team brings them.

A build is kept under ``cache/builds`` by the hash of its sources, command and ABI, so a warm run only hashes files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.contract.errors import BuildError, ConfigError, UsageError
from engine.digest import file_sha256
from engine.locking import exclusive

BUILD_SECONDS = 1800
FORMAT = 1  # of the folders below ``builds``; a new number leaves the old ones behind


@dataclass(frozen=True)
class BuildSpec:
    """How an engine is built.

    ``command`` may hold {python}, {abi} and {out} and runs in the source root; ``sources`` are the glob patterns,
    relative to the source root, of every file that the result depends on.
    """

    command: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class BundleFile:
    """One file: its path inside the bundle, SHA-256 in hex, size in bytes."""

    path: str
    sha256: str
    size: int
    executable: bool


@dataclass(frozen=True)
class Bundle:
    """One engine build for one ABI. ``digest`` covers paths, bytes and modes of all files; ``root`` holds them."""

    engine: str
    version: str
    abi: str
    digest: str
    root: Path
    files: tuple[BundleFile, ...]


def build_bundle(
    name: str, abi: str, files: Sequence[str], build: BuildSpec, source_root: Path, *, cache: Path, python: str
) -> Bundle:
    """Run the build command, or take its result from the cache.

    ``files`` are the paths below {out} that make the bundle; the build counts only when all of them are there.
    Raises BuildError (command, exit code, tail of stderr) and ConfigError when ``sources`` match nothing.
    """
    order = _Order(name, abi, tuple(files), sources_digest(build.sources, source_root))
    key = hashlib.sha256(json.dumps([FORMAT, order.sources, abi, build.command, order.files]).encode()).hexdigest()[:32]
    folder = cache / "builds" / f"{name}-{abi}-{key}"
    kept = _kept(order, folder)
    if kept is None:
        with exclusive(cache / "builds" / ".locks" / folder.name):
            kept = _kept(order, folder) or _build(order, build.command, source_root, folder, python)
    return kept


def collect_bundle(name: str, abi: str, files: Sequence[str], artifacts: Path) -> Bundle:
    """A team's own binaries, unchanged and in place. Raises UsageError naming what is missing."""
    missing = [path for path in files if not (artifacts / path).is_file()]
    if missing:
        raise UsageError(
            f"engine {name}: {artifacts} has no {', '.join(missing)} for {abi}",
            hint=f"build it, or correct `abis.{abi}.files` in engines/{name}.yaml",
        )
    return _describe(_Order(name, abi, tuple(files), ""), artifacts)


def source_tree(ref: str, repo: Path, cache: Path) -> Path:
    """The files of a commit, unpacked under ``cache/sources``. Raises UsageError for a reference git does not know."""
    commit = _git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if commit.returncode:
        raise UsageError(
            f"git knows no commit {ref!r} in {repo}",
            hint="give a branch, tag or commit of this clone (a shallow clone: git fetch --unshallow), or a folder",
        )
    identity = commit.stdout.decode().strip()
    folder = cache / "sources" / identity
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    packed = _git(repo, "archive", "--format=tar", identity)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        done = subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, capture_output=True, check=False)
        if packed.returncode or done.returncode:
            words = (packed.stderr + done.stderr).decode(errors="replace").strip()
            raise UsageError(f"cannot unpack commit {identity[:12]}: {words[-800:]}", hint="is the disk full?")
        _publish(tree, folder)
    return folder


def sources_digest(patterns: Sequence[str], root: Path) -> str:
    """SHA-256 over paths and bytes of all files that match; byte code is left out."""
    digest = hashlib.sha256()
    for path in sorted(set(_matching(patterns, root))):
        digest.update(f"{path.relative_to(root).as_posix()}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()


def _matching(patterns: Sequence[str], root: Path) -> Iterator[Path]:
    for pattern in patterns:
        if pattern.startswith("/") or ".." in Path(pattern).parts:
            raise ConfigError(f"source pattern {pattern!r} leaves the source tree", hint="use a relative pattern")
        # A trailing ** alone means folders only before Python 3.13
        found = [path for path in root.glob(f"{pattern}/*" if pattern.endswith("**") else pattern) if path.is_file()]
        if not found:
            raise ConfigError(f"source pattern {pattern!r} matches no file in {root}", hint="correct `build.sources`")
        yield from (path for path in found if "__pycache__" not in path.parts)


@dataclass(frozen=True)
class _Order:
    """What is wanted; ``sources`` is the digest of the source files, empty for artifacts that a team brings."""

    name: str
    abi: str
    files: tuple[str, ...]
    sources: str

    @property
    def said(self) -> str:
        return f"building {self.name} for {self.abi}"


def _build(order: _Order, template: Sequence[str], source_root: Path, folder: Path, python: str) -> Bundle:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as scratch:
        out = Path(scratch) / "out"
        out.mkdir()
        words = {"{python}": python, "{abi}": order.abi, "{out}": str(out)}
        command = [_fill(word, words) for word in template]
        stderr = _run_build(order, command, source_root)
        missing = [path for path in order.files if not (out / path).is_file()]
        if missing:
            raise BuildError(
                f"{order.said} succeeded but left no {', '.join(missing)}",
                hint=f"`build.command` of engines/{order.name}.yaml must write its files below {{out}}",
                command=" ".join(command),
                stderr=stderr[-2000:],
            )
        shutil.rmtree(folder, ignore_errors=True)  # what is left of a build that somebody deleted in part
        _publish(out, folder)
    return _describe(order, folder)


def _fill(word: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        word = word.replace(placeholder, value)
    return word


def _run_build(order: _Order, command: Sequence[str], source_root: Path) -> str:
    """Run the command in the source root and return its stderr."""
    # The source root first: the base of a comparison must be built by its own scripts, not by the installed ones.
    path = os.pathsep.join(filter(None, [str(source_root), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}
    try:
        done = subprocess.run(
            command,
            cwd=source_root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except OSError as error:
        raise BuildError(
            f"{order.said}: cannot start {command[0]}: {error.strerror}",
            hint=f"correct `build.command` in engines/{order.name}.yaml",
            command=" ".join(command),
        ) from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(
            f"{order.said} did not end within {BUILD_SECONDS} s", hint="run it by hand", command=" ".join(command)
        ) from error
    stderr = done.stderr.decode(errors="replace")
    if done.returncode:
        tail = "\n    ".join((stderr.strip() or done.stdout.decode(errors="replace").strip()).splitlines()[-15:])
        raise BuildError(
            f"{order.said} failed with exit code {done.returncode}:\n    {tail}",
            hint=f"run it by hand in {source_root}: {' '.join(command)}",
            command=" ".join(command),
            exit_code=done.returncode,
            stderr=stderr[-4000:],
        )
    return stderr


def _publish(tree: Path, folder: Path) -> None:
    """Move a complete tree to its name; of two processes that made the same one, the first wins."""
    try:
        tree.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _kept(order: _Order, folder: Path) -> Bundle | None:
    return _describe(order, folder) if all((folder / path).is_file() for path in order.files) else None


def _describe(order: _Order, root: Path) -> Bundle:
    described = tuple(
        BundleFile(
            path=path,
            sha256=file_sha256(root / path),
            size=(root / path).stat().st_size,
            executable=os.access(root / path, os.X_OK),
        )
        for path in sorted(order.files)
    )
    listing = json.dumps([[file.path, file.sha256, file.executable] for file in described])
    digest = hashlib.sha256(listing.encode()).hexdigest()
    version = (order.sources or digest)[:12]
    return Bundle(order.name, version, order.abi, digest, root, described)


def _git(repo: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, check=False)
    except FileNotFoundError as error:
        raise UsageError("--base with a git reference needs git, which is not here", hint="install git") from error
