"""JSON that every parser accepts, also inside a ``<script>`` element.

NaN and infinities have no JSON spelling: they become ``null`` as values, before text is made, so that a name which
merely contains the letters ``NaN`` is never touched.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# "<", ">" and "&" cannot end or open markup when escaped; U+2028 and U+2029 end a line in old JavaScript.
_IN_SCRIPT = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029\u007f"}


def finite(value: Any) -> Any:
    """Return a copy of a JSON-like value with every NaN and infinity as ``None``."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Return strict JSON text; ``ValueError`` when a number is not finite."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent, separators=separators)
    # A lone surrogate has no UTF-8 form; as an escape it is legal JSON and comes back unchanged.
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def for_script(value: Any) -> str:
    """Return strict JSON that may stand inside a ``<script>`` element or a script file."""
    return dumps(value).translate(_IN_SCRIPT)


def loads(text: str | bytes) -> Any:
    """Parse strict JSON: ``ValueError`` on NaN, Infinity, a key given twice or a number beyond a double."""

    def constant(word: str) -> NoReturn:
        raise ValueError(f"{word} is not JSON")

    def number(word: str) -> float:
        value = float(word)
        if not math.isfinite(value):
            raise ValueError(f"{word} is beyond a double")
        return value

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in pairs:
            if key in mapping:
                raise ValueError(f"key {key!r} is given twice")
            mapping[key] = value
        return mapping

    return json.loads(text, parse_constant=constant, parse_float=number, object_pairs_hook=unique)
