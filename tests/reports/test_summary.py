from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from reports.strict_json import finite
from reports.summary import code, prose, summary_markdown
from reports.words import visible
from tests.reports import sample


def inline(text: str) -> list[Token]:
    (block,) = MarkdownIt("gfm-like", {"linkify": False}).parseInline(text)
    return block.children or []


@given(st.text(min_size=1))
def test_a_code_span_holds_exactly_the_text(text: str) -> None:
    tokens = [token for token in inline(f"a {code(text)} b") if token.type != "text"]
    assert [(token.type, token.content) for token in tokens] == [("code_inline", visible(text))]


@given(st.text())
def test_prose_has_no_markup(text: str) -> None:
    tokens = inline("a" + prose(text) + "b")
    assert {token.type for token in tokens} <= {"text", "text_special"}
    shown = "".join(token.content for token in tokens).replace("\u2060", "")
    assert shown == "a" + visible(text).replace("\u2060", "") + "b"


def test_the_author_reads_the_verdict_first() -> None:
    text = summary_markdown(sample.failing().verdict)
    assert text.splitlines()[0] == "### Lockstep: Fail: 24 of 36 results wrong, on all 6 chips (exit 1)"
    assert "- **Fail** first at `p2o.pd_op.conv2d.4.0`: scaled&#95;rms 0.31, bound 1e-4, would pass at 0.31" in text
    assert "in `page-0`, `page-90`, `page-180` and `page-270`" in text
    assert text.count("\n- ") == 1


def test_a_clean_pass_is_short() -> None:
    text = summary_markdown(sample.all_pass().verdict)
    assert text.startswith("### Lockstep: Pass: 6 cases agree on 6 chips (exit 0)\n")
    assert len(text.strip().split("\n\n")) == 3
    assert "Layers compared 3\u202f168 of 3\u202f168" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("changed", "**Changed, within bounds**\n\n- 91 layers against base, first `p2o.pd_op.conv2d.4.0`"),
        ("missing_device", "- device `rv64` (required): qemu-riscv64 10.0 or newer is not installed. Next: type: make"),
        ("crashed", "- **Crashed** the runner died of SIGILL"),
        ("crashed", "- Farm fault: `noise` on `rv64`"),
        ("hostile", "max&#95;abs –, bound 1e-4 (4 NaN: no number exists)"),
    ],
)
def test_sections(name: str, words: str) -> None:
    assert words in summary_markdown(finite(sample.SAMPLES[name]().verdict))


def test_known_and_accepted_are_listed_apart() -> None:
    run = sample.all_pass()
    run.case("page-0", "a53").update(status="fail", notes=["known_failure"])
    run.case("page-90", "a53").update(notes=["accepted"])
    text = summary_markdown(run.verdict)
    assert "New failures" not in text
    assert "**Known**\n\n- Known failure — on `a53`, in `page-0`\n- Accepted by a reviewed file" in text


def test_hostile_names_stay_text() -> None:
    html = MarkdownIt("gfm-like", {"linkify": False}).render(summary_markdown(sample.hostile().verdict))
    assert "<script" not in html
    assert "<b>" not in html
    assert "<code>BaNaNa_Infinity</code>" in html


def test_long_lists_end_with_the_rest_counted() -> None:
    run = sample.all_pass()
    item = {"kind": "case", "reason": "deselected", "next_step": "select it", "required": False}
    run.verdict["not_tested"] = [{**item, "name": f"case {i}"} for i in range(40)]
    assert "- … and 28 more in the report" in summary_markdown(run.verdict)
