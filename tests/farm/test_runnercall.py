from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agents.base import Completed
from agents.local import LocalAgent
from engine.contract.errors import DeviceUnavailable, LockstepError, RunnerNonsense, TransferDamaged, TransferError
from engine.contract.request import ModelFile, Request
from farm.casejob import BundleRef, CaseJob, FileRef
from farm.inventory import Device, Link
from farm.runnercall import RunnerCall

FILE = FileRef(path="x", sha256="0" * 64, size=0)
DEVICE = Device(name="pi", chip="c", model="m", tier="low", abis=("x86-64",), memory_mb=1, link=Link(kind="local"))
BUNDLE = BundleRef(engine="e", version="1", abi="x86-64", digest="d", files={"r": FILE}, runner=("./r",), level=0)
REQUEST = Request("job", 1, ModelFile("m", "0" * 64, "onnx"), ())


class Answering(LocalAgent):
    """A device on which the runner leaves with 0 and whose result cannot be had."""

    error: LockstepError

    def _execute(self, *_: object) -> Completed:
        return Completed(0, b"", b"", 0.1)

    def _receive(self, source: str, limit: int) -> bytes:
        raise self.error


def call(folder: Path, error: LockstepError) -> Callable[[], object]:
    job = CaseJob.model_construct(case="c", role="head", device=DEVICE, bundle=BUNDLE)
    agent = Answering("pi", "x86-64", root=folder)
    agent.error = error
    return lambda: RunnerCall(job, agent, lambda: None).call(REQUEST)


def test_a_link_that_dies_after_the_runner_ended_is_not_the_engines_fault(tmp_path: Path) -> None:
    with pytest.raises(DeviceUnavailable, match="was lost"):
        call(tmp_path, DeviceUnavailable("pi: the connection was lost"))()


def test_an_absent_result_is_the_engines_fault(tmp_path: Path) -> None:
    with pytest.raises(RunnerNonsense, match=r"exit code 0 but no usable result.json .*no file"):
        call(tmp_path, TransferError("pi: no file"))()


class Damaging(LocalAgent):
    """A device on which all goes well, behind a link that turns one bit."""

    def _execute(self, argv: Sequence[str], folder: str, *_: object) -> Completed:
        (self.root / folder / "out").mkdir(parents=True)
        (self.root / folder / "out" / "result.json").write_text("{}")
        return Completed(0, b"", b"", 0.1)

    def _receive(self, source: str, limit: int) -> bytes:
        return bytes([byte ^ 1 for byte in super()._receive(source, limit)])


def test_a_result_that_is_damaged_on_its_way_is_not_the_engines_fault(tmp_path: Path) -> None:
    job = CaseJob.model_construct(case="c", role="head", device=DEVICE, bundle=BUNDLE)
    with (
        Damaging("pi", "x86-64", root=tmp_path) as agent,
        pytest.raises(
            TransferDamaged, match=r"pi: result.json arrived with sha256 .*, there it has 44136fa355b3…"
        ) as caught,
    ):
        RunnerCall(job, agent, lambda: None).call(REQUEST)
    assert "`lockstep devices --probe`" in caught.value.hint
