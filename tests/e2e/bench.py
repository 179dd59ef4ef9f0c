"""Whole gates as a user runs them: the command line in a process of its own, with its own state and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.places import cache_root

REPOSITORY = Path(__file__).parents[2]
LOCKSTEP = [str(Path(sys.executable).parent / "lockstep")]


@dataclass
class Outcome:
    """What one command gave."""

    exit_code: int
    stdout: str
    stderr: str
    out: Path

    @property
    def verdict(self) -> dict[str, Any]:
        """``verdict.json`` of the run."""
        document: dict[str, Any] = json.loads((self.out / "latest" / "verdict.json").read_text())
        return document

    @property
    def text(self) -> str:
        """Everything printed."""
        return self.stdout + self.stderr

    def case(self, case: str, device: str) -> dict[str, Any]:
        """One entry of the verdict."""
        return next(entry for entry in self.verdict["cases"] if (entry["case"], entry["device"]) == (case, device))


@dataclass
class Bench:
    """A working copy of nothing: the repository is read, everything written goes to ``folder``."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def lockstep(self, *words: str, seconds: float = 280.0, cwd: Path = REPOSITORY) -> Outcome:
        """Run ``lockstep WORDS``; whatever happens, no traceback may be shown."""
        done = subprocess.run(
            [*LOCKSTEP, *words],
            cwd=cwd,
            env={**os.environ, "LOCKSTEP_STATE": str(self.folder / "state"), **self.environment},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
        return Outcome(done.returncode, done.stdout, done.stderr, self.folder / "out")

    def gate(self, *words: str, seconds: float = 280.0) -> Outcome:
        """Run ``lockstep gate`` with its output in this bench's folder."""
        return self.lockstep("gate", "--out", str(self.folder / "out"), *words, seconds=seconds)

    def own_cache(self) -> Path:
        """Give this bench references and models of its own; what is costly to make stays shared."""
        cache = self.folder / "cache"
        cache.mkdir()
        for shared in ("builds", "debian", "manifests", "sources", "uv", "blobs"):
            if (cache_root() / shared).exists():
                (cache / shared).symlink_to(cache_root() / shared)
        self.environment["LOCKSTEP_CACHE"] = str(cache)
        return cache

    def fleet(self, *devices: dict[str, Any]) -> str:
        """Write a devices file; returns its path."""
        path = self.folder / "devices.yaml"
        path.write_text(json.dumps({"devices": devices}))
        return str(path)

    def engine(self, name: str, script: str, level: int = 0, abi: str = "x86-64", **more: Any) -> str:
        """Write an engine whose runner is a shell script; returns the manifest's path."""
        artifacts = self.folder / name
        artifacts.mkdir(exist_ok=True)
        (artifacts / "runner.sh").write_text(script)
        manifest = {
            "name": name,
            "level": level,
            "model_format": "onnx",
            "runner": ["/bin/sh", "runner.sh"],
            "artifacts": str(artifacts),
            "abis": {abi: {"files": ["runner.sh"]}},
            **more,
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(manifest))
        return str(path)


HOST = {
    "name": "host",
    "chip": "x86-64-v1",
    "model": "host",
    "tier": "mid",
    "abis": ["x86-64"],
    "memory_mb": 8192,
    "link": {"kind": "local"},
}
