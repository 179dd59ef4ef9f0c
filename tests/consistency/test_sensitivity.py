"""A small network run in numpy, with one fault at a time: each must fail at the layer it was put into."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consistency.verdict import judge_case
from tests.consistency.builders import Node, evidence_of

SEEDS = range(4)
CONVOLUTIONS = ("conv1", "conv2", "conv3")


def make_weights(seed):
    rng = np.random.default_rng(seed)
    shapes = {"conv1": (8, 3, 3, 3), "conv2": (12, 8, 3, 3), "conv3": (12, 12, 3, 3)}
    weights = {name: (rng.normal(0, 0.3, shape), rng.normal(0, 0.3, shape[0])) for name, shape in shapes.items()}
    return weights, rng.normal(0, 0.5, (12, 4)), rng.normal(0, 1, (1, 3, 16, 16))


def conv(x, weight, bias, mode):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=mode)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight) + bias[None, :, None, None]


def run(seed, fault=None, at=None, noise=0.0, noise_seed=0):
    """Conv–Relu twice, a residual Conv, pooling, MatMul and Softmax; ``fault`` mutates the layer ``at``."""
    weights, head, x = make_weights(seed)
    rng = np.random.default_rng(noise_seed)
    trace = []

    def keep(name, op, inputs, value):
        if noise:
            value = value + noise * np.abs(value).max() * rng.uniform(-1, 1, value.shape)
        trace.append(Node(name, op, inputs, value.astype(np.float32)))
        return trace[-1].value.astype(np.float64)

    def layer(name, source, x):
        weight, bias = weights[name]
        mode = "constant"
        if name == at:
            weight, bias, mode = mutate(fault, weight, bias)
        value = conv(x, weight, bias, mode)
        if name == at and fault == "nan":
            value[0, 1, 2, 3] = np.nan
        return keep(name, "Conv", (source,), value)

    first = keep("relu1", "Relu", ("conv1",), np.maximum(layer("conv1", "x", x), 0))
    second = keep("relu2", "Relu", ("conv2",), np.maximum(layer("conv2", "relu1", first), 0))
    third = layer("conv3", "relu2", second)
    total = keep("add", "Add", ("conv3", "relu2"), third + second)
    pooled = keep("pool", "GlobalAveragePool", ("add",), total.mean(axis=(2, 3)))
    logits = keep("matmul", "MatMul", ("pool",), pooled @ head)
    shifted = np.exp(logits - logits.max())
    keep("softmax", "Softmax", ("matmul",), shifted / shifted.sum())
    return trace


def mutate(fault, weight, bias):
    if fault == "scaled weights":
        return weight * 1.05, bias, "constant"
    if fault == "dropped bias":
        return weight, bias * 0, "constant"
    if fault == "swapped channels":
        swapped = weight.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        return swapped, bias, "constant"
    return weight, bias, "edge" if fault == "wrong padding" else "constant"


FAULTS = ("scaled weights", "dropped bias", "swapped channels", "nan", "wrong padding")


@pytest.mark.parametrize("name", ["fp32", "fp16"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("at", CONVOLUTIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_fails_at_its_layer(fault, at, seed, name):
    verdict = judge_case(evidence_of(run(seed, fault, at), run(seed), name=name))
    assert verdict.status == "fail"
    assert verdict.first_deviating == (at,)
    assert f"Conv `{at}`" in verdict.reason


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_through_layers_that_are_not_observable(fault):
    evidence = evidence_of(run(0, fault, "conv2"), run(0))
    kept = {layer.id: layer for layer in evidence.observed if layer.id not in ("conv2", "relu1")}
    kept["relu2"] = replace(kept["relu2"], covers=("conv2",))
    kept["conv1"] = replace(kept["conv1"], covers=("relu1",))
    verdict = judge_case(replace(evidence, observed=tuple(kept.values())))
    assert verdict.first_deviating == ("relu2",)
    assert verdict.coverage.not_observable == 2


@settings(max_examples=60)
@given(seed=st.sampled_from(SEEDS), noise_seed=st.integers(0, 2**32 - 1), noise=st.floats(1e-8, 3e-6))
def test_differences_that_healthy_engines_show_pass(seed, noise_seed, noise):
    verdict = judge_case(evidence_of(run(seed, noise=noise, noise_seed=noise_seed), run(seed)))
    assert (verdict.status, verdict.first_deviating) == ("pass", ()), verdict.reason
