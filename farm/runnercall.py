"""One call of a runner on one device: request out, checked result back, every way to fail told apart."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.base import Agent, AgentSpec, Completed
from agents.deployment import Blob, BundleFiles
from engine.contract.errors import (
    ConfigError,
    DeviceUnavailable,
    LockstepError,
    RunnerCrashed,
    RunnerError,
    RunnerHung,
    RunnerNonsense,
    TransferDamaged,
    TransferError,
    UnsupportedError,
)
from engine.contract.names import inside
from engine.contract.request import GoldenTensor, ModelFile, Request, TensorFile
from engine.contract.result import OutputRecord, Result, parse_result
from engine.contract.trace import Trace, TraceLayer
from engine.digest import bytes_digest, file_sha256
from engine.places import state_root
from farm.casejob import CaseJob
from farm.inventory import Device
from farm.timeleft import TimeLeft

_SIGNALS = {4: "SIGILL: it was built for instructions this CPU lacks", 9: "SIGKILL", 11: "SIGSEGV", 6: "SIGABRT"}


def make_agent(job: CaseJob, token: int = 0) -> Agent:
    """The agent for a job; ``token`` is the lease's."""
    return agent_for(job.device, job.bundle.abi, job.emulators, token)


def agent_for(device: Device, abi: str, emulators: Mapping[str, str], token: int) -> Agent:
    """The agent for the device's link: ``agents/KIND.py``, found by the link's kind."""
    root = state_root() / "devices" / device.name
    spec = AgentSpec(device.name, abi, root, device.link.model_dump(), emulators)
    agent = importlib.import_module(f"agents.{device.link.kind}").make(spec)
    assert isinstance(agent, Agent)  # noqa: S101 - a file of this package
    agent.token, agent.cap_bytes = token, device.cache_mb * 2**20
    return agent


