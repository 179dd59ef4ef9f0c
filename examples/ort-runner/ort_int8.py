"""The example engine with two backends: ``int8`` joins QDQ operators into 8-bit kernels, ``cpu`` does not.

A stand-in for an accelerator beside a CPU: ``cpu`` computes the model as it is written, in FP32 between the codes.
"""

from __future__ import annotations

import sys

import onnxruntime as ort
import ort_runner as plain

plain.BACKENDS = {
    "int8": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "cpu": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}

if __name__ == "__main__":
    sys.exit(plain.main(plain.run))
