"""Convolutions of codes that both operators are tested on."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

#: Shapes of input and weights, and attributes. Two spatial dimensions where a zero point a channel is to be compared:
#: the evaluator knows no other.
GEOMETRIES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 31, 29), (16, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((2, 5, 127, 3), (7, 5, 1, 1), {}),
    ((1, 2, 4, 70), (3, 2, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 6, 9, 10), (4, 3, 3, 2), {"group": 2, "pads": [1, 0, 2, 1]}),
    ((1, 4, 14, 14), (4, 1, 5, 5), {"group": 4, "pads": [2, 2, 2, 2]}),
    ((1, 4, 15, 17), (8, 1, 3, 3), {"group": 4, "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ((1, 2, 13, 12), (3, 2, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    ((2, 4, 7), (6, 2, 3), {"group": 2, "dilations": [2], "strides": [2]}),
    ((1, 3, 8, 9), (2, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 8, 9), (2, 3, 4, 2), {"auto_pad": "SAME_LOWER"}),
    ((1, 3, 8, 9), (2, 3, 3, 3), {"auto_pad": "VALID"}),
]


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Two spatial dimensions of any stride, dilation, padding and grouping that leave an output."""
    group, per_in, per_out = (draw(st.integers(1, 3)) for _ in range(3))
    kernel, strides, dilations = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(3))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    sizes = [(size - 1) * step + 1 + draw(st.integers(0, 7)) for size, step in zip(kernel, dilations, strict=True)]
    x, w = (draw(st.integers(1, 2)), group * per_in, *sizes), (group * per_out, per_in, *kernel)
    return x, w, {"group": group, "strides": strides, "dilations": dilations, "pads": pads}
