"""The report in a real browser, offline: what a reader sees, presses and prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from reports import render
from reports.picture import CHROMIUM_ARGUMENTS, chromium
from reports.words import visible
from tests.reports import parts, sample

pytestmark = pytest.mark.browser

# Contrast of every piece of text against what lies under it (WCAG 2.2, 1.4.3), worst first.
CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const under = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parts(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const box = node.getBoundingClientRect();
    if (!own || box.width < 2 || box.height < 2 || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(parts(style.color)), light(under(node))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (a + .05) / (b + .05);
    if (ratio < (large ? 3 : 4.5)) bad.push([ratio, node.tagName, node.className, node.textContent.slice(0, 40)]);
  }
  return bad.sort((x, y) => x[0] - y[0]);
}"""


@dataclass
class Visit:
    page: Page
    troubles: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def draw_all(self) -> None:
        """Scroll every map into view and wait until it is drawn."""
        maps = self.page.locator(".map")
        for number in range(maps.count()):
            maps.nth(number).scroll_into_view_if_needed()
            expect(maps.nth(number).locator("canvas").first).to_be_attached()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def reports_made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Render a sample once a module; return its index.html."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = render(sample.SAMPLES[name]().write(tmp_path_factory.mktemp(name))).index
        return made[name]

    return make


