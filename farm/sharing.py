"""Files of a job for workers on other hosts: published by content where a run is planned, found again where it runs.

Paths of the planning host mean nothing elsewhere. What a job names travels through the blob store (``at:`` devices
need ``LOCKSTEP_BLOBS_URL``). A reference trace becomes a list of its files, itself a blob: a worker fetches the list
and ``trace.json``, and a tensor only when a layer matches no digest.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.contract.errors import ConfigError, StoreError
from engine.contract.trace import Trace, TraceLayer
from engine.digest import file_sha256
from engine.places import cache_root
from engine.toolchain import emulator
from farm.broker import URL_VARIABLE as BROKER_VARIABLE
from farm.casejob import CaseJob, FileRef
from farm.inventory import Device
from farm.secrets import read_secret
from farm.store.blobs import SHA256, BlobStore
from farm.store.blobs import URL_VARIABLE as BLOBS_VARIABLE

DOCUMENT = "trace.json"
_TRACE_FILE = re.compile(r"trace\.json|tensors/[0-9a-f]{32}")


class Publisher:
    """Brings the files of many jobs to the remote blob store, each once."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._done: set[str] = set()
        self._traces: dict[str, str] = {}

    def share(self, job: CaseJob) -> CaseJob:
        """The job as a worker on another host can run it, its files published."""
        for ref in [*job.bundle.files.values(), job.model, *(entry.file for entry in job.inputs)]:
            if ref.sha256 not in self._done:
                self._blobs.share_file(Path(ref.path), ref.sha256)
                self._done.add(ref.sha256)
        golden = self._trace(job.golden)
        canonical = self._trace(job.canonical) if job.canonical else None
        return job.model_copy(update={"golden_files": golden, "canonical_files": canonical})

    def _trace(self, folder: str) -> str:
        """The digest of the list of a trace's files; the list comes last, so what it names is there."""
        if folder not in self._traces:
            root = Path(folder)
            files = {str(path.relative_to(root)): path for path in sorted(root.rglob("*")) if path.is_file()}
            listed = {name: (path, file_sha256(path)) for name, path in files.items() if _TRACE_FILE.fullmatch(name)}
            for path, digest in listed.values():
                self._blobs.share_file(path, digest)
            document = json.dumps({name: digest for name, (_, digest) in listed.items()}, sort_keys=True)
            self._traces[folder] = self._blobs.put_bytes(document.encode())
        return self._traces[folder]


def publisher_for(devices: Iterable[Device]) -> Publisher | None:
    """Who publishes the jobs for these devices; None where every worker sees this host's files.

    ``ConfigError`` when a device is reached by another host and there is no way to send it files or jobs.
    """
    hosts = {device.at: device.name for device in devices if device.at}
    broker, blobs = read_secret(BROKER_VARIABLE), BlobStore.configured()
    for variable, there in ((BROKER_VARIABLE, bool(broker)), (BLOBS_VARIABLE, blobs.remote is not None)):
        if hosts and not there:
            host, device = sorted(hosts.items())[0]
            raise ConfigError(
                f"device {device} is reached by host {host} (at: {host}), and {variable} is not set",
                hint="docs/hosts.md shows what several hosts need",
                device=device,
            )
    return Publisher(blobs) if broker and blobs.remote is not None else None


def localise(job: CaseJob, blobs: BlobStore) -> CaseJob:
    """A shared job in this host's paths; every file is one whose hash was checked here. Others stay as they are."""
    if job.golden_files is None:
        return job
    bundle = job.bundle.model_copy(
        update={"files": {name: _local(ref, blobs) for name, ref in job.bundle.files.items()}}
    )
    inputs = tuple(entry.model_copy(update={"file": _local(entry.file, blobs)}) for entry in job.inputs)
    needed = job.device.link.emulator
    return job.model_copy(
        update={
            "bundle": bundle,
            "model": _local(job.model, blobs),
            "inputs": inputs,
            "emulators": {needed: str(emulator(needed))} if needed else {},
            "python": sys.executable,
        }
    )


def _local(ref: FileRef, blobs: BlobStore) -> FileRef:
    path = Path(ref.path)
    if path.is_file() and path.stat().st_size == ref.size and file_sha256(path) == ref.sha256:
        return ref
    return ref.model_copy(update={"path": str(blobs.get(ref.sha256))})


@dataclass(frozen=True)
class SharedTrace(Trace):
    """A trace whose tensors are fetched when they are asked for."""

    files: Mapping[str, str]
    blobs: BlobStore

    def tensor_path(self, layer: TraceLayer) -> Path:
        """Where the raw tensor of a layer lies, after it was fetched."""
        name = f"tensors/{layer.digest}"
        if name not in self.files:
            raise StoreError(f"the shared trace lacks the tensor of {layer.id!r}", hint="plan the run again")
        return self.blobs.get(self.files[name])


def load_trace(folder: str, files: str | None, blobs: BlobStore) -> Trace:
    """The trace in ``folder``, or the shared one that the blob ``files`` lists."""
    if files is None:
        return Trace.load(Path(folder))
    listed = _listed(blobs.get(files))
    place = cache_root() / "references" / "shared" / files
    if not (place / DOCUMENT).is_file():
        place.mkdir(parents=True, exist_ok=True)
        part = place / f".{DOCUMENT}.{os.getpid()}.part"
        part.write_bytes(blobs.get(listed[DOCUMENT]).read_bytes())
        part.rename(place / DOCUMENT)
    trace = Trace.load(place)
    return SharedTrace(trace.kind, trace.producer, trace.layers, trace.constant, place, listed, blobs)


def _listed(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        sound = DOCUMENT in document and all(
            _TRACE_FILE.fullmatch(name) and SHA256.fullmatch(digest) for name, digest in document.items()
        )
    except (ValueError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise StoreError(f"blob {path.name[:12]}… is no list of a trace's files", hint="plan the run again")
    files: dict[str, str] = document
    return files
