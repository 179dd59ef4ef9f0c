"""One layer of a model as a model of its own: its node, and what lies between it and tensors that are known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from engine.contract.errors import ModelError

#: Values by tensor name: the dtype and shape of each.
Known = Mapping[str, tuple[str, tuple[int, ...]]]


def cut_out(model: onnx.ModelProto, layer: str, known: Known) -> onnx.ModelProto:
    """The smallest part of ``model`` that computes ``layer`` from tensors in ``known``, its weights inside.

    ``known`` has the layer itself too, for the type of the output. Raises ``ModelError`` for a layer that no node
    computes, or one that depends on a tensor that is not known.
    """
    writers = {name: node for node in model.graph.node for name in node.output if name}
    if layer not in writers or layer not in known:
        raise ModelError(f"the model computes no layer {layer!r}", hint="`lockstep export layers.csv` lists them")
    initial = {tensor.name: tensor for tensor in model.graph.initializer}
    own = set(writers[layer].output)
    read: dict[str, None] = {}
    wanted, stack = set(), [layer]
    while stack:
        name = stack.pop()
        if name != layer and name in known and name not in own:
            read[name] = None
        elif name in writers and name not in wanted:
            wanted |= set(writers[name].output)
            stack.extend(source for source in writers[name].input if source)
        elif name not in initial and name not in wanted:
            raise ModelError(f"layer {layer!r} depends on {name!r}, of which no value is known")
    nodes = [node for node in model.graph.node if wanted & set(node.output)]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "cut-out",
        [_end(name, known) for name in sorted(read)],
        [_end(layer, known)],
        [tensor for name, tensor in initial.items() if name in used and name not in read],
    )
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _end(name: str, known: Known) -> onnx.ValueInfoProto:
    dtype, shape = known[name]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
