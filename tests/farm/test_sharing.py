"""What a job names is found again on a host that shares nothing but the blob storage."""

import json
import sys

import numpy as np
import pytest

from engine.contract.errors import ConfigError, StoreError
from engine.contract.result import NonFinite
from engine.contract.trace import Summary, Trace, TraceLayer
from engine.digest import file_sha256, tensor_digest
from farm.casejob import BundleRef, CaseJob, FileRef, InputRef
from farm.inventory import Device, Link
from farm.sharing import Publisher, load_trace, localise, publisher_for
from farm.store.blobs import BlobStore
from farm.store.remote import RemoteBlobs


def device(**more):
    common = {"chip": "c", "model": "m", "tier": "mid", "abis": ["x86-64"], "memory_mb": 1, "link": Link(kind="local")}
    return Device(**{"name": "d", **common, **more})


def reference(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return FileRef(path=str(path), sha256=file_sha256(path), size=len(data), executable=path.name == "runner")


def trace(folder, values):
    array = np.array(values, dtype=np.float32)
    digest = tensor_digest(array)
    (folder / "tensors").mkdir(parents=True)
    (folder / "tensors" / digest).write_bytes(array.tobytes())
    (folder / "unfinished.part").write_bytes(b"not of the trace")
    layer = TraceLayer("y", "Add", "float32", array.shape, digest, ("x",), NonFinite(), Summary(1, 1, 1), final=True)
    made = Trace("golden", "test", (layer,), (), folder)
    made.save()
    return made


@pytest.fixture
def planned(tmp_path):
    """A job as the planning host has it, and that host's blobs."""
    here = tmp_path / "here"
    files = {"runner": reference(here / "runner", b"#!/bin/sh"), "lib/a.so": reference(here / "a.so", b"library")}
    job = CaseJob(
        case="c",
        role="head",
        device=device(at="lab1"),
        bundle=BundleRef(
            engine="e", version="1", abi="x86-64", digest="b", files=files, runner=("runner",), env={}, level=1
        ),
        model=reference(here / "model", b"model"),
        model_format="onnx",
        inputs=(InputRef(name="x", dtype="float32", shape=(1,), file=reference(here / "x", b"1234")),),
        golden=str(trace(here / "golden", [1.0, 2.0]).folder),
        canonical=str(trace(here / "canonical", [1.0, 2.5]).folder),
        profile="fp32",
        python="/python/of/the/planner",
    )
    return job, BlobStore(here / "blobs", RemoteBlobs((tmp_path / "shared").as_uri()))


@pytest.fixture
def there(tmp_path, monkeypatch):
    """The blobs of a worker elsewhere."""
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path / "there"))
    return BlobStore(tmp_path / "there" / "blobs", RemoteBlobs((tmp_path / "shared").as_uri()))


def arrive(job, here):
    """The job as it comes out of the job table, on a host where the planner's files are not."""
    document = json.loads(json.dumps(job.model_dump(mode="json", exclude_unset=True)))
    here.rename(here.with_name("gone"))
    return CaseJob.model_validate(document)


def test_every_file_of_a_job_is_found_by_content(planned, there, tmp_path):
    job, blobs = planned
    arrived = localise(arrive(Publisher(blobs).share(job), tmp_path / "here"), there)
    wanted = {"runner": b"#!/bin/sh", "lib/a.so": b"library"}
    assert {name: ref.blob().path.read_bytes() for name, ref in arrived.bundle.files.items()} == wanted
    assert arrived.bundle.files["runner"].executable
    assert arrived.model.blob().path.read_bytes() == b"model"
    assert arrived.inputs[0].file.blob().path.read_bytes() == b"1234"
    assert arrived.python == sys.executable


