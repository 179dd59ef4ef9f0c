"""A runner that crashes, hangs or lies: a clear message, the right exit code, never a green."""

from __future__ import annotations

import pytest

from tests.e2e.bench import HOST, REPOSITORY, Bench, Outcome

pytestmark = [pytest.mark.e2e, pytest.mark.services]
RESULT = (
    '{"contract":1,"job":"%s","attempt":1,"runner":{"name":"x","version":"1","level":0},'
    '"effective":{"backend":"cpu","precision":"fp32","threads":1,"dispatch":"x"},"passes":[],"outputs":[]}'
)


MISBEHAVES = [
    ("kill -SEGV $$", "crashed", "SIGSEGV"),
    ("kill -ILL $$", "crashed", "built for instructions this CPU lacks"),
    ("exit 77", "crashed", "exit code 77"),
    ("echo cannot load >&2; exit 4", "crashed", "the runtime failed: cannot load"),
    ("exit 0", "crashed", "exit code 0 but no usable result.json"),
    ("mkdir -p out; echo '{]' > out/result.json", "crashed", "result.json is not JSON"),
    ("mkdir -p out; echo '{\"contract\": NaN}' > out/result.json", "crashed", "NaN is not JSON"),
    ("mkdir -p out; echo '[]' > out/result.json", "crashed", "result is list, not an object"),
    ("mkdir -p out; ln -s /etc/passwd out/result.json", "crashed", "no usable result.json"),
    (f"mkdir -p out; echo '{RESULT % 'another'}' > out/result.json", "crashed", "answers job 'another'"),
]


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


def lying(**answer: str) -> str:
    """A runner whose one output does not hold what it says."""
    return ANSWER % {"digest": EMPTY, "dtype": "float32", "shape": "[0]", "path": "o.bin", **answer}


LIES = [
    (lying(shape="[3]"), "crashed", "holds 0 bytes where float32[3] needs 12"),
    (lying(shape=f"[{2**40}, {2**40}]"), "crashed", "holds 0 bytes"),
    (lying(path="../../../etc/passwd"), "crashed", "outside its folder"),
    (lying(path="absent.bin"), "crashed", "which is not there"),
    (lying(digest="0" * 32), "crashed", "does not have the digest"),
    (lying(dtype="complex77"), "fail", "speech_probs"),
    (lying(), "fail", "shape"),
]
BROKEN = {f"broken-{number}": entry for number, entry in enumerate([*MISBEHAVES, *LIES], start=1)}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One gate on a device for each broken runner; the number of threads that it is asked for tells which one to be."""
    bench = Bench(tmp_path_factory.mktemp("broken"))
    names = [f"{name}.sh" for name in BROKEN]
    choose = 'exec /bin/sh "${0%/*}/broken-$(sed \'s/.*"threads":\\([0-9]*\\).*/\\1/\' request.json).sh"'
    engine = bench.engine("broken", choose, abis={"x86-64": {"files": ["runner.sh", *names]}})
    for name, (script, _, _) in BROKEN.items():
        (bench.folder / "broken" / f"{name}.sh").write_text(script)
    devices = [{**HOST, "name": name, "model": name, "threads": int(name.split("-")[1])} for name in BROKEN]
    return bench.gate("--engine", engine, "--devices", bench.fleet(*devices), "--case", "vad-noise")


@pytest.mark.parametrize("name", BROKEN)
def test_a_runner_that_misbehaves_or_lies(outcome: Outcome, name: str) -> None:
    _, status, words = BROKEN[name]
    entry = outcome.case("vad-noise", name)
    assert words in entry["reason"]
    assert entry["status"] == status
    assert outcome.exit_code == outcome.verdict["exit_code"] == 1


@pytest.mark.parametrize(
    ("script", "status", "exit_code", "words"),
    [
        ("kill -SEGV $$", "crashed", 1, "SIGSEGV"),
        ("echo no Softmax here >&2; exit 3", "unsupported", 3, "no Softmax here"),
    ],
)
def test_the_exit_code_of_a_gate(bench: Bench, script: str, status: str, exit_code: int, words: str) -> None:
    engine = bench.engine("broken", script)
    done = bench.gate("--engine", engine, "--devices", bench.fleet(HOST), "--case", "vad-noise")
    entry = done.case("vad-noise", "host")
    assert entry["status"] == status
    assert words in entry["reason"]
    assert done.exit_code == exit_code
    assert done.verdict["exit_code"] == exit_code


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
