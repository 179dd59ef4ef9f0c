"""Writes the flat model file that `refrt` maps. The format is described in ``docs/flat-format.md``; its reader is
``engine/native/graph/flat_reader.cpp``."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.contract.dtypes import item_size
from engine.contract.errors import UnsupportedError

MAGIC = b"REFRTMDL"
VERSION = 1
ALIGNMENT = 64
HEADER_BYTES = 128
MAX_RANK = 8
MAX_TENSOR_BYTES = 1 << 30

#: Codes are those of ONNX ``TensorProto.DataType``.
DTYPE_CODES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}

#: An attribute is a list of integers, a list of floats (stored as float32) or a text.
AttributeValue = Sequence[int] | Sequence[float] | str


@dataclass(frozen=True)
class FlatTensor:
    """One tensor: ``alias`` is the index of an earlier tensor whose bytes it shares, ``data`` a constant's value."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    alias: int | None = None
    data: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return item_size(self.dtype) * int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class FlatStage:
    """One elementwise stage fused behind a node; ``output`` is its result, ``inputs`` are constants."""

    op: str
    output: int
    inputs: tuple[int, ...] = ()
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


@dataclass(frozen=True)
class FlatNode:
    """One node in execution order; ``None`` stands for an absent optional input or output.

    ``raw`` is the node's own result before the first stage (only with stages).
    """

    op: str
    name: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    stages: tuple[FlatStage, ...] = ()
    raw: int | None = None


@dataclass(frozen=True)
class FlatLayer:
    """One observable tensor of the original model; it is there once ``node`` has run (-1: from the start)."""

    id: str
    op: str
    tensor: int
    node: int


@dataclass(frozen=True)
class FlatModel:
    """All that the file holds."""

    tensors: tuple[FlatTensor, ...]
    nodes: tuple[FlatNode, ...]
    layers: tuple[FlatLayer, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def write_flat(model: FlatModel, path: Path) -> None:
    """Write ``path``; it appears only when complete. The same model gives the same bytes."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(encode(model))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def encode(model: FlatModel) -> bytes:
    """The bytes of the file. ``UnsupportedError`` when a tensor is beyond what the format holds."""
    strings = _Strings()
    weights, offsets = _weights(model.tensors)
    tensors = b"".join(_tensor(tensor, offset, strings) for tensor, offset in zip(model.tensors, offsets, strict=True))
    nodes = b"".join(_node(node, strings) for node in model.nodes)
    layers = b"".join(
        struct.pack("<IIii", strings.index(layer.id), strings.index(layer.op), layer.tensor, layer.node)
        for layer in model.layers
    )
    ends = struct.pack("<II", len(model.inputs), len(model.outputs))
    ends += struct.pack(f"<{len(model.inputs) + len(model.outputs)}i", *model.inputs, *model.outputs)
    return _assemble([strings.encode(), tensors, nodes, layers, ends, weights], len(model.nodes))


class _Strings:
    """The string table: every text once, in order of first use."""

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}

    def index(self, text: str) -> int:
        return self._indices.setdefault(text, len(self._indices))

    def encode(self) -> bytes:
        texts = [text.encode() for text in self._indices]
        offsets = np.cumsum([0, *map(len, texts)], dtype="<u4")
        return struct.pack("<I", len(texts)) + offsets.tobytes() + b"".join(texts)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNMENT)


def _weights(tensors: Sequence[FlatTensor]) -> tuple[bytes, list[int]]:
    """The weights section (in the order of the tensors, each aligned) and each tensor's offset in it, -1 for none."""
    parts: list[bytes] = []
    offsets = []
    size = 0
    for tensor in tensors:
        if tensor.data is None:
            offsets.append(-1)
            continue
        offsets.append(size)
        parts.append(_padded(np.ascontiguousarray(tensor.data).astype(tensor.data.dtype.newbyteorder("<")).tobytes()))
        size += len(parts[-1])
    return b"".join(parts), offsets


def _tensor(tensor: FlatTensor, offset: int, strings: _Strings) -> bytes:
    if len(tensor.shape) > MAX_RANK or tensor.nbytes > MAX_TENSOR_BYTES:
        raise UnsupportedError(
            f"tensor {tensor.name!r} is {tensor.dtype}{list(tensor.shape)}; refrt takes rank {MAX_RANK} and 1 GiB"
        )
    if tensor.data is not None and tensor.data.nbytes != tensor.nbytes:
        raise ValueError(f"constant {tensor.name!r} has {tensor.data.nbytes} bytes, its shape {tensor.nbytes}")
    dims = [*tensor.shape, *[0] * (MAX_RANK - len(tensor.shape))]
    alias = -1 if tensor.alias is None else tensor.alias
    code = DTYPE_CODES[tensor.dtype]
    head = struct.pack("<IBBHiI", strings.index(tensor.name), code, len(tensor.shape), 0, alias, 0)
    return head + struct.pack(f"<qq{MAX_RANK}q", offset, tensor.nbytes, *dims)


def _indices(items: Sequence[int | None]) -> bytes:
    return struct.pack(f"<{len(items)}i", *(-1 if item is None else item for item in items))


def _node(node: FlatNode, strings: _Strings) -> bytes:
    head = struct.pack("<II", strings.index(node.op), strings.index(node.name))
    head += struct.pack("<HHHH", len(node.inputs), len(node.outputs), len(node.attributes), len(node.stages))
    head += _indices([node.raw, *node.inputs, *node.outputs])
    return head + _attributes(node.attributes, strings) + b"".join(_stage(stage, strings) for stage in node.stages)


def _stage(stage: FlatStage, strings: _Strings) -> bytes:
    head = struct.pack("<IiHH", strings.index(stage.op), stage.output, len(stage.inputs), len(stage.attributes))
    return head + _indices(stage.inputs) + _attributes(stage.attributes, strings)


def _attributes(attributes: Mapping[str, AttributeValue], strings: _Strings) -> bytes:
    return b"".join(_attribute(name, attributes[name], strings) for name in sorted(attributes))


def _attribute(name: str, value: AttributeValue, strings: _Strings) -> bytes:
    if isinstance(value, str):
        return struct.pack("<IIII", strings.index(name), 3, 1, strings.index(value))
    kind, code = (1, "q") if all(isinstance(item, int) for item in value) else (2, "f")
    return struct.pack(f"<III{len(value)}{code}", strings.index(name), kind, len(value), *value)


def _assemble(sections: Sequence[bytes], nodes: int) -> bytes:
    table = b""
    position = HEADER_BYTES
    for section in sections:
        table += struct.pack("<QQ", position, len(section))
        position += len(_padded(section))
    head = MAGIC + struct.pack("<IIQ", VERSION, HEADER_BYTES, position) + table + struct.pack("<I", nodes)
    return head.ljust(HEADER_BYTES, b"\0") + b"".join(_padded(section) for section in sections)
