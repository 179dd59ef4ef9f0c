import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.gate import gate_outcome
from consistency.records import GateCase

STATUSES = ["pass", "fail", "crashed", "flaky", "unsupported", "not_compared", "inconclusive", "infra"]


def case(status, required=True, reason="", device="a53"):
    return GateCase("vad/noise", device, status, required, reason)


def test_all_pass_is_green():
    outcome = gate_outcome([case("pass"), case("pass")])
    assert (outcome.status, outcome.exit_code, outcome.reasons) == ("pass", 0, ("2 pass",))


@pytest.mark.parametrize("status", ["fail", "crashed", "flaky"])
@pytest.mark.parametrize("required", [True, False])
def test_red_is_red_required_or_not(status, required):
    outcome = gate_outcome([case("pass"), case(status, required, "Conv `x` differs")])
    assert (outcome.status, outcome.exit_code) == ("fail", 1)
    assert outcome.reasons == (f"vad/noise on a53: {status}: Conv `x` differs",)


@pytest.mark.parametrize("status", ["unsupported", "not_compared", "inconclusive", "infra"])
def test_a_required_item_without_a_verdict_is_neutral(status):
    assert gate_outcome([case("pass"), case(status)]).exit_code == 3
    assert gate_outcome([case("pass"), case(status, required=False)]).exit_code == 0


def test_a_required_device_that_was_not_tested_is_neutral():
    outcome = gate_outcome([case("pass")], required_missing=["rv64 was deselected by --device"])
    assert (outcome.status, outcome.exit_code, outcome.reasons) == (
        "incomplete",
        3,
        ("rv64 was deselected by --device",),
    )
    assert gate_outcome([case("pass")], unproved_strategies=["npu-7"]).reasons == ("strategy npu-7 was not proved",)


def test_red_comes_before_missing_and_usage_before_red():
    assert gate_outcome([case("fail")], required_missing=["x"]).exit_code == 1
    outcome = gate_outcome([case("fail")], usage_errors=["no device `a35`"])
    assert (outcome.status, outcome.exit_code, outcome.reasons) == ("error", 2, ("no device `a35`",))


@pytest.mark.parametrize("cases", [[], [case("infra", required=False)]])
def test_nothing_compared_is_never_green(cases):
    outcome = gate_outcome(cases)
    assert (outcome.exit_code, outcome.reasons[-1]) == (3, "nothing was compared")


def test_a_failing_chip_pair_is_red_and_an_open_one_neutral():
    assert gate_outcome([case("pass")], chip_pairs=[case("fail", device="a53 and v1")]).exit_code == 1
    assert gate_outcome([case("pass")], chip_pairs=[case("inconclusive", device="a53 and v1")]).exit_code == 3


def test_many_reasons_are_cut_and_counted():
    reasons = gate_outcome([case("fail", device=f"d{n}") for n in range(25)]).reasons
    assert (len(reasons), reasons[-1]) == (11, "and 15 more")


@given(st.lists(st.tuples(st.sampled_from(STATUSES), st.booleans())))
def test_green_only_when_every_required_case_passed(cases):
    outcome = gate_outcome([case(status, required) for status, required in cases])
    red = any(status in ("fail", "crashed", "flaky") for status, _ in cases)
    open_ = any(required and status != "pass" for status, required in cases)
    assert (outcome.exit_code == 1) == red
    assert not (outcome.exit_code == 0 and open_)
    assert outcome.reasons
