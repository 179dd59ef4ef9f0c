"""``lockstep compare`` from the command line: exit codes, JSON, words."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xxhash

from ci.cli.main import main
from engine.contract.result import NonFinite
from engine.contract.trace import Summary, Trace, TraceLayer

RANDOM = np.random.default_rng(7)
CONV = RANDOM.normal(size=(1, 2, 3, 4)).astype(np.float32)
OUT = RANDOM.normal(size=10).astype(np.float32)


@pytest.fixture
def compare(monkeypatch, capsys, tmp_path):
    """Runs the command in ``tmp_path``; gives exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["lockstep", "compare", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        told = capsys.readouterr()
        return left.value.code, told.out, told.err

    return run


def strict(text):
    def refuse(token):
        raise AssertionError(f"{token} is no JSON")

    return json.loads(text, parse_constant=refuse)


def layers(text):
    return {layer["name"]: layer for layer in strict(text)["layers"]}


def save(name, **tensors):
    np.savez(name, **tensors)


def save_trace(folder, entries):
    (folder / "tensors").mkdir(parents=True)
    found = []
    for name, op, inputs, values in entries:
        digest = xxhash.xxh3_128(values.tobytes()).hexdigest()
        (folder / "tensors" / digest).write_bytes(values.tobytes())
        summary = Summary(1.0, 1.0, 1.0)
        kind = values.dtype.name
        found.append(TraceLayer(name, op, kind, values.shape, digest, inputs, NonFinite(0, 0, 0), summary))
    Trace("golden", "test", tuple(found), (), folder).save()


def test_equal_captures_pass(compare):
    save("a.npz", conv=CONV, out=OUT)
    save("b.npz", out=OUT, conv=CONV)
    code, out, _ = compare("a.npz", "b.npz", "--json")
    document = strict(out)
    assert (code, document["status"], document["exit_code"]) == (0, "pass", 0)
    assert document["coverage"] == {
        **{"expected": 2, "compared": 2, "missing": 0, "extra": 0, "not_compared": 0},
        "not_observable": 0,
    }
    assert set(layers(out)["conv"]) == {"name", "status", "reason", "metrics", "paired"}
    assert layers(out)["conv"]["paired"] == {"with": "conv", "by": "name", "confidence": 0.9}


def test_a_failing_layer_is_exit_1_and_comes_first(compare):
    save("a.npz", aaa=OUT, zzz=CONV)
    save("b.npz", aaa=OUT, zzz=CONV + np.float32(0.1))
    code, out, _ = compare("a.npz", "b.npz")
    assert code == 1
    assert out.index("FAIL    zzz") < out.index("pass    aaa")
    assert "verdict: FAIL (profile fp32, exit code 1)" in out
    assert max(map(len, out.splitlines())) <= 80


def test_pairing_is_by_name_and_never_by_position(compare):
    save("a.npz", one=OUT, two=OUT * 2)
    save("b.npz", two=OUT * 2, one=OUT)
    assert compare("a.npz", "b.npz")[0] == 0
    save("c.npz", uno=OUT, dos=OUT * 2)
    code, out, _ = compare("a.npz", "c.npz", "--json")
    assert (code, strict(out)["status"]) == (3, "incomplete")
    assert {name: layer["status"] for name, layer in layers(out).items()} == {
        "one": "missing",
        "two": "missing",
        "uno": "extra",
        "dos": "extra",
    }
    assert "nothing was compared" in strict(out)["reasons"]


def test_an_unmatched_layer_on_either_side_is_never_a_pass(compare):
    save("one.npz", out=OUT)
    save("three.npz", out=OUT, extra1=OUT, extra2=OUT)
    code, out, _ = compare("three.npz", "one.npz")
    assert code == 3
    assert "missing extra1" in out
    assert "2 layers of A not in B" in out
    code, out, _ = compare("one.npz", "three.npz")
    assert code == 3
    assert "extra   extra1" in out
    assert "2 layers of B not in A" in out
    assert compare("one.npz", "three.npz", "--allow-extra")[0] == 0
    assert compare("three.npz", "one.npz", "--allow-extra")[0] == 3


def test_an_empty_archive_compares_nothing(compare):
    save("a.npz")
    code, out, _ = compare("a.npz", "a.npz")
    assert code == 3
    assert "nothing was compared" in out


def test_e4_what_cannot_be_compared_lowers_coverage(compare):
    save("a.npz", out=OUT, when=np.array(["2020-01-01"], "M8[D]"), obj=np.array([{}], dtype=object))
    code, out, _ = compare("a.npz", "a.npz", "--json")
    assert code == 3
    assert strict(out)["coverage"]["not_compared"] == 2
    assert layers(out)["obj"]["status"] == "not_compared"


def test_e6_json_is_strict_and_names_stay_whole(compare):
    save("a.npz", **{"BaNaNa_Infinity": OUT, "inf": np.array([1, np.inf], np.float32)})
    save("b.npz", **{"BaNaNa_Infinity": OUT * np.float32(np.nan), "inf": np.array([np.inf, 1], np.float32)})
    code, out, _ = compare("a.npz", "b.npz", "--json")
    assert code == 1
    found = layers(out)["BaNaNa_Infinity"]
    assert found["metrics"]["max_abs"] is None
    assert found["metrics"]["reason"]
    assert found["metrics"]["nan"] == 10


def test_a10_a_declared_layout_passes_and_an_undeclared_one_fails_with_a_hint(compare):
    order = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    Path("a").mkdir()
    Path("b").mkdir()
    np.save("a/y.npy", order)
    Path("b/y.bin").write_bytes(order.transpose(0, 2, 3, 1).tobytes())
    assert compare("a", "b")[0] == 3
    Path("wrong.yaml").write_text("B: {y: {dtype: float32, shape: [1, 2, 3, 4]}}")
    code, out, _ = compare("a", "b", "--meta", "wrong.yaml")
    assert code == 1
    assert "22 of 24 elements differ" in " ".join(out.split())
    assert "equal after NCHW-NHWC transpose" in " ".join(out.split())
    Path("right.json").write_text('{"B": {"y": {"dtype": "float32", "shape": [1, 3, 4, 2], "layout": "NHWC"}}}')
    assert compare("a", "b", "--meta", "right.json")[0] == 0


def test_a23_an_impossible_zero_point_is_refused(compare):
    save("a.npz", y=np.zeros(3, np.uint8))
    text = "both: {y: {quantisation: {scale: 1.161671, zero_point: -16, dtype: uint8}}}"
    Path("meta.yaml").write_text(text)
    code, out, err = compare("a.npz", "a.npz", "--meta", "meta.yaml", "--json")
    assert code == 2
    assert "zero point -16 is outside the range of uint8" in err
    assert strict(out)["exit_code"] == 2


def test_a_trace_names_who_introduced_an_error_and_who_inherits_it(compare, tmp_path):
    net = [("x", "", (), OUT), ("conv", "Conv", ("x",), OUT * 2), ("relu", "Relu", ("conv",), abs(OUT) + 1)]
    net.append(("side", "Relu", ("x",), OUT * 3))
    save_trace(tmp_path / "a", net)
    bad = [(name, op, inputs, value + (name in ("conv", "relu"))) for name, op, inputs, value in net]
    save_trace(tmp_path / "b", [(n, o, i, v.astype(np.float32)) for n, o, i, v in bad])
    code, out, _ = compare("a", "b", "--json")
    assert code == 1
    assert strict(out)["first_deviating_layers"] == ["conv"]
    assert "first deviating layer; inputs seen: `x` in [" in layers(out)["conv"]["reason"]
    assert "inherited" in layers(out)["relu"]["reason"]
    assert layers(out)["side"]["status"] == "pass"
    _, out, _ = compare("a", "b")
    assert out.index("FAIL    conv") < out.index("FAIL    relu")


def test_two_lone_files_are_a_pair_whatever_they_are_called(compare):
    np.save("golden.npy", OUT)
    np.save("phone.npy", OUT)
    code, out, _ = compare("golden.npy", "phone.npy")
    assert code == 0
    assert "pass    golden" in out


def test_e7_detections_without_a_box(compare):
    save("none.npz", boxes=np.zeros((0, 4), np.float32))
    save("three.npz", boxes=np.zeros((3, 4), np.float32))
    code, out, _ = compare("none.npz", "none.npz")
    assert code == 0
    assert "empty" in out
    code, out, _ = compare("none.npz", "three.npz")
    assert code == 1
    assert "shape 3x4 where the reference has 0x4" in out


def test_profiles_decide(compare):
    save("a.npz", out=OUT)
    save("b.npz", out=OUT * np.float32(1 + 1e-3))
    assert compare("a.npz", "b.npz")[0] == 1
    assert compare("a.npz", "b.npz", "--profile", "fp16")[0] == 0
    save("c.npz", out=np.nextafter(OUT, np.float32(9)))
    assert compare("a.npz", "c.npz")[0] == 0
    assert compare("a.npz", "c.npz", "--profile", "bitexact")[0] == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("gone.npz", "a.npz"), "gone.npz: no such file"),
        (("a.npz", "broken.npz"), "broken.npz: cannot be read"),
        (("a.npz", "a.npz", "--meta", "gone.yaml"), "gone.yaml: no such file"),
        (("a.npz", "a.npz", "--profile", "fp33"), "fp33"),
        (("a.npz",), "Missing argument"),
    ],
)
def test_bad_usage_is_exit_2_with_a_next_step(compare, words, told):
    save("a.npz", out=OUT)
    Path("broken.npz").write_bytes(b"PK\x03\x04 nonsense")
    code, _, err = compare(*words)
    assert code == 2
    assert told in err
    assert "Traceback" not in err


