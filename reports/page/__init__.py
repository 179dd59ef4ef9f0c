"""The HTML page: one self-contained file, plus data files beside it when the run is large.

What people need first stands in the page: the verdict, coverage, failing layers, every status. The map of a case is
read when it comes into view, the numbers of a device when somebody asks for them (docs/decisions/report.md).

The page may run only the script it was made with (its hash is in the Content-Security-Policy) and the data files next
to it, and may fetch nothing.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from reports import strict_json, words
from reports.cells import CLASSES
from reports.page.cases import part_key
from reports.page.context import page_context
from reports.tables import CaseTable

#: Layer data up to this many characters stands in the page itself; more goes to files under ``data/``, each read on
#: demand: ``case-N.js`` has the map of a case, ``case-N-M.js`` the numbers of one device in it.
INLINE_LIMIT = 500_000
_NAME = re.compile(r"`([^`]+)`")

SCRIPTS = ("data.js", "heatmap.js", "report.js", "details.js")


@dataclass(frozen=True)
class Page:
    """``html`` is index.html; ``parts`` maps a name under the report folder to its text."""

    html: str
    parts: dict[str, str]


def render_page(verdict: dict[str, Any], tables: list[CaseTable]) -> Page:
    """Return the page of a run; see ``docs/report.md`` for how it reads."""
    here = Path(__file__).parent
    css = (here / "report.css").read_text(encoding="utf-8")
    js = "".join((here / name).read_text(encoding="utf-8") for name in SCRIPTS)
    data, shared = _data(tables)
    inline = sum(map(len, data.values())) <= INLINE_LIMIT
    parts = {} if inline else {_file(key): f'lockstepPart("{key}",{text});\n' for key, text in data.items()}
    chips = {device["name"]: device["chip"] for device in verdict["devices"]}
    template = _environment(here).get_template("index.html.j2")
    html = template.render(
        **page_context(verdict, tables),
        css=Markup(css),  # noqa: S704 - our own file
        js=Markup(js),  # noqa: S704 - our own file
        policy=_policy(css, js),
        setup=Markup(  # noqa: S704 - escaped for a script element
            strict_json.for_script({"classes": CLASSES, "chips": chips, "inline": inline, "shared": shared})
        ),
        data={key: Markup(text) for key, text in data.items()} if inline else {},  # noqa: S704 - escaped likewise
        inline=inline,
    )
    return Page(html, parts)


def _data(tables: list[CaseTable]) -> tuple[dict[str, str], dict[str, str]]:
    """Text by key, and the key whose text serves for another: chips with the same bits have the same numbers."""
    data: dict[str, str] = {}
    shared: dict[str, str] = {}
    for c, table in enumerate(tables):
        if not table.rows:
            continue
        data[part_key(c)] = strict_json.for_script(table.map_data())
        known: dict[str, str] = {}
        for d in range(len(table.devices)):
            key, text = part_key(c, d), strict_json.for_script(table.details_data(d))
            if known.setdefault(text, key) == key:
                data[key] = text
            else:
                shared[key] = known[text]
    return data, shared


def _file(key: str) -> str:
    return f"data/case-{key}.js"


@functools.cache
def _environment(folder: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    filters = {"number": words.number, "size": words.size, "seconds": words.seconds, "plural": words.plural}
    environment.filters.update(filters, named=words.named, prose=_prose)
    environment.globals.update(status_words=words.STATUS_WORDS, metric_words=words.METRIC_WORDS)
    environment.globals.update(column_words=words.COLUMN_WORDS)
    environment.globals.update(note_words=words.NOTE_WORDS, note_marks=words.NOTE_MARKS)
    return environment


def _visible(value: object) -> object:
    """Untrusted text loses nothing, but what cannot be seen is written out."""
    return words.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """Untrusted words, in which what stands between backticks is a name and set as code."""
    return Markup(_NAME.sub(r"<code>\1</code>", str(escape(words.visible(text)))))  # noqa: S704 - escaped before


def _policy(css: str, js: str) -> str:
    def source(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    return (
        f"default-src 'none'; style-src {source(css)}; script-src {source(js)} 'self' file:; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
