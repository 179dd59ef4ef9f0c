from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reports import RenderedReport, ReportError, render, strict_json
from reports.cells import CLASSES
from reports.layers import STATUSES
from reports.words import visible
from tests.reports import parts, sample

Write = Callable[[parts.RunSample], Path]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> RenderedReport:
    """The large run, rendered once."""
    return render(sample.large().write(tmp_path_factory.mktemp("large")))


class Page(HTMLParser):
    """Text of a page by the element that holds it; data blocks by their id."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.stack: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.data: dict[str, str] = {}
        self.scripts = 0
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag in ("meta", "link", "br", "use", "path", "circle", "rect"):
            return
        self.stack.append((tag, dict(attrs)))
        if tag == "script" and not dict(attrs).get("type"):
            self.scripts += 1
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag, attributes in self.stack[-1:]:
            self.texts[tag][-1] += data
            if tag == "script" and attributes.get("id"):
                self.data[str(attributes["id"])] = self.data.get(str(attributes["id"]), "") + data


@pytest.mark.parametrize("name", sorted(set(sample.SAMPLES) - {"large"}))
def test_every_kind_of_run_is_rendered(written: Write, name: str) -> None:
    folder = written(sample.SAMPLES[name]())
    report = render(folder)
    html = report.index.read_text(encoding="utf-8")
    assert report.index == folder / "report" / "index.html"
    assert report.summary.read_text(encoding="utf-8").startswith("### Lockstep: ")
    assert ET.parse(report.junit).getroot().tag == "testsuites"
    page = Page(html)
    assert page.scripts == 1
    assert not page.attributes & {"style", "onclick", "onload", "onerror"}
    assert not re.search(r"""(src|href)=["'](https?:)?//""", html)
    assert report.index.stat().st_size < 1_000_000
    left = {path.name for path in folder.iterdir()}
    assert left == {"verdict.json", "layers.parquet", "report", "junit.xml", "summary.md"}


def data_of(report: RenderedReport) -> dict[str, dict[str, Any]]:
    """All data of a report by key, read strictly: ``0`` is the map of case 0, ``0-2`` device 2 in it."""
    page = Page(report.index.read_text(encoding="utf-8"))
    texts = {key.removeprefix("data-"): text for key, text in page.data.items() if key.startswith("data-")}
    for part in report.parts:
        found = re.fullmatch(r'lockstepPart\("([0-9-]+)",(.*)\);\n', part.read_text(encoding="utf-8"), re.DOTALL)
        assert found, part
        assert part.name == f"case-{found[1]}.js"
        texts[found[1]] = found[2]
    data = {key: strict_json.loads(text) for key, text in texts.items()}
    shared = strict_json.loads(page.data["setup"])["shared"]
    return data | {key: data[of] for key, of in shared.items()}


def column(data: dict[str, Any], name: str, length: int) -> list[Any]:
    """A column of the data; one that says one thing all along is stored as one value."""
    values: list[Any] = data[name]
    return values * length if len(values) == 1 else values


def check_totals(report: RenderedReport, rows: int) -> None:
    html = report.index.read_text(encoding="utf-8")
    data = data_of(report)
    maps = [part for key, part in data.items() if "-" not in key]
    shown = sum(int(n) for n in re.findall(r'data-rows="(\d+)"', html))
    by_status = [int(n) for n in re.findall(r'data-count="(\d+)"', html)]
    in_totals = sum(sum(part["totals"].values()) for part in maps)
    in_cells = sum(
        line[at : at + 2] != ".." for part in maps for line in part["cells"] for at in range(0, len(line), 2)
    )
    in_details = Counter(
        status
        for key, part in data.items()
        if "-" in key
        for status in column(part, "status", data[key.split("-")[0]]["count"])
    )
    assert shown == sum(by_status) == in_totals == in_cells == rows == sum(in_details.values()) - in_details[None]
    for status in STATUSES:
        assert sum(part["totals"][status] for part in maps) == in_details[status]
    assert "Trust neither" not in html  # the verdict's own count of compared layers is the same


@pytest.mark.parametrize("name", ["all_pass", "marks"])
def test_totals_equal_the_sum_of_the_parts(written: Write, name: str) -> None:
    run = sample.SAMPLES[name]()
    check_totals(render(written(run)), len(run.rows))


def test_names_in_reasons_are_set_as_code_and_stay_text(written: Write) -> None:
    run = sample.SAMPLES["marks"]()
    for case in run.verdict["cases"]:
        case["reason"] = "Conv `a<b>.0` differs, `\x1b`; an odd ` stays"
    html = render(written(run)).index.read_text(encoding="utf-8")
    assert "Conv <code>a&lt;b&gt;.0</code> differs, <code>\\x1b</code>; an odd ` stays" in html
    assert "a<b>" not in html


def test_totals_that_disagree_are_told(written: Write) -> None:
    run = sample.one_layer()
    run.verdict["coverage"]["layers_paired"] = 7
    html = render(written(run)).index.read_text(encoding="utf-8")
    assert "The verdict counts 7 compared layers, the layer table holds 1. Trust neither" in html


