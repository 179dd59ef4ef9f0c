"""Captures of any engine as named tensors; one file a format in ``formats/``, found by file name."""

from ci.captures.capture import Capture
from ci.captures.meta import Meta, declare, load_meta
from ci.captures.registry import read_capture

__all__ = ["Capture", "Meta", "declare", "load_meta", "read_capture"]