def test_a_name_cannot_move_the_cursor(compare, tmp_path):
    save_trace(tmp_path / "a", [("bad\x1b[2Jname", "Conv", ("x",), OUT)])
    code, out, _ = compare("a", "a")
    assert code == 0
    assert "\x1b[2J" not in out
    assert "bad\\x1b[2Jname" in out


def save_steps(folder, tokens, **layers):
    """A folder of decode steps, each with its one token and the ``layers`` of that step."""
    for step, token in enumerate(tokens):
        (folder / f"step-{step}").mkdir(parents=True)
        np.save(folder / f"step-{step}" / "token.npy", np.int64([token]))
        for name, values in layers.items():
            np.save(folder / f"step-{step}" / f"{name}.npy", values[step])


def test_a24_twenty_equal_tokens_are_constant_and_the_layers_start_at_step_0(compare, tmp_path):
    tokens = [int(token) for token in np.arange(1, 21) * 7 % 11]
    right = [CONV + np.float32(step) for step in range(20)]
    save_steps(tmp_path / "cpu", tokens, attention=right, mask=[CONV] * 20)
    save_steps(tmp_path / "npu", [0] * 20, attention=[values + 1 for values in right], mask=[CONV] * 20)
    code, out, _ = compare("cpu", "npu", "--json")
    found = strict(out)
    assert (code, found["first_deviating_step"]) == (1, 0)
    assert "step 0 is the first that disagrees" in found["reasons"]
    steps = [int(layer["name"].partition("/")[0].removeprefix("step-")) for layer in found["layers"]]
    assert steps == sorted(steps), "step 10 does not come before step 2"
    told = layers(out)
    assert told["step-0/token"]["metrics"]["decided_by"] == "constant"
    assert told["step-3/token"]["reason"].startswith("constant output: 0 in all 20 steps where the reference varies")
    assert told["step-0/attention"]["status"] == "fail", "a layer inside is compared at step 0 too"
    assert {told[f"step-{step}/mask"]["status"] for step in range(20)} == {"pass"}, (
        "what is constant on both sides is right"
    )
    code, out, _ = compare("cpu", "npu")
    assert out.index("step-0/attention") < out.index("step-1/attention")
    assert "step 0 is the first that disagrees" in out


