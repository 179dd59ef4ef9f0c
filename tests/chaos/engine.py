"""The jobs of a scenario: a small real engine, its reference, and devices of its own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.contract.result import NonFinite
from engine.contract.trace import Summary, Trace, TraceLayer
from engine.digest import bytes_digest, file_sha256
from farm.casejob import BundleRef, CaseJob, FileRef
from farm.inventory import Device

RUNNER = Path(__file__).with_name("runner.sh")
#: Large enough to travel in several pieces.
PADDING = bytes(range(256)) * 8192


@dataclass
class Engine:
    """The engine's files below ``folder``; ``digest`` is that of the right answer, ``other`` of a regressed one."""

    folder: Path
    digest: str = field(init=False)
    other: str = field(init=False)

    def __post_init__(self) -> None:
        right = np.arange(64, dtype=np.float32)
        wrong = right + 1
        self.digest, self.other = bytes_digest(right.tobytes()), bytes_digest(wrong.tobytes())
        self.folder.mkdir(parents=True)
        files = {
            "model": right.tobytes(),
            "other.bin": wrong.tobytes(),
            "model.digest": self.digest.encode(),
            "other.digest": self.other.encode(),
            "padding.bin": PADDING,
            "runner.sh": RUNNER.read_bytes(),
        }
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        self._save_golden(right)

    def _save_golden(self, right: np.ndarray) -> None:
        layer = TraceLayer("y", "Identity", "float32", (64,), self.digest, (), NonFinite(), Summary(1, 1, 1), True)
        trace = Trace("golden", "chaos", (layer,), (), self.folder / "golden")
        (trace.folder / "tensors").mkdir(parents=True)
        trace.tensor_path(layer).write_bytes(right.tobytes())
        trace.save()

    def job(self, case: str, device: Device, chaos: str, *, regressed: bool, seconds: float) -> dict[str, Any]:
        """What one job carries; ``chaos`` is where its runner meets the scenario."""
        names = ["padding.bin", "model.digest", "other.bin", "other.digest", "runner.sh"]
        work = "other" if regressed else "model"
        files = {name: self._file(name) for name in names}
        if "-" in case:  # a bundle that its device cannot have from the job before
            padding = self.folder / f"padding-{case}.bin"
            padding.write_bytes(PADDING[::-1] + case.encode())
            files["padding.bin"] = self._file(padding.name)
        bundle = BundleRef(
            engine="chaos",
            version="1",
            abi="x86-64",
            digest=hashlib.sha256(f"{work} {files['padding.bin'].sha256}".encode()).hexdigest()[:32],
            files=files,
            runner=("/bin/sh", "runner.sh"),
            env={"CHAOS": chaos, "DEVICE": device.name, "WORK": work},
            level=0,
        )
        return CaseJob(
            case=case,
            role="head",
            device=device,
            bundle=bundle,
            model=self._file("model"),
            model_format="onnx",
            inputs=(),
            golden=str(self.folder / "golden"),
            profile="fp32",
            iterations=2,  # which show that it repeats itself: one call a job
            seconds=seconds,
        ).model_dump(mode="json", exclude_unset=True)

    def _file(self, name: str) -> FileRef:
        path = self.folder / name
        return FileRef(path=str(path), sha256=file_sha256(path), size=path.stat().st_size)
