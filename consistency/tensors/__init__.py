"""Two captured tensors, or two whole captures, judged from their arrays alone."""

from consistency.tensors.graph import localise_tensors
from consistency.tensors.judge import compare_tensors
from consistency.tensors.records import (
    CODE_RANGES,
    Quantisation,
    Tensor,
    TensorStatus,
    TensorVerdict,
    dequantise,
)
from consistency.tensors.steps import (
    behind_first_step,
    constant_over_steps,
    first_step,
    flagged,
    in_steps,
    series_of,
    step_of,
)

__all__ = [
    "CODE_RANGES",
    "Quantisation",
    "Tensor",
    "TensorStatus",
    "TensorVerdict",
    "behind_first_step",
    "compare_tensors",
    "constant_over_steps",
    "dequantise",
    "first_step",
    "flagged",
    "in_steps",
    "localise_tensors",
    "series_of",
    "step_of",
]