def test_steps_are_paired_by_number_however_they_are_written(compare):
    save("a.npz", **{f"step-{step}/x": CONV + step for step in range(11)})
    save("b.npz", **{f"iter_{step:02}/x": CONV + step for step in range(11)})
    code, out, _ = compare("a.npz", "b.npz", "--json")
    assert code == 0
    assert layers(out)["step-10/x"]["paired"] == {"with": "iter_10/x", "by": "name", "confidence": 0.9}
    assert strict(out)["first_deviating_step"] is None
    save("c.npz", **{"step-1/x": CONV + 1, "step_1/x": CONV + 2, "step-0/x": CONV})
    save("d.npz", **{"iter-1/x": CONV + 1, "step-0/x": CONV})
    code, out, _ = compare("c.npz", "d.npz", "--json")
    assert code == 3, "which of two is meant would be a guess"
    assert layers(out)["step-1/x"]["status"] == "missing"


def test_a_step_that_is_missing_is_never_a_pass(compare):
    save("a.npz", **{f"step-{step}/x": CONV + step for step in range(3)})
    save("b.npz", **{f"step-{step}/x": CONV + step for step in range(1, 3)})
    code, out, _ = compare("a.npz", "b.npz", "--json")
    assert (code, layers(out)["step-0/x"]["status"]) == (3, "missing")


def test_each_step_may_be_a_capture_of_its_own(compare, tmp_path):
    for side, wrong in (("a", 0.0), ("b", 1.0)):
        for step in range(3):
            x = CONV + np.float32(step)
            y = x * 2 + np.float32(wrong * (step > 0))
            save_trace(tmp_path / side / f"step-{step}", [("x", "Conv", ("in",), x), ("y", "Mul", ("x",), y)])
        np.savez(tmp_path / side / "step-3.npz", z=OUT)
    code, out, _ = compare("a", "b", "--json")
    found = strict(out)
    assert (code, found["first_deviating_step"], found["first_deviating_layers"]) == (1, 1, ["step-1/y"])
    told = layers(out)
    assert told["step-0/y"]["status"] == told["step-3/z"]["status"] == "pass"
    assert "behind step 1, which disagrees already" in told["step-2/y"]["reason"]
    np.savez(tmp_path / "a" / "step-1.npz", x=CONV)
    code, _, err = compare("a", "b")
    assert (code, "two captures of step-1 hold step-1/x" in err) == (2, True)
