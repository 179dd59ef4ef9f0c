"""JUnit XML for CI systems: one suite a device, one test case for each case on it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from reports.words import STATUS_WORDS, WRONG, is_known, number, visible

Json = dict[str, Any]


def junit_xml(verdict: Json) -> str:
    """Return the JUnit document.

    ``fail``, ``crashed`` and ``flaky`` are failures; ``infra`` is an error; what was not compared, not supported,
    inconclusive, known to fail or not tested at all is skipped with its reason. Characters that XML 1.0 cannot hold
    are written out (``\\x00``).
    """
    root = ET.Element("testsuites", name="lockstep", time=f"{verdict['run']['seconds']:.3f}")
    for device in verdict["devices"]:
        root.append(_suite(verdict, device))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(verdict: Json, device: Json) -> ET.Element:
    suite = ET.Element("testsuite", name=visible(device["name"]), timestamp=verdict["run"]["started"][:19])
    properties = ET.SubElement(suite, "properties")
    facts = {"chip": device["chip"], "model": device["model"], "abi": device["abi"] or "", "link": device["link"]}
    for name, value in {**facts, "emulated": str(device["emulated"]).lower()}.items():
        ET.SubElement(properties, "property", name=name, value=visible(value))
    records = {case["case"]: case for case in verdict["cases"] if case["device"] == device["name"]}
    names = dict.fromkeys([*records, *(case["case"] for case in verdict["cases"])])
    for name in names or [device["name"]]:
        suite.append(_testcase(name, device, records.get(name)))
    found = [child.tag for testcase in suite.iter("testcase") for child in testcase]
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(found.count("failure")))
    suite.set("errors", str(found.count("error")))
    suite.set("skipped", str(found.count("skipped")))
    return suite


def _testcase(name: str, device: Json, case: Json | None) -> ET.Element:
    element = ET.Element("testcase", classname=visible(f"lockstep.{device['name']}"), name=visible(name))
    if case is None:
        reason = device["reason"] or "this case did not run on this device"
        ET.SubElement(element, "skipped", message=visible(f"Not tested: {reason}"))
        return element
    status = case["status"]
    message = visible(f"{STATUS_WORDS[status]}: {case['reason']}")
    if is_known(case) and status != "pass":
        ET.SubElement(element, "skipped", message=f"Known failure. {message}")
    elif status in WRONG:
        ET.SubElement(element, "failure", type=status, message=message).text = visible_lines(_details(case))
    elif status == "infra":
        ET.SubElement(element, "error", type=status, message=message).text = visible_lines(_details(case))
    elif status != "pass":
        ET.SubElement(element, "skipped", message=message)
    return element


def visible_lines(lines: list[str]) -> str:
    """Return the lines joined, each with what cannot be seen written out."""
    return "\n".join(visible(line) for line in lines)


def _details(case: Json) -> list[str]:
    lines = [f"first deviating layer: {layer}" for layer in case["first_deviating_layers"]]
    if case["worst"]:
        worst = case["worst"]
        lines.append(
            f"worst layer {worst['layer']}: {worst['metric']} measured {number(worst['measured'])}, "
            f"bound {number(worst['bound'])}, would pass at {number(worst['would_pass'])}"
        )
    coverage = case["coverage"]
    lines.append(f"layers compared: {coverage['paired']} of {coverage['expected']}")
    lines += [f"task {t['name']}: {t['status']}, expected {t['expected']}, got {t['got']}" for t in case["tasks"]]
    return lines