@pytest.fixture
def visit(browser: Browser, reports_made: Callable[[str], Path]) -> Iterator[Callable[..., Visit]]:
    """Open a sample's report from its file, offline; every complaint of the browser fails the test."""
    open_visits: list[Visit] = []

    def go(name: str, scheme: str = "light", width: int = 1240) -> Visit:
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        page.context.set_offline(True)
        seen = Visit(page)
        page.on("console", lambda message: seen.troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.troubles.append(str(error)))
        page.on("dialog", lambda dialog: seen.troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(reports_made(name).as_uri())
        open_visits.append(seen)
        return seen

    yield go
    for seen in open_visits:
        seen.page.close()
        assert seen.troubles == []
        assert all(url.startswith(("file:", "data:")) for url in seen.requests)


@pytest.mark.parametrize("name", sorted(sample.SAMPLES))
def test_it_opens_offline_without_a_complaint(visit: Callable[..., Visit], name: str) -> None:
    seen = visit(name)
    seen.draw_all()
    expect(seen.page.locator("h1")).to_be_visible()
    assert not seen.page.evaluate("'hacked' in window")


def test_the_policy_is_in_force(visit: Callable[..., Visit]) -> None:
    seen = visit("one_layer")
    outcome = seen.page.evaluate(
        """async () => {
          const hit = new Promise((done) => {
            addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
          });
          fetch("https://example.invalid/").catch(() => {});
          return hit;
        }"""
    )
    assert outcome == "connect-src"
    outcome = seen.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hacked = 1";
          document.body.append(script);
          return "hacked" in window;
        }"""
    )
    assert outcome is False
    assert all("Content Security Policy" in line for line in seen.troubles)
    seen.troubles.clear()


@pytest.mark.parametrize("name", ["marks", "changed", "missing_device", "empty"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(visit: Callable[..., Visit], name: str, scheme: str) -> None:
    seen = visit(name, scheme)
    seen.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for host in seen.page.locator(".layers").all()[-1:]:
        expect(host.locator("tbody tr").first).to_be_attached()
    assert seen.page.evaluate(CONTRAST) == []


def test_the_map_and_its_card_can_be_read_in_both_themes(visit: Callable[..., Visit]) -> None:
    backgrounds = set()
    for scheme in ("light", "dark"):
        seen = visit("marks", scheme)
        seen.draw_all()
        seen.page.locator(".map").first.hover(position={"x": 150, "y": 20})
        expect(seen.page.locator("#card")).to_be_visible()
        assert seen.page.evaluate(CONTRAST) == []
        backgrounds.add(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(backgrounds) == 2


def test_the_toggle_changes_theme_and_map_and_is_remembered(visit: Callable[..., Visit]) -> None:
    seen = visit("failing", "light")
    seen.draw_all()
    toggle = seen.page.get_by_role("button", name=re.compile("^Theme:"))
    colour = "getComputedStyle(document.body).backgroundColor"
    pixel = "[...document.querySelector('.map canvas').getContext('2d').getImageData(120, 20, 1, 1).data].join()"
    light = (seen.page.evaluate(colour), seen.page.evaluate(pixel))
    for label in ("Theme: light", "Theme: dark"):
        toggle.click()
        expect(toggle).to_have_text(label)
    dark = (seen.page.evaluate(colour), seen.page.evaluate(pixel))
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    seen.page.reload()
    expect(toggle).to_have_text("Theme: dark")
    assert seen.page.evaluate(colour) == dark[0]


def test_the_keyboard_reaches_everything(visit: Callable[..., Visit]) -> None:
    page = visit("failing").page
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    cells = page.locator("#matrix a.cell")
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(cells.nth(7)).to_be_focused()
    assert page.locator('#matrix a.cell[tabindex="0"]').count() == 1
    page.keyboard.press("Enter")
    expect(page.locator("#c1d1")).to_have_attribute("open", "")
    expect(page.locator("#c1d1 > summary")).to_be_focused()


def test_arrow_keys_walk_the_map_and_show_the_card(visit: Callable[..., Visit]) -> None:
    seen = visit("failing")
    seen.draw_all()
    page, card = seen.page, seen.page.locator("#card")
    page.locator('.choice button[data-order="worst"]').focus()
    page.keyboard.press("Tab")
    expect(page.locator(".map").first).to_be_focused()
    expect(card).to_be_visible()
    layers = parts.orientation_layers()
    expect(card.locator("h4")).to_have_text(layers[0].name)
    expect(card).to_contain_text("Same bits as the canonical")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(card.locator("h4")).to_have_text(layers[1].name)
    expect(card).to_contain_text("x86-64-v3 (host x86-64-v3)")
    page.keyboard.press("n")
    expect(card.locator("h4")).to_have_text(layers[24].name)
    expect(card).to_contain_text("First deviating layer: beyond its bound")
    expect(card).to_contain_text("would pass")
    expect(card).to_contain_text("its inputs agree, its output does not")
    page.keyboard.press("End")
    expect(card.locator("h4")).to_have_text("fetch_name_0")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


def test_the_pointer_shows_the_card_of_the_cell_under_it(visit: Callable[..., Visit]) -> None:
    seen = visit("marks")
    seen.draw_all()
    box = seen.page.evaluate("maps.get(0).box")
    host = seen.page.locator('.map[data-case="0"]')
    for line, column, words in ((4, 61, "Missing"), (3, 71, "Not finite: 12 NaN, 3 +Inf"), (1, 1, "Not observable")):
        x = box["label"] + column * box["cell"] + 3
        host.hover(position={"x": x, "y": box["top"] + line * box["tall"] + 6})
        expect(seen.page.locator("#card")).to_contain_text(words)
        expect(seen.page.locator("#card h4")).to_have_text(parts.orientation_layers()[column].name)


def test_failing_first_puts_the_first_deviating_layer_first(visit: Callable[..., Visit]) -> None:
    seen = visit("large")
    seen.draw_all()
    assert [url.rsplit("/", 1)[1] for url in seen.requests if "/data/" in url] == ["case-0.js"]
    seen.page.locator(".map").focus()
    seen.page.keyboard.press("Home")
    expect(seen.page.locator("#card")).to_contain_text("its inputs agree, its output does not")
    assert [url.rsplit("/", 1)[1] for url in seen.requests if "/data/" in url] == ["case-0.js", "case-0-0.js"]
    expect(seen.page.locator("#card h4")).to_have_text("/model/layers.1700/self_attn/MatMul_output_0")
    seen.page.get_by_role("button", name="Model order").click()
    seen.page.locator(".map").focus()
    seen.page.keyboard.press("Home")
    expect(seen.page.locator("#card h4")).to_have_text("/model/layers.0/self_attn/MatMul_output_0")


def test_a_missing_data_file_is_told(visit: Callable[..., Visit], reports_made: Callable[[str], Path]) -> None:
    part = reports_made("large").parent / "data" / "case-0.js"
    away = part.rename(part.with_suffix(".away"))
    try:
        seen = visit("large")
        seen.page.locator(".map").scroll_into_view_if_needed()
        expect(seen.page.locator(".map")).to_have_text("data/case-0.js is absent: keep the folder report/ whole.")
        assert all("ERR_FILE_NOT_FOUND" in line for line in seen.troubles)
        seen.troubles.clear()
    finally:
        away.rename(part)


def test_a_device_shows_its_failing_layers_first_and_reads_them_only_when_opened(visit: Callable[..., Visit]) -> None:
    seen = visit("large")
    page, details = seen.page, seen.page.locator("#c0d2")
    assert not any("/data/" in url for url in seen.requests)
    page.locator('#matrix a.cell[href="#c0d2"]').click()
    rows = details.locator(".layers tbody tr:not(.told)")
    expect(rows).to_have_count(50)
    assert {url.rsplit("/", 1)[1] for url in seen.requests if "/data/" in url} <= {"case-0.js", "case-0-2.js"}
    expect(rows.first).to_contain_text("/model/layers.1700/self_attn/MatMul_output_0 #1700")
    expect(rows.first).to_contain_text("First deviating layer: beyond its bound")
    expect(rows.nth(1)).to_contain_text("layers.1701/")
    expect(rows.nth(1)).to_contain_text("Beyond its bound, inherited")
    heads = details.locator(".layers thead th")
    expect(heads).to_contain_text(["Layer", "Op", "State", "Scaled error", "Max error", "Introduced", "Inherited"])
    told = details.get_by_role("status")
    expect(told).to_have_text(
        "3\u202f000 of 3\u202f000 layers, 1\u202f300 of them wrong; showing 50, failing ones first."
    )
    details.get_by_role("button", name="Show 50 more").click()
    expect(rows).to_have_count(100)
    details.get_by_role("searchbox").fill("LAYERS.42/")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("Within its bound, bits of its own")
    details.get_by_role("searchbox").fill("no such layer")
    expect(told).to_contain_text("0 of 3\u202f000 layers")


def test_a_map_reads_the_numbers_of_a_device_when_they_are_asked_for(visit: Callable[..., Visit]) -> None:
    seen = visit("large")
    seen.draw_all()
    seen.page.locator(".map").focus()
    for line, key in enumerate(("Home", "ArrowDown", "ArrowDown")):
        seen.page.keyboard.press(key)
        expect(seen.page.locator("#card")).to_contain_text(parts.CHIPS[line][0])
        expect(seen.page.locator("#card")).to_contain_text("would pass")
        read = [url.rsplit("/", 1)[1] for url in seen.requests if "/data/" in url]
        assert read == ["case-0.js", *(f"case-0-{number}.js" for number in range(line + 1))]


def test_numbers_that_are_not_there_are_told_and_the_map_stays(
    visit: Callable[..., Visit], reports_made: Callable[[str], Path]
) -> None:
    part = reports_made("large").parent / "data" / "case-0-0.js"
    away = part.rename(part.with_suffix(".away"))
    try:
        seen = visit("large")
        seen.draw_all()
        seen.page.locator(".map").focus()
        seen.page.keyboard.press("Home")
        words = "data/case-0-0.js is absent: keep the folder report/ whole."
        expect(seen.page.locator("#card")).to_contain_text(words)
        expect(seen.page.locator("#card")).to_contain_text("First deviating layer: beyond its bound")
        seen.page.locator("#c0d0 > summary").click()
        expect(seen.page.locator("#c0d0 .layers")).to_have_text(words)
        assert all("ERR_FILE_NOT_FOUND" in line for line in seen.troubles)
        seen.troubles.clear()
    finally:
        away.rename(part)


def test_equal_tensors_show_no_difference(visit: Callable[..., Visit]) -> None:
    seen = visit("all_equal")
    seen.draw_all()
    expect(seen.page.locator(".caption")).to_contain_text("No difference")
    seen.page.locator(".map").focus()
    seen.page.keyboard.press("Home")
    expect(seen.page.locator("#card .state")).to_have_text("No difference from the golden")
    seen.page.locator("#c0d0 > summary").click()
    expect(seen.page.locator("#c0d0 .layers .state").first).to_have_text("No difference from the golden")
    expect(seen.page.locator("#c0d0 .layers [role=status]")).to_contain_text("0 of them wrong")


def test_hostile_names_are_shown_as_they_are(visit: Callable[..., Visit]) -> None:
    seen = visit("hostile")
    seen.draw_all()
    seen.page.locator(".map").focus()
    for place, name in enumerate(sample.HOSTILE):
        seen.page.keyboard.press("ArrowRight" if place else "Home")
        expect(seen.page.locator("#card h4")).to_have_text(visible(name))
    seen.page.locator("#c0d0 > summary").click()
    names = seen.page.locator("#c0d0 .layers tbody code")
    broken, *rest = [sample.HOSTILE[2], *sample.HOSTILE[:2], *sample.HOSTILE[3:]]
    expect(names).to_have_text([visible(broken), *(visible(name) for name in rest)])
    assert not seen.page.evaluate("'hacked' in window")
    assert seen.page.locator("script").count() == 4
    assert seen.page.locator("img, svg[onload]").count() == 0


@pytest.mark.parametrize("name", ["failing", "hostile", "missing_device"])
def test_a_narrow_screen_needs_no_sideways_scroll(visit: Callable[..., Visit], name: str) -> None:
    seen = visit(name, width=400)
    seen.draw_all()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_it_prints_on_white(visit: Callable[..., Visit]) -> None:
    seen = visit("failing", "dark")
    assert seen.page.pdf(format="A4", print_background=True).startswith(b"%PDF")
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.evaluate("[...maps.keys()].length") == 6
    assert seen.page.evaluate(CONTRAST) == []


def test_totals_on_screen_equal_the_sum_of_the_parts(visit: Callable[..., Visit]) -> None:
    seen = visit("marks")
    seen.draw_all()
    sums = seen.page.evaluate(
        """() => [...document.querySelectorAll(".case")].map((section) => {
          const drawn = maps.get(Number(section.querySelector(".map").dataset.case)).looks.flat();
          const shown = [...section.querySelectorAll("[data-count]")].map((node) => Number(node.dataset.count));
          return [shown.reduce((a, b) => a + b, 0), drawn.filter((cell) => !cell.absent).length];
        })"""
    )
    assert all(shown == drawn for shown, drawn in sums)
    assert sum(shown for shown, _ in sums) == 3168
    expect(seen.page.locator(".tile").first).to_contain_text("3\u202f073 / 3\u202f168")


def test_introduced_and_inherited_error_are_two_columns_and_the_reason_is_in_sight(visit: Callable[..., Visit]) -> None:
    page = visit("failing").page
    details = page.locator("details.result:has(.badge.s-fail)").first
    details.locator("summary").first.click()
    rows = details.locator(".layers tbody tr:not(.told)")
    first, later = rows.first.locator("td"), rows.nth(1).locator("td")
    expect(first.nth(5)).to_have_text("0.682")
    expect(first.nth(6)).to_have_text("0")
    expect(later.nth(5)).to_have_text("1.00e-7")
    expect(later.nth(6)).not_to_have_text("0")
    why = details.locator(".layers tr.told").first
    expect(why).to_have_text("its inputs agree, its output does not")
    box, table = why.bounding_box(), details.locator(".layers .scroll").bounding_box()
    assert box is not None
    assert table is not None
    assert box["x"] + 200 < table["x"] + table["width"], "a reader sees it without scrolling sideways"
    summary = page.locator("details.failing").first
    expect(summary.locator("thead")).to_contain_text("Introduced")