@dataclass
class RunnerCall:
    """Calls the runner of ``job`` through ``agent``; sums the seconds spent in runners.

    ``left``: the time of the job, when it has a limit; ``left_out``: looks for which it was too short, in words.
    """

    job: CaseJob
    agent: Agent
    guard: Callable[[], None]
    attempt: int = 1
    runner_seconds: float = 0.0
    folder: str = ""
    left: TimeLeft | None = None
    left_out: list[str] = field(default_factory=list)

    def has_time_for(self, what: str, *, must_follow: int = 0) -> bool:
        """Whether a look that need not be may be begun, with ``must_follow`` calls after it; if not, it is noted."""
        if self.left is None or self.left.affords(must_follow):
            return True
        if what not in self.left_out:
            self.left_out.append(what)
        return False

    def model_file(self) -> ModelFile:
        """The model as the runner sees it from its working directory."""
        return ModelFile(blob_path(self.job.model.sha256), self.job.model.sha256, self.job.model_format)

    def input_files(self) -> tuple[TensorFile, ...]:
        """The inputs as the runner sees them."""
        return tuple(
            TensorFile(entry.name, entry.dtype, entry.shape, blob_path(entry.file.sha256), entry.file.sha256)
            for entry in self.job.inputs
        )

    def deploy(self) -> None:
        """Bring bundle, model and inputs; only what the device lacks travels."""
        files = {name: ref.blob() for name, ref in self.job.bundle.files.items()}
        blobs = [self.job.model.blob(), *(entry.file.blob() for entry in self.job.inputs)]
        self.agent.deploy(blobs, self.guard, BundleFiles(self.job.bundle.digest, files))

    def call(self, request: Request) -> Result:
        """Run once in a fresh folder; the folder stays until ``finish`` so that tensors can be fetched."""
        self.finish()
        self.folder = self.agent.begin_job(request.job)
        self.agent.send_text(request.to_json(), f"{self.folder}/request.json")
        self.guard()
        argv = [*self._runner(), "run", "--request", "request.json", "--out", "out"]
        done = self.agent.run(argv, self.folder, self._environment(), request.limits.seconds)
        self.runner_seconds += done.seconds
        if done.timed_out or done.exit_code != 0:
            raise self._fault(done, request.limits.seconds)
        try:
            text = self.agent.fetch(f"{self.folder}/out/result.json", request.limits.result_bytes)
        except TransferDamaged:
            raise
        except TransferError as error:  # the file, not the link: that one would be DeviceUnavailable
            raise RunnerNonsense(
                f"{self._who()}: exit code 0 but no usable result.json ({error.message})",
                hint="`lockstep contract check RUNNER` shows what the contract asks",
            ) from error
        result = parse_result(text)
        if result.job != request.job:
            raise RunnerNonsense(f"{self._who()}: answers job {result.job!r}, asked was {request.job!r}")
        return result

    def output_bytes(self, output: OutputRecord, limit: int) -> bytes:
        """The bytes of one final output, checked against its digest."""
        return self._tensor(output.path, output.digest, limit)

    def layer_bytes(self, path: str, digest: str, limit: int) -> bytes:
        """The bytes of one kept layer, checked against its digest."""
        return self._tensor(path, digest, limit)

    def finish(self) -> None:
        """Remove the folder of the last call."""
        if self.folder:
            self.agent.end_job(self.folder)
            self.folder = ""

    def _tensor(self, path: str, digest: str, limit: int) -> bytes:
        inside(Path("out"), path)
        try:
            data = self.agent.fetch(f"{self.folder}/out/{path}", limit)
        except TransferDamaged:
            raise
        except TransferError as error:
            if not self.agent.still_answers():
                raise
            raise RunnerNonsense(
                f"{self._who()}: its result names {path!r}, which is not there or too large"
            ) from error
        if bytes_digest(data) != digest:
            raise RunnerNonsense(f"{self._who()}: {path} does not have the digest its result states")
        return data

    def _runner(self) -> list[str]:
        """The runner's argv: names of bundle files become paths into the bundle."""
        folder = f"../../bundles/{self.job.bundle.digest}"
        argv = []
        for word in self.job.bundle.runner:
            name = word.removeprefix("./")
            if word == "{python}":
                argv.append(self.job.python)
            elif name in self.job.bundle.files:
                argv.append(f"{folder}/{name}")
            elif word.startswith("./"):
                raise ConfigError(
                    f"engine {self.job.bundle.engine}: runner {word!r} is not among the files of {self.job.bundle.abi}",
                    hint=f"files: {', '.join(sorted(self.job.bundle.files))}",
                )
            else:
                argv.append(word)
        return argv

    def _environment(self) -> dict[str, str]:
        """The engine's settings; ``{bundle}`` is where its files lie on this device."""
        bundle = f"{self.agent.home}/bundles/{self.job.bundle.digest}"
        return {name: value.replace("{bundle}", bundle) for name, value in self.job.bundle.env.items()}

    def _who(self) -> str:
        return f"{self.job.bundle.engine} on {self.job.device.name}"

    def _fault(self, done: Completed, seconds: float) -> LockstepError:
        tail = done.stderr.decode(errors="replace").strip()[-600:]
        facts: dict[str, Any] = {"device": self.job.device.name, "exit_code": done.exit_code, "stderr": tail}
        if not done.timed_out and done.exit_code == 3:
            return UnsupportedError(f"{self._who()}: not supported: {tail or 'no reason given'}", **facts)
        if not done.timed_out and done.exit_code == 2:
            return RunnerError(f"{self._who()}: the runner refused the request: {tail or 'no reason given'}", **facts)
        if not self.agent.still_answers():
            return DeviceUnavailable(
                f"{self.job.device.name}: the device stopped answering while {self.job.bundle.engine} ran",
                hint="`lockstep devices --probe`, then run again",
                **facts,
            )
        if done.timed_out:
            return RunnerHung(
                f"{self._who()}: no result within {seconds:.0f} s; the device still answers, so the engine hangs",
                hint="raise `seconds` of the case if the model is that slow, or look into the engine",
                **facts,
            )
        if done.exit_code == 4:
            return RunnerCrashed(f"{self._who()}: the runtime failed: {tail or 'no reason given'}", **facts)
        signal = done.signal
        how = _SIGNALS.get(signal, f"signal {signal}") if signal else f"exit code {done.exit_code}"
        facts |= self.agent.crash_evidence()
        return RunnerCrashed(f"{self._who()}: crashed ({how}){': ' + tail if tail else ''}", **facts)


def tensor_blob(trace: Trace, layer: TraceLayer) -> Blob:
    """A layer's tensor as a blob to bring to a device."""
    path = trace.tensor_path(layer)
    return Blob(path, file_sha256(path), path.stat().st_size)


def golden_tensor(layer: TraceLayer, blob: Blob, bound: float) -> GoldenTensor:
    """What a request says of a tensor that ``blob`` brings; above ``bound`` elements are counted."""
    return GoldenTensor(blob_path(blob.sha256), layer.dtype, layer.shape, bound)


def blob_path(sha256: str) -> str:
    """A blob as a runner sees it from its working directory."""
    return f"../../blobs/{sha256}"


def job_name(job: CaseJob) -> str:
    """Name of one call: plain characters only, unique enough for a folder."""
    return f"{job.role}-{job.case}-{time.time_ns():x}"
