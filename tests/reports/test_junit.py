from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from reports.junit import junit_xml
from tests.reports import parts, sample

SUITE_CHILDREN = ["properties", "testcase"]
OUTCOMES = {"failure", "error", "skipped"}


def parse(run: parts.RunSample) -> ET.Element:
    return ET.fromstring(junit_xml(run.verdict))


@pytest.mark.parametrize("name", sorted(set(sample.SAMPLES) - {"large"}))
def test_the_common_shape_holds_and_counts_add_up(name: str) -> None:
    root = parse(sample.SAMPLES[name]())
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        assert suite.get("name")
        assert {child.tag for child in suite} <= set(SUITE_CHILDREN)
        cases = suite.findall("testcase")
        assert all(case.get("name") and case.get("classname") for case in cases)
        assert all(len(case) <= 1 and {child.tag for child in case} <= OUTCOMES for case in cases)
        assert all(child.get("message") for case in cases for child in case)
        assert suite.get("tests") == str(len(cases))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(key) == str(len(suite.findall(f"testcase/{tag}")))
    for key in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(key, "")) == sum(int(suite.get(key, "")) for suite in root)


def test_one_test_case_for_each_case_on_each_device() -> None:
    run = sample.missing_device()
    root = parse(run)
    assert root.get("tests") == "36"
    skipped = root.findall("testsuite[@name='rv64']/testcase/skipped")
    assert len(skipped) == 6
    assert skipped[0].get("message") == "Not tested: qemu-riscv64 10.0 or newer is not installed"


@pytest.mark.parametrize(
    ("status", "notes", "tag", "message"),
    [
        ("fail", [], "failure", "Fail: why"),
        ("crashed", [], "failure", "Crashed: why"),
        ("flaky", [], "failure", "Flaky: why"),
        ("infra", [], "error", "Farm fault: why"),
        ("unsupported", [], "skipped", "Unsupported: why"),
        ("not_compared", [], "skipped", "Not compared: why"),
        ("inconclusive", [], "skipped", "Inconclusive: why"),
        ("fail", ["known_failure"], "skipped", "Known failure. Fail: why"),
    ],
)
def test_statuses_map_to_outcomes(status: str, notes: list[str], tag: str, message: str) -> None:
    run = sample.all_pass()
    run.case("page-0", "a53").update(status=status, notes=notes, reason="why")
    (outcome,) = parse(run).findall("testsuite[@name='a53']/testcase[@name='page-0']/*")
    assert (outcome.tag, outcome.get("message")) == (tag, message)


def test_a_failure_tells_layer_measured_and_bound() -> None:
    failure = parse(sample.failing()).find(".//failure")
    assert failure is not None
    assert "first deviating layer: p2o.pd_op.conv2d.4.0" in (failure.text or "")
    assert "scaled_rms measured 0.31, bound 1e-4, would pass at 0.31" in (failure.text or "")


def test_characters_xml_cannot_hold_are_written_out() -> None:
    run = sample.all_pass()
    run.case("page-0", "a53").update(status="fail", reason="\x00\x1b[31m\ud800\ufffe]]>&<")
    failure = parse(run).find(".//failure")
    assert failure is not None
    assert failure.get("message") == "Fail: \\x00\\x1b[31m\\ud800\\ufffe]]>&<"
