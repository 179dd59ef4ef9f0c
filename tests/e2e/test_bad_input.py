"""What a user can get wrong: each a clear message with the next step and exit code 2."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from engine.places import cache_root
from tests.e2e.bench import HOST, Bench

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "cortex-a35"], "unknown device 'cortex-a35': did you mean 'cortex-a53'?"),
        (["--chip", "neoverse"], "unknown chip 'neoverse': did you mean 'neoverse-v1'?"),
        (["--tier", "hi"], "unknown tier 'hi'"),
        (["--case", "vad-nois"], "unknown case 'vad-nois' in suite 'smoke': did you mean 'vad-noise'?"),
        (["--suite", "smok"], "unknown suite 'smok': did you mean 'smoke'?"),
        (["--engine", "refr"], "unknown engine 'refr': did you mean 'refrt'?"),
        (["--devices", "absent.yaml"], "absent.yaml: no such file"),
        (["--base", "no-such-ref"], "no-such-ref"),
        (["--inject", "nonsense"], "is not KIND@LAYER"),
        (["--inject", "scale_weight@x"], "did you mean 'scale_weights'?"),
        (["--profile", "fp33"], "fp33"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(bench: Bench, words: list[str], message: str) -> None:
    done = bench.gate(*words)
    assert message in done.text
    assert done.exit_code == 2
    assert not (bench.folder / "out").exists(), "nothing half-written is left"


def test_an_inapplicable_fault_lists_where_it_applies(bench: Bench) -> None:
    done = bench.gate("--inject", "wrong_padding@fetch_name_0")
    assert done.exit_code == 2
    assert "wrong_padding does not apply to that Softmax layer" in done.text
    assert "p2o.pd_op.conv2d.0.0" in done.text


def test_broken_yaml_names_file_and_line(bench: Bench) -> None:
    broken = bench.folder / "devices.yaml"
    broken.write_text("devices: [")
    done = bench.gate("--devices", str(broken))
    assert done.exit_code == 2
    assert "not valid YAML" in done.text
    assert "line 1" in done.text


def test_a_model_of_another_hash_is_refused(bench: Bench) -> None:
    text = Path("suites/smoke.yaml").read_text()
    suite = bench.folder / "other.yaml"
    suite.write_text(text.replace("9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85", "a" * 64))
    done = bench.gate("--suite", str(suite))
    assert done.exit_code == 3, "nothing is known about the engine"
    assert "9ccdacc4719d" in done.text, "the hash it has"
    assert "aaaaaaaaaa" in done.text, "the hash it should have"


def test_a_device_whose_emulator_is_missing_is_not_tested_and_never_green(bench: Bench) -> None:
    phone = {
        **HOST,
        "name": "phone",
        "chip": "haswell",
        "link": {"kind": "emulated", "emulator": "qemu-x86_64", "cpu": "Haswell"},
    }
    bench.environment["LOCKSTEP_CACHE"] = str(cache_without(bench.folder / "cache", "emulators-"))
    done = bench.gate("--devices", bench.fleet(HOST, phone), "--engine", "ort-example", "--case", "vad-noise")
    assert done.exit_code == 3
    entry = next(entry for entry in done.verdict["not_tested"] if entry["name"] == "phone")
    assert "make setup" in entry["next_step"]
    assert done.case("vad-noise", "host")["status"] == "pass", "the others are tested all the same"


def cache_without(folder: Path, absent: str) -> Path:
    """The machine's cache by links, but for Debian trees whose name begins with ``absent``."""
    (folder / "debian").mkdir(parents=True)
    for entry in cache_root().iterdir():
        if entry.name != "debian":
            (folder / entry.name).symlink_to(entry)
    for entry in (cache_root() / "debian").iterdir():
        if not entry.name.startswith(absent):
            (folder / "debian" / entry.name).symlink_to(entry)
    return folder


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "model"), (b"\x00" * 100, "model"), (b"\x08\x07\x12\xff\xff\xff\xff\x0f", "model")],
    ids=["empty", "zeros", "hostile length"],
)
def test_a_model_that_is_no_model_is_refused(bench: Bench, data: bytes, words: str) -> None:
    model = bench.folder / "broken.onnx"
    model.write_bytes(data)
    suite = bench.folder / "own.yaml"
    suite.write_text(
        json.dumps(
            {
                "name": "own",
                "models": [{"id": "m", "sha256": hashlib.sha256(data).hexdigest(), "path": "broken.onnx"}],
                "inputs": [{"id": "zero", "recipe": "zeros", "parameters": {"shape": [1, 3]}}],
                "cases": [{"id": "c", "model": "m", "inputs": {"x": "zero"}}],
            }
        )
    )
    done = bench.gate("--suite", str(suite), "--devices", bench.fleet(HOST))
    assert done.exit_code == 2
    assert words in done.text
    assert "next:" in done.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk; CI is root")
def test_a_full_disk_is_told_as_such_and_nothing_half_written_is_left(bench: Bench) -> None:
    small = bench.folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", small], check=True)
    try:
        bench.environment["LOCKSTEP_STATE"] = str(small)
        words = ("--engine", "ort-example", "--devices", bench.fleet(HOST), "--case", "vad-noise")
        done = bench.gate(*words)
        assert done.exit_code == 3
        entry = done.case("vad-noise", "host")
        assert entry["status"] == "infra"
        assert "MiB free where bundles live" in entry["reason"]
        (small / "fill").write_bytes(bytes(39 * 1024 * 1024))
        with contextlib.suppress(OSError), (small / "fill").open("ab") as stream:
            while True:
                stream.write(bytes(4096))
                stream.flush()
        full = bench.gate(*words)
        assert full.exit_code == 3
        assert "next:" in full.text
    finally:
        subprocess.run(["umount", "-l", small], check=True)