def test_a_large_run_keeps_its_index_small_and_shows_failing_layers_first(large: RenderedReport) -> None:
    report = large
    check_totals(report, 3000 * 6)
    assert report.index.stat().st_size < 1_000_000
    assert [part.name for part in report.parts] == ["case-0.js", *(f"case-0-{device}.js" for device in range(6))]
    assert all(part.stat().st_size < 1_000_000 for part in report.parts)
    html = report.index.read_text(encoding="utf-8")
    assert html.count('<div class="layers" data-part="0-') == 6
    assert 'data-order="worst" aria-pressed="true"' in html
    assert html.index("layers.1700/") < html.index("layers.1701/")
    assert "layers.0/" not in html
    assert "1\u202f260 more failing layers" in html


def test_equal_bits_are_no_difference(written: Write) -> None:
    html = render(written(sample.all_equal())).index.read_text(encoding="utf-8")
    assert "No difference: every layer has the golden&#39;s own bits on 6 chips." in html


@pytest.mark.parametrize("value", [0.0, 5e-324, -1.0])
@pytest.mark.parametrize("name", ["one_layer", "all_equal"])
def test_equal_and_single_element_tensors_have_a_report_and_no_logarithm_of_zero(
    written: Write, name: str, value: float
) -> None:
    run = sample.SAMPLES[name]()
    for row in run.rows:  # one of the golden's bits but not known as such, of one element or many
        row |= {"matched": "none", "max_abs": value, "scaled_rms": value, "would_pass": value, "sqnr_db": None}
    data = data_of(render(written(run)))
    kind = CLASSES.index("r0" if value > 0 else "golden")
    assert set(data["0"]["cells"]) == {f"{kind:x}0" * data["0"]["count"]}


def test_chips_with_the_same_bits_share_their_numbers(written: Write) -> None:
    report = render(written(sample.all_equal()))
    assert [key for key in Page(report.index.read_text()).data if key.startswith("data-")] == ["data-0", "data-0-0"]
    assert len(data_of(report)) == 7


def test_names_with_nan_in_them_stay_and_numbers_are_null(written: Write) -> None:
    report = render(written(sample.hostile()))
    data = data_of(report)  # strict JSON, or it would have raised
    assert data["0"]["layers"]["layer"] == list(sample.HOSTILE)
    for device in ("0-0", "0-1"):
        broken = {name: column(data[device], name, len(sample.HOSTILE))[2] for name in data[device]}
        assert (broken["max_abs"], broken["scaled_p999"], broken["would_pass"]) == (None, None, None)
        assert (broken["reason"], broken["nan"]) == ("4 NaN: no number exists", 4)


def test_what_was_not_tested_is_never_hidden(written: Write) -> None:
    html = render(written(sample.missing_device())).index.read_text(encoding="utf-8")
    assert "1 item was not tested</a>: rv64." in html
    assert html.count("qemu-riscv64 10.0 or newer is not installed") == 1
    assert html.count('href="#not-tested" aria-label="rv64, ') == 6


def test_what_a_device_kept_of_a_crash_is_shown_as_text(written: Write) -> None:
    page = render(written(sample.crashed())).index.read_text()
    assert "Fatal signal 11 &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "signal 11 (SIGSEGV)" in page


def test_emulated_timing_is_no_evidence(written: Write) -> None:
    html = render(written(sample.all_pass())).index.read_text(encoding="utf-8")
    assert "Emulated timing is never performance evidence" in html
    assert html.count("emulated: none") == 24


def test_the_state_of_a_device_is_told_and_escaped(written: Write) -> None:
    run = sample.all_pass()
    state = {"chip_celsius": 39.6, "chip_sensor": "<b>cpu</b>"}
    run.verdict["cases"][0]["memory"] = {"of": "runner", "peak_rss_kib": 2048, "peak_pss_kib": None}
    run.verdict["cases"][0]["readings"] = {"of": "device", "before": state, "after": {}, "notes": ["cpu6 is offline"]}
    html = render(written(run)).index.read_text(encoding="utf-8")
    assert "<dt>Device, before the run</dt><dd>39.6 °C (&lt;b&gt;cpu&lt;/b&gt;)</dd>" in html
    assert html.count("cpu6 is offline") == 1
    assert "<dt>Peak memory</dt><dd>RSS 2 MiB of the runner</dd>" in html


