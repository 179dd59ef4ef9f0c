"""From a failing gate to a folder that shows the failure alone, on the host and on another device."""

from __future__ import annotations

import json

import pytest

from tests.e2e.bench import HOST, Bench

pytestmark = [pytest.mark.e2e, pytest.mark.qemu, pytest.mark.services, pytest.mark.timeout(600)]

LAYER = "/encoder.1/Conv_output_0"


def test_a_failing_layer_is_cut_out_and_fails_alone(bench: Bench) -> None:
    fleet = bench.fleet({**HOST, "abis": ["x86-64-v3"]})
    done = bench.gate("--devices", fleet, "--inject", f"drop_bias@{LAYER}", "--case", "vad-noise")
    assert done.exit_code == 1, done.text
    folder, run = bench.folder / "bug", str(done.out / "latest")
    made = bench.lockstep("repro", "make", run, "-o", str(folder))
    assert made.exit_code == 0, made.text
    manifest = json.loads((folder / "repro.json").read_text())
    assert (manifest["layer"], manifest["op"], manifest["device"]) == (LAYER, "Conv", "host")
    assert manifest["fingerprint"]["chip"] == HOST["chip"]
    assert f"lockstep repro run {folder}" in (folder / "README.md").read_text()
    for where in ((), ("--devices", fleet, "--device", "host"), ("--engine", "ort-example")):
        shown = bench.lockstep("repro", "run", str(folder), *where)
        assert shown.exit_code == 1, shown.text
        assert f"FAIL Conv `{LAYER}`" in shown.stdout
        assert "differs from the golden" in shown.stdout
    again = bench.lockstep("repro", "make", run, "-o", str(folder))
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    later = bench.lockstep("repro", "make", run, "--layer", "/Relu_1_output_0", "-o", str(bench.folder / "later"))
    assert later.exit_code == 0, later.text
    healthy = bench.lockstep("repro", "run", str(bench.folder / "later"))
    assert (healthy.exit_code, "PASS Relu" in healthy.stdout) == (0, True), "it only inherited its error"
    unknown = bench.lockstep("repro", "run", str(folder), "--device", "nobody", "--devices", fleet)
    assert unknown.exit_code == 2
    assert "has no device 'nobody'" in unknown.stderr
