"""A runner that crashes, hangs or lies: a clear message, the right exit code, never a green."""

from __future__ import annotations

import pytest

from tests.e2e.bench import HOST, REPOSITORY, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.services]
RESULT = (
    '{"contract":1,"job":"%s","attempt":1,"runner":{"name":"x","version":"1","level":0},'
    '"effective":{"backend":"cpu","precision":"fp32","threads":1,"dispatch":"x"},"passes":[],"outputs":[]}'
)


@pytest.mark.parametrize(
    ("script", "status", "exit_code", "words"),
    [
        ("kill -SEGV $$", "crashed", 1, "SIGSEGV"),
        ("kill -ILL $$", "crashed", 1, "built for instructions this CPU lacks"),
        ("exit 77", "crashed", 1, "exit code 77"),
        ("echo cannot load >&2; exit 4", "crashed", 1, "the runtime failed: cannot load"),
        ("echo no Softmax here >&2; exit 3", "unsupported", 3, "no Softmax here"),
        ("exit 0", "crashed", 1, "exit code 0 but no usable result.json"),
        ("mkdir -p out; echo '{]' > out/result.json", "crashed", 1, "result.json is not JSON"),
        ("mkdir -p out; echo '{\"contract\": NaN}' > out/result.json", "crashed", 1, "NaN is not JSON"),
        ("mkdir -p out; echo '[]' > out/result.json", "crashed", 1, "result is list, not an object"),
        ("mkdir -p out; ln -s /etc/passwd out/result.json", "crashed", 1, "no usable result.json"),
        (f"mkdir -p out; echo '{RESULT % 'another'}' > out/result.json", "crashed", 1, "answers job 'another'"),
    ],
)
def test_a_runner_that_misbehaves(bench: Bench, script: str, status: str, exit_code: int, words: str) -> None:
    engine = bench.engine("broken", script)
    done = bench.gate("--engine", engine, "--devices", bench.fleet(HOST), "--case", "vad-noise")
    entry = done.case("vad-noise", "host")
    assert entry["status"] == status
    assert words in entry["reason"]
    assert done.exit_code == exit_code
    assert done.verdict["exit_code"] == exit_code


ANSWER = """
mkdir -p out
: > out/o.bin
job=$(sed 's/.*"job":"\\([^"]*\\)".*/\\1/' request.json)
cat > out/result.json <<END
{"contract":1,"job":"$job","attempt":1,"runner":{"name":"x","version":"1","level":0},
 "effective":{"backend":"cpu","precision":"fp32","threads":1,"dispatch":"x"},
 "passes":[{"kind":"plain","iteration":0,"outputs":{"speech_probs":"%(digest)s"},"latency_ns":1}],
 "outputs":[{"name":"speech_probs","dtype":"%(dtype)s","shape":%(shape)s,"digest":"%(digest)s","path":"%(path)s"}]}
END
"""
EMPTY = "99aa06d3014798d86001c324468d497f"


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"dtype": "float32", "shape": "[3]", "path": "o.bin"}, "crashed", "holds 0 bytes where float32[3] needs 12"),
        ({"dtype": "float32", "shape": f"[{2**40}, {2**40}]", "path": "o.bin"}, "crashed", "holds 0 bytes"),
        ({"dtype": "float32", "shape": "[0]", "path": "../../../etc/passwd"}, "crashed", "outside its folder"),
        ({"dtype": "float32", "shape": "[0]", "path": "absent.bin"}, "crashed", "which is not there"),
        (
            {"dtype": "float32", "shape": "[0]", "path": "o.bin", "digest": "0" * 32},
            "crashed",
            "does not have the digest",
        ),
        ({"dtype": "complex77", "shape": "[0]", "path": "o.bin"}, "fail", "speech_probs"),
        ({"dtype": "float32", "shape": "[0]", "path": "o.bin"}, "fail", "shape"),
    ],
)
def test_outputs_that_do_not_hold_what_they_say(bench: Bench, answer: dict[str, str], status: str, words: str) -> None:
    script = ANSWER % {"digest": EMPTY, **answer}
    done = bench.gate("--engine", bench.engine("liar", script), "--devices", bench.fleet(HOST), "--case", "vad-noise")
    entry = done.case("vad-noise", "host")
    assert words in entry["reason"]
    assert entry["status"] == status
    assert done.exit_code != 0


def test_a_runner_that_hangs_is_ended_at_its_deadline(bench: Bench) -> None:
    engine = bench.engine("hanging", "sleep 600")
    suite = bench.folder / "short.yaml"
    text = (REPOSITORY / "suites" / "smoke.yaml").read_text()
    suite.write_text(text.replace("  - id: vad-noise\n", "  - id: vad-noise\n    limits: {seconds: 1}\n"))
    done = bench.gate("--suite", str(suite), "--engine", engine, "--devices", bench.fleet(HOST), "--case", "vad-noise")
    entry = done.case("vad-noise", "host")
    assert entry["status"] == "crashed"
    assert "no result within 1 s; the device still answers, so the engine hangs" in entry["reason"]
    assert done.exit_code == 1


def test_a_result_larger_than_the_suite_allows_is_refused(bench: Bench) -> None:
    engine = bench.engine("talker", "mkdir -p out; head -c 2000 /dev/zero > out/result.json")
    suite = bench.folder / "small.yaml"
    text = (REPOSITORY / "suites" / "smoke.yaml").read_text()
    suite.write_text(text.replace("  - id: vad-noise\n", "  - id: vad-noise\n    limits: {result_bytes: 1024}\n"))
    done = bench.gate("--suite", str(suite), "--engine", engine, "--devices", bench.fleet(HOST), "--case", "vad-noise")
    assert "larger than 1024 bytes" in done.case("vad-noise", "host")["reason"]
    assert done.exit_code == 1


def test_a_runner_that_answers_only_sometimes_is_flaky(bench: Bench) -> None:
    mark = bench.folder / "mark"
    engine = bench.engine("flaky", f"test -e {mark} && exit 3; touch {mark}; kill -SEGV $$")
    done = bench.gate("--engine", engine, "--devices", bench.fleet(HOST), "--case", "vad-noise")
    assert done.case("vad-noise", "host")["status"] == "flaky"
    assert done.exit_code == 1