def test_the_layer_at_which_a_loss_of_a_quantised_case_begins_is_in_its_table(written: Write) -> None:
    run = sample.all_pass()
    numbers = dict.fromkeys(("max_abs", "scaled_rms", "sqnr_db", "cosine", "bound"), 0.5)
    columns = [
        {"name": "quantisation", "status": "beyond", "layer": "y", "reason": "", "first": ["relu<7>"], "compared": 9},
        {"name": "backend", "status": "within", "layer": "y", "reason": "", "first": [], "compared": 11},
        {"name": "cpu", "status": "within", "layer": "y", "reason": ""},  # as in documents that lack both
    ]
    told = {"blame": "model", "reason": "why", "columns": [column | numbers for column in columns]}
    run.verdict["cases"][0]["quantisation"] = told
    html = render(written(run)).index.read_text(encoding="utf-8")
    table = html[html.index('<table class="columns">') :].partition("</table>")[0]
    cells = [row.rpartition("<td>")[2].partition("</td>")[0] for row in table.split("<tr>")[2:]]
    assert cells == [
        '<code>relu&lt;7&gt;</code> <span class="sub">of 9 layers</span>',
        '<span class="sub">of 11 layers</span>',
        '<span class="sub">outputs only</span>',
    ]


def test_what_varies_inside_a_device_is_told_where_it_starts(written: Write) -> None:
    run = sample.all_pass()
    inner = {"runs": 5, "varying": 3, "first": ["a<b", "c"], "noise": {"a<b": {"least": 0.25, "most": 0.5}, "c": None}}
    run.verdict["cases"][0]["itself"] = {"runs": 0, "noise": {}, "layers": inner}
    steady = {"runs": 2, "varying": 0, "first": [], "noise": {}}
    run.verdict["cases"][1]["itself"] = {"runs": 1, "noise": {}, "layers": steady}
    html = render(written(run)).index.read_text(encoding="utf-8")
    assert (
        '<dd>layers in 5 runs: 3 varying, first <code>a&lt;b</code> (<span class="num">0.25</span> to '
        '<span class="num">0.5</span> apart), <code>c</code></dd>'
    ) in html
    assert "<dd>1 further run, no difference; layers in 2 runs, no difference</dd>" in html


def test_rendering_again_replaces_and_leaves_nothing(written: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(sample.one_layer())
    monkeypatch.setattr("reports.page.INLINE_LIMIT", 0)
    assert render(folder).parts
    monkeypatch.undo()
    report = render(folder)
    assert report.parts == ()
    assert [path.name for path in (folder / "report").iterdir()] == ["index.html"]
    before = report.index.read_bytes()
    assert render(folder).index.read_bytes() == before


def test_a_bad_run_leaves_the_old_report_alone(written: Write) -> None:
    folder = written(sample.one_layer())
    before = render(folder).index.read_bytes()
    (folder / "layers.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReportError, match="not a readable Parquet file"):
        render(folder)
    assert (folder / "report" / "index.html").read_bytes() == before


def test_files_of_two_runs_are_not_mixed(written: Write) -> None:
    folder = written(sample.one_layer())
    (folder / "layers.parquet").write_bytes((written(sample.all_equal()) / "layers.parquet").read_bytes())
    (folder / "verdict.json").write_text(strict_json.dumps(sample.one_layer().verdict))
    with pytest.raises(ReportError, match=r"layers of case 'page-0' on device .*, which verdict\.json does not list"):
        render(folder)
    assert not (folder / "report").exists()


@pytest.mark.skipif(os.getuid() == 0 and not Path("/dev/full").exists(), reason="needs a disk that refuses")
def test_a_disk_that_refuses_is_told(written: Write) -> None:
    folder = written(sample.one_layer())
    (folder / "report").write_text("a file where the folder should be")
    (folder / "summary.md").mkdir()
    (folder / "summary.md" / "keep").touch()
    with pytest.raises(ReportError, match=r"summary\.md: cannot be written: .*\n  next: free some space"):
        render(folder)


MARKUP = st.lists(st.sampled_from(["<b>", "</code>", "&amp;", "&lt;", "<!--", "]]>", '"', "'", "{{", "%}", "x", "\r"]))
ANY_TEXT = st.text(max_size=30) | MARKUP.map("".join)


@settings(max_examples=40, deadline=None)
@given(name=ANY_TEXT.filter(bool), reason=ANY_TEXT)
@example(name="<b>&amp;</b>", reason="</p><script>&lt;")
def test_any_name_and_reason_survive(name: str, reason: str) -> None:
    run = parts.build((("tiny", "net"),), parts.CHIPS[:1], {"net": [parts.Layer(name, "Conv", "1")]})
    run.verdict |= {"status": "fail", "exit_code": 1}
    run.case("tiny", "x86-64-v1").update(
        status="fail", first_deviating_layers=[name], first_deviating_layer=name, reason=reason
    )
    run.rows[0] |= {"status": "fail", "introduced": True, "reason": reason}
    with tempfile.TemporaryDirectory() as folder:
        report = render(run.write(Path(folder)))
        page = Page(report.index.read_text(encoding="utf-8"))
        data = data_of(report)
        message = ET.parse(report.junit).find(".//failure")
    assert visible(name) in page.texts["code"]
    assert visible(reason) in page.texts["p"]
    assert data["0"]["layers"]["layer"] == [name]
    assert data["0-0"]["reason"] == [reason]
    assert message is not None
    assert message.get("message") == f"Fail: {visible(reason)}"
    assert f"first deviating layer: {visible(name)}\n" in (message.text or "")
