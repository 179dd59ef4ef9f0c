"""Bundles for every ABI a run needs: built from source, from the source of a base, or taken as they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from engine.bundle import BuildSpec, Bundle, build_bundle, collect_bundle, source_tree
from engine.contract.errors import ConfigError, UsageError
from engine.places import cache_root
from farm.casejob import BundleRef, FileRef
from farm.engines import EngineManifest, load_engine

#: Two compilers at a time: what a two-core machine carries.
PARALLEL_BUILDS = 2


@dataclass(frozen=True)
class EngineSource:
    """Where one engine version comes from: a source tree to build in, or a folder of artifacts."""

    manifest: EngineManifest
    tree: Path
    artifacts: Path | None = None


def head_source(root: Path, engine: str, artifacts: Path | None) -> EngineSource:
    """The engine under test."""
    manifest = load_engine(root / "engines", engine)
    folder = artifacts or (root / manifest.artifacts if manifest.artifacts else None)
    if folder is None and manifest.build is None:
        raise ConfigError(
            f"engines/{manifest.name}.yaml has neither `build` nor `artifacts`",
            hint="add one of them, or give --artifacts DIR",
        )
    if folder is not None and not folder.is_dir():
        raise UsageError(f"no artifact folder {folder}", hint="--artifacts names a folder, one subfolder per ABI")
    return EngineSource(manifest, root, folder)


def base_source(root: Path, engine: str, base: str) -> EngineSource:
    """The engine of the commit before: a git reference, or a folder of artifacts."""
    manifest = load_engine(root / "engines", engine)
    if Path(base).is_dir():
        return EngineSource(manifest, root, Path(base))
    tree = source_tree(base, root, cache_root())
    path = tree / "engines" / f"{manifest.name}.yaml"
    return EngineSource(load_engine(tree / "engines", manifest.name) if path.is_file() else manifest, tree)


def bundles(source: EngineSource, abis: Iterable[str], report: Callable[[str], None]) -> dict[str, BundleRef]:
    """One bundle per ABI, two builds at a time; builds are cached by source hash."""
    wanted = sorted(set(abis))
    with ThreadPoolExecutor(PARALLEL_BUILDS) as pool:
        made = pool.map(lambda abi: _bundle(source, abi, report), wanted)
        return {abi: _reference(source.manifest, bundle) for abi, bundle in zip(wanted, made, strict=True)}


def _bundle(source: EngineSource, abi: str, report: Callable[[str], None]) -> Bundle:
    manifest = source.manifest
    files = manifest.abis[abi].files
    if source.artifacts is not None:
        folder = source.artifacts / abi
        return collect_bundle(manifest.name, abi, files, folder if folder.is_dir() else source.artifacts)
    if manifest.build is None:
        raise ConfigError(f"engines/{manifest.name}.yaml has no `build`", hint="give --base a folder of artifacts")
    spec = BuildSpec(manifest.build.command, manifest.build.sources)
    report(f"{manifest.name} {abi}")
    return build_bundle(manifest.name, abi, files, spec, source.tree, cache=cache_root(), python=sys.executable)


def _reference(manifest: EngineManifest, bundle: Bundle) -> BundleRef:
    return BundleRef(
        engine=manifest.name,
        version=manifest.version or bundle.version,
        abi=bundle.abi,
        digest=bundle.digest,
        files={
            file.path: FileRef(
                path=str(bundle.root / file.path), sha256=file.sha256, size=file.size, executable=file.executable
            )
            for file in bundle.files
        },
        runner=manifest.runner,
        env=manifest.env,
        level=manifest.level,
    )
