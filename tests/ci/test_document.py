from __future__ import annotations

from types import SimpleNamespace

from ci.document import MOST_NOISY, MOST_OPINIONS, case_entry, coverage, traffic
from consistency.records import Column, Floor, LayerOpinion, LayerRepeats, Quantisation, SecondOpinion


def outcome(device: str, answer: dict | None, paired: int = 2) -> SimpleNamespace:
    found = SimpleNamespace(expected=3, paired=paired, not_observable=1, missing=0, not_compared=0)
    verdict = SimpleNamespace(
        remarks=(),
        coverage=found,
        first_deviating=(),
        worst=None,
        outputs=(),
        changed=SimpleNamespace(
            against="none", layers_changed=0, outputs_changed=(), first_changed_layer=None, reason=""
        ),
        expectation=None,
        profile="fp32",
        opinion=None,
        inner=LayerRepeats(),
    )
    return SimpleNamespace(
        prepared=SimpleNamespace(
            case=SimpleNamespace(id="c", model="m", profile="fp32"), golden=SimpleNamespace(constant=("k",))
        ),
        device=SimpleNamespace(name=device, chip=device, link=SimpleNamespace(kind="local")),
        status="pass",
        notes=(),
        reason="",
        tasks=(),
        verdict=verdict,
        answer=answer or {},
        job=SimpleNamespace(attempts=1, error=None, tries=(), device=device),
        unit=device,
        quantisation=None,
        confirmations=(),
    )


def answer(bundle: str, dispatch: str) -> dict:
    return {
        "fingerprint": {"bundle": bundle, "dispatch": dispatch},
        "traffic": {"deployed": 9, "to_device": 5, "from_device": 7},
        "layer_bytes": 1000,
    }


def matrix(*emulated: str) -> SimpleNamespace:
    devices = [SimpleNamespace(name=name, real=False) for name in emulated]
    return SimpleNamespace(devices=tuple((device, "abi") for device in devices))


def test_two_devices_with_one_binary_and_dispatch_count_once() -> None:
    outcomes = [outcome("a", answer("x", "avx2")), outcome("b", answer("x", "avx2")), outcome("c", answer("y", "neon"))]
    found = coverage(matrix("c"), outcomes, ("a", "b", "c"))
    assert found["distinct_dispatch"] == 2
    assert (found["devices_real"], found["devices_emulated"], found["devices_tested"]) == (2, 1, 3)


def test_a_device_that_did_not_answer_is_not_tested() -> None:
    found = coverage(matrix(), [outcome("a", None, paired=0)], ("a",))
    assert (found["devices_tested"], found["devices_required"], found["layers_paired"]) == (0, 1, 0)


def test_totals_are_the_sums_of_the_cases() -> None:
    outcomes = [outcome("a", answer("x", "avx2")), outcome("b", answer("x", "avx2"), paired=1)]
    found = coverage(matrix(), outcomes, ())
    assert (found["layers_paired"], found["layers_expected"], found["layers_not_observable"]) == (3, 6, 2)
    assert traffic(outcomes) == {"bytes_to_devices": 10, "bytes_from_devices": 14, "layer_bytes": 2000}


def test_readings_of_a_device_are_told_where_they_were_taken() -> None:
    readings = {"of": "device", "before": {"chip_celsius": 39.6}, "after": {}, "notes": []}
    entry = case_entry(outcome("a", answer("x", "avx2") | {"readings": readings, "memory": {"peak_rss_kib": 7}}))
    assert (entry["readings"], entry["memory"]) == (readings, {"peak_rss_kib": 7})
    assert "readings" not in case_entry(outcome("a", answer("x", "avx2")))


def test_the_second_referee_is_told_where_it_was_asked_and_its_layers_are_counted_beyond_those_listed() -> None:
    one = outcome("a", None)
    assert "second_referee" not in case_entry(one)
    layers = tuple(LayerOpinion(f"l{i}", "Conv", 1.0, 0.0, None, 0.1, True, "") for i in range(MOST_OPINIONS + 5))
    one.verdict.opinion = SecondOpinion("golden_suspect", layers, "the evaluator", "why")
    told = case_entry(one)["second_referee"]
    assert (told["status"], told["evaluator"], told["reason"]) == ("golden_suspect", "the evaluator", "why")
    assert (told["total"], len(told["layers"])) == (MOST_OPINIONS + 5, MOST_OPINIONS)
    assert told["layers"][0]["evaluator"] is None


def test_layers_against_themselves_are_told_once_they_ran_twice() -> None:
    one = outcome("a", None)
    assert "itself" not in case_entry(one)
    one.verdict.inner = LayerRepeats("same", 2)
    steady = {"runs": 2, "varying": 0, "first": [], "noise": {}}
    assert case_entry(one)["itself"] == {"runs": 0, "noise": {}, "layers": steady}
    floors = {f"l{i}": Floor(1.0, 2.0) if i else None for i in range(MOST_NOISY + 5)}
    one.verdict.inner = LayerRepeats("varies", 5, ("l0",), floors)
    told = case_entry(one)["itself"]["layers"]
    assert (told["varying"], len(told["noise"]), told["first"]) == (MOST_NOISY + 5, MOST_NOISY, ["l0"])
    assert (told["noise"]["l0"], told["noise"]["l1"]) == (None, {"least": 1.0, "most": 2.0})


def test_the_columns_of_a_quantised_case_are_told_where_there_are_some() -> None:
    one = outcome("a", None)
    assert "quantisation" not in case_entry(one)
    columns = (
        Column("quantisation", "beyond", "y", 0.5, first=("conv",), compared=7),
        Column("backend", "within", "y", 0.0),
    )
    one.quantisation = Quantisation(columns, "model", "why")
    told = case_entry(one)["quantisation"]
    assert (told["blame"], told["reason"]) == ("model", "why")
    assert [(column["name"], column["max_abs"]) for column in told["columns"]] == [
        ("quantisation", 0.5),
        ("backend", 0.0),
    ]
    assert [(list(column["first"]), column["compared"]) for column in told["columns"]] == [(["conv"], 7), ([], 0)]
