"""An ONNX ``.pb`` file: one TensorProto with its data inside, as in ONNX test data sets."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]
from onnx import numpy_helper

from ci.captures.capture import Capture, damaged, element_count, held, refused_size, unreadable
from consistency.tensors import Tensor

ONE_TENSOR = True


def takes(path: Path) -> bool:
    """By suffix."""
    return path.suffix == ".pb" and path.is_file()


def read(path: Path) -> Capture:
    """One tensor, called by the file's stem: the name inside is that of a test data set, or none."""
    return Capture(path, {path.stem: lambda: _load(path)}, one_tensor=True)


def _load(path: Path) -> Tensor:
    refusal = refused_size(path.stat().st_size)
    if refusal:
        return unreadable(path.stem, "unknown", (), refusal)
    proto = onnx.TensorProto()
    try:
        proto.ParseFromString(path.read_bytes())
        _check(proto)
        return held(path.stem, numpy_helper.to_array(proto))
    except (DecodeError, ValueError, TypeError, KeyError, OSError) as error:
        raise damaged(path, error) from error


def _check(proto: onnx.TensorProto) -> None:
    # A location outside the file could name any file of this machine.
    if proto.external_data or proto.data_location == onnx.TensorProto.EXTERNAL:
        raise ValueError("its data lies in another file, which is not followed")
    if proto.data_type == onnx.TensorProto.UNDEFINED or proto.HasField("segment"):
        raise ValueError("it is no complete TensorProto")
    element_count(list(proto.dims))
