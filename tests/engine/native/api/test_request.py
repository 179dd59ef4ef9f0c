"""Requests the runner must refuse, each with the right exit code and words; and what it says about itself."""

import json

import numpy as np
import pytest

from engine.models.export import export_refrt


@pytest.fixture
def relu(refrt, one_node):
    export_refrt(one_node("Relu", {"a": np.zeros(3, dtype=np.float32)}), {}, refrt.folder / "m.refrt")
    return refrt.folder / "m.refrt"


@pytest.fixture
def ask(refrt, relu):
    """Send a good request after ``change(document)``."""

    def run(change=lambda document: None):
        values = {"a": np.array([-1, 2, 3], dtype=np.float32)}
        document = json.loads(refrt.request(relu, values).to_json())
        change(document)
        return refrt.send(json.dumps(document))

    return run


def put(**values):
    return lambda document: document.update(values)


def test_a_good_request(ask, refrt):
    done = ask()
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["pass", "pass", "done"]
    assert sorted(path.name for path in (refrt.folder / "out").iterdir()) == ["outputs", "result.json"]


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (put(backend="vulkan"), 3, "backend vulkan is not supported; refrt runs on cpu"),
        (put(precision="fp16"), 3, "precision fp16 is not supported"),
        (put(strategy={"a": 1}), 3, "a strategy is not supported"),
        (put(isolated={"y": 3}), 2, "request.isolated[y] is not an object"),
        (put(isolated={"y": {"a": {}}}), 2, "request.isolated[y][a].dtype is missing"),
        (put(contract=2), 2, "request.contract is 2"),
        (put(threads=0), 2, "request.threads is 0, outside 1"),
        (put(threads=1.5), 2, "request.threads is not a whole number"),
        (put(passes=["plain", "sideways"]), 2, "request.passes names unknown pass sideways"),
        (put(passes=[]), 2, "request.passes is empty"),
        (put(iterations=0), 2, "request.iterations is 0"),
        (put(inputs=[]), 2, "the request has 0 inputs, the model 1"),
        (put(job=7), 2, "request.job is not a string"),
        (put(limits={"seconds": 0}), 2, "request.limits.seconds is not usable"),
        (put(limits={"result_bytes": 10}), 4, "bytes; the request allows 10"),
        (lambda d: d["model"].update(format="onnx"), 3, "model format onnx is not supported"),
        (lambda d: d["model"].update(path="absent.refrt"), 2, "cannot open absent.refrt: No such file"),
        (lambda d: d["model"].update(path="."), 2, ". is not a regular file"),
        (lambda d: d["inputs"][0].update(name="b"), 2, "the request lacks input a"),
        (lambda d: d["inputs"][0].update(dtype="float64"), 2, "input a is float64[3]; the model has float32[3]"),
        (lambda d: d["inputs"][0].update(shape=[4]), 2, "input a is float32[4]"),
        (lambda d: d["inputs"][0].update(path="request.json"), 2, "bytes where 12 are needed"),
        (lambda d: d.pop("model"), 2, "request.model is missing"),
    ],
)
def test_refusals(ask, refrt, change, code, words):
    assert ask().returncode == 0  # an earlier result must not survive a refusal
    done = ask(change)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (refrt.folder / "out" / "result.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"contract":1', "\xff", "[" * 100_000, '{"a":' * 100_000])
def test_what_is_no_request(refrt, text):
    done = refrt.send(text)
    assert done.returncode == 2
    assert done.stderr.startswith("refrt: request.json: ")


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["run", "--request", "x"], ["fly"], ["run", "--out", "a", "--x", "b"]]
)
def test_usage(refrt, arguments):
    done = refrt.call(*arguments)
    assert done.returncode == 2
    assert "usage: refrt run --request FILE --out DIR" in done.stderr


def test_no_room_for_results(refrt, relu, ask):
    (refrt.folder / "out").write_text("a file in the way")
    done = ask()
    assert done.returncode == 4
    assert "cannot" in done.stderr


def test_info(refrt):
    info = json.loads(refrt.call("info").stdout)
    assert info["name"] == "refrt"
    assert info["build"] == "canonical"
    assert info["dispatch"] == "sse2"
    assert {"Conv", "LSTM", "Softmax"} <= set(info["ops"])


def test_version(refrt):
    done = refrt.call("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("refrt ")
