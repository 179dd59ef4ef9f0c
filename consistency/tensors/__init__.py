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

__all__ = [
    "CODE_RANGES",
    "Quantisation",
    "Tensor",
    "TensorStatus",
    "TensorVerdict",
    "compare_tensors",
    "dequantise",
    "localise_tensors",
]