def test_a_trace_arrives_without_its_tensors_until_they_are_asked_for(planned, there, tmp_path):
    job, blobs = planned
    arrived = arrive(Publisher(blobs).share(job), tmp_path / "here")
    golden = load_trace(arrived.golden, arrived.golden_files, there)
    (layer,) = golden.layers
    before = {path.name for path in there.root.rglob("*") if path.is_file()}
    assert np.array_equal(golden.tensor(layer), np.array([1, 2], dtype=np.float32))
    after = {path.name for path in there.root.rglob("*") if path.is_file()}
    assert len(before) == 2  # the list and trace.json
    assert len(after) == 3
    canonical = load_trace(arrived.canonical, arrived.canonical_files, there)
    assert canonical.tensor(canonical.layers[0])[1] == 2.5


def test_a_file_is_taken_where_it_lies_only_when_it_is_the_same(planned, there, tmp_path):
    job, blobs = planned
    shared = Publisher(blobs).share(job)
    assert localise(shared, there).model.path == job.model.path
    (tmp_path / "here" / "model").write_bytes(b"other")  # as long, not the same
    assert localise(shared, there).model.path != job.model.path
    assert localise(shared, there).model.blob().path.read_bytes() == b"model"


def test_a_job_that_was_not_shared_stays_as_it_is(planned, there):
    job, _ = planned
    assert localise(job, there) is job
    assert load_trace(job.golden, None, there).layers[0].id == "y"


def test_what_is_published_twice_travels_once(planned, tmp_path):
    job, blobs = planned
    publisher = Publisher(blobs)
    publisher.share(job)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").rglob("*") if path.is_file()}
    assert publisher.share(job) == Publisher(blobs).share(job)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").rglob("*") if path.is_file()} == stamps
    assert len(stamps) == 10  # two of the bundle, model, input; per trace a list, trace.json, a tensor


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"not json",
        b"{}",
        json.dumps({"trace.json": "0" * 64, "../../etc/passwd": "0" * 64}).encode(),
        json.dumps({"trace.json": "../../etc/passwd"}).encode(),
        json.dumps({"trace.json": 5}).encode(),
        json.dumps({"trace.json": "0" * 64, "tensors/../x": "0" * 64}).encode(),
    ],
)
def test_a_list_of_files_that_is_none_is_refused(there, document):
    with pytest.raises(StoreError, match="is no list of a trace's files"):
        load_trace("/nowhere", there.put_bytes(document), there)


def test_a_tensor_that_the_list_lacks_never_becomes_a_path(planned, there, tmp_path):
    job, blobs = planned
    listed = load_trace(job.golden, Publisher(blobs).share(job).golden_files, there)
    evil = TraceLayer("y", "Add", "float32", (2,), "../../model", (), NonFinite(), Summary(1, 1, 1))
    with pytest.raises(StoreError, match="lacks the tensor of 'y'"):
        listed.tensor(evil)


VARIABLES = ("LOCKSTEP_BROKER_URL", "LOCKSTEP_BROKER_URL_FILE", "LOCKSTEP_BLOBS_URL", "LOCKSTEP_BLOBS_URL_FILE")


@pytest.fixture
def _nothing_set(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("_nothing_set")
def test_a_device_of_another_host_needs_a_broker_and_blobs(monkeypatch, tmp_path):
    fleet = [device(), device(name="phone", at="lab1")]
    with pytest.raises(ConfigError, match=r"device phone is reached by host lab1.*LOCKSTEP_BROKER_URL is not set"):
        publisher_for(fleet)
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", "redis://localhost")
    with pytest.raises(ConfigError, match=r"LOCKSTEP_BLOBS_URL is not set(.|\n)*docs/hosts.md"):
        publisher_for(fleet)
    monkeypatch.setenv("LOCKSTEP_BLOBS_URL", tmp_path.as_uri())
    assert publisher_for(fleet) is not None


@pytest.mark.usefixtures("_nothing_set")
def test_devices_of_this_host_need_neither(monkeypatch, tmp_path):
    assert publisher_for([device()]) is None
    monkeypatch.setenv("LOCKSTEP_BLOBS_URL", tmp_path.as_uri())
    assert publisher_for([device()]) is None  # the workers are children of this command
    monkeypatch.setenv("LOCKSTEP_BROKER_URL", "redis://localhost")
    assert publisher_for([device()]) is not None  # the user's workers may be anywhere
