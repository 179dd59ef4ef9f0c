"""Pre-processing, pinned: from a file (or a seed) to one input tensor, the same bits on every host.

A recipe is integer arithmetic or single IEEE float32 operations, never a library's resampling. Changing
what a recipe yields means raising its ``version``: it is part of a prepared input's ``origin``.
"""

from __future__ import annotations

import hashlib
import json
import os
import wave
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from engine.contract.errors import LockstepError, ModelError, StorageFull, UsageError
from engine.digest import file_sha256

Parameters = Mapping[str, object]

SAMPLE_RATE = 16_000
HOP = 512
CONTEXT = 64
SHORT_SIDE = 256
CROP = 224
WEIGHT_BITS = 11
MAX_PIXELS = 64 * 1024 * 1024
MAX_WINDOWS = 100_000


@dataclass(frozen=True)
class PreparedInput:
    """One input tensor as a raw file (little-endian, C order) named by its SHA-256.

    ``origin`` hashes the recipe, its version, its parameters and the source file: what the tensor was made from.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    sha256: str
    origin: str

    def array(self) -> np.ndarray:
        """The tensor."""
        return np.frombuffer(self.path.read_bytes(), dtype=np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)


@dataclass(frozen=True)
class Recipe:
    """A named way from a source to a tensor. ``defaults`` lists every parameter it takes (None: must be given)."""

    version: int
    needs_file: bool
    make: Callable[[Path, Parameters], np.ndarray]
    defaults: Parameters = field(default_factory=dict)


def prepared_input(name: str, recipe: str, parameters: Parameters, source: Path | None, cache: Path) -> PreparedInput:
    """Make the tensor for model input ``name`` and keep it in ``cache/prepared`` by content."""
    chosen = checked_recipe(recipe, parameters, source is not None)
    merged = {**chosen.defaults, **parameters}
    array = np.ascontiguousarray(chosen.make(source or Path(), merged))
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    sha256 = hashlib.sha256(data).hexdigest()
    made_from = {
        "recipe": recipe,
        "version": chosen.version,
        "parameters": merged,
        "source": file_sha256(source) if source else None,
    }
    origin = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    path = cache / "prepared" / sha256
    _keep(path, data)
    return PreparedInput(name, array.dtype.name, array.shape, path, sha256, origin)


def checked_recipe(recipe: str, parameters: Parameters, has_file: bool) -> Recipe:
    """The recipe by name; ``UsageError`` when it, or a parameter, is unknown or missing."""
    if recipe not in RECIPES:
        raise UsageError(f"unknown recipe {recipe!r}", hint=f"known: {', '.join(sorted(RECIPES))}")
    chosen = RECIPES[recipe]
    unknown = sorted(set(parameters) - set(chosen.defaults))
    if unknown:
        known = ", ".join(sorted(chosen.defaults)) or "none"
        raise UsageError(f"recipe {recipe!r} has no parameter {unknown[0]!r}", hint=f"its parameters: {known}")
    missing = sorted(key for key, value in chosen.defaults.items() if value is None and key not in parameters)
    if missing:
        raise UsageError(f"recipe {recipe!r} needs the parameter {missing[0]!r}", hint="give it under `parameters`")
    if chosen.needs_file != has_file:
        wants = "needs a source file" if chosen.needs_file else "makes its own data and takes no source file"
        raise UsageError(f"recipe {recipe!r} {wants}", hint="set or remove the input's `file`")
    return chosen


def _keep(path: Path, data: bytes) -> None:
    if path.is_file() and path.stat().st_size == len(data):
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.rename(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageFull(
            f"cannot write the input tensor {path}: {error}", hint="free some space, or set LOCKSTEP_CACHE elsewhere"
        ) from error


def _integer(parameters: Parameters, key: str, least: int, most: int) -> int:
    value = parameters[key]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"parameter {key!r} is {value!r}", hint=f"give a whole number from {least} to {most}")
    return value


def _damaged(path: Path, error: object) -> LockstepError:
    return ModelError(f"{path}: cannot be read as an input: {error}", hint="check the file the suite names")


# --- page orientation ------------------------------------------------------------------------------------------------


def _page_orientation(path: Path, parameters: Parameters) -> np.ndarray:
    """float32 [1, 3, 224, 224]: a page turned clockwise by ``rotate`` degrees, prepared as the model's package does.

    Short side to 256, centre crop 224, blue-green-red, ImageNet mean and deviation. The package resizes with a
    Lanczos filter; here it is bilinear in integers, so that no resampling library decides the bits.
    """
    degrees = _integer(parameters, "rotate", 0, 270)
    if degrees % 90:
        raise UsageError(f"parameter 'rotate' is {degrees}", hint="give 0, 90, 180 or 270")
    image = np.rot90(_read_image(path), k=-(degrees // 90))
    height, width = image.shape[:2]
    short = min(height, width)
    resized = resize_bilinear(image, _scaled(height, short), _scaled(width, short))
    top, left = (resized.shape[0] - CROP) // 2, (resized.shape[1] - CROP) // 2
    pixels = resized[top : top + CROP, left : left + CROP, ::-1].astype(np.float32)
    mean = np.array([0.485, 0.456, 0.406], dtype=np.float32)
    deviation = np.array([0.229, 0.224, 0.225], dtype=np.float32)
    normal = (pixels * np.float32(1.0 / 255.0) - mean) / deviation
    return normal.transpose(2, 0, 1)[None]


def _read_image(path: Path) -> np.ndarray:
    """uint8 [height, width, 3], red-green-blue."""
    try:
        with Image.open(path) as image:
            if image.width * image.height > MAX_PIXELS:
                raise _damaged(path, f"{image.width}x{image.height} pixels; at most {MAX_PIXELS} are taken")
            return np.array(image.convert("RGB"))
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise _damaged(path, error) from error


def _scaled(size: int, short: int) -> int:
    """``size`` times 256 / ``short``, rounded half up, in integers."""
    return (2 * size * SHORT_SIDE + short) // (2 * short)


def resize_bilinear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """uint8 [H, W, C] to [height, width, C]; pixel centres aligned, weights of 11 bits, rounded half up."""
    low, high, weight = _axis(image.shape[0], height)
    one = 1 << WEIGHT_BITS
    wide = image.astype(np.int64)
    rows = wide[low] * (one - weight)[:, None, None] + wide[high] * weight[:, None, None]
    low, high, weight = _axis(image.shape[1], width)
    pixels = rows[:, low] * (one - weight)[None, :, None] + rows[:, high] * weight[None, :, None]
    blended: np.ndarray = (pixels + (1 << (2 * WEIGHT_BITS - 1))) >> (2 * WEIGHT_BITS)
    return blended.astype(np.uint8)


def _axis(old: int, new: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each new position its two old neighbours and the weight of the second, exactly: (2i+1)·old/(2·new) - 1/2."""
    scaled = np.clip((2 * np.arange(new, dtype=np.int64) + 1) * old - new, 0, (old - 1) * 2 * new)
    low = scaled // (2 * new)
    weight = ((scaled - low * 2 * new) * (1 << WEIGHT_BITS) + new) // (2 * new)
    return low, np.minimum(low + 1, old - 1), weight


# --- voice activity --------------------------------------------------------------------------------------------------


def _speech_windows(path: Path, parameters: Parameters) -> np.ndarray:
    """float32 [windows, 576]: 16-bit mono speech at 16 kHz, WAV or headerless, scaled to -1 … 1."""
    samples = _read_speech(path)
    count = _integer(parameters, "windows", 1, MAX_WINDOWS)
    if samples.size < count * HOP:
        raise UsageError(
            f"{path.name} holds {samples.size // HOP} whole windows, {count} are asked",
            hint="lower `windows`, or take a longer recording",
        )
    return windows(samples[: count * HOP].astype(np.float32) * np.float32(1.0 / 32768.0))


def _read_speech(path: Path) -> np.ndarray:
    """int16 [samples]."""
    try:
        data = path.read_bytes()
        if data[:4] != b"RIFF":
            return np.frombuffer(data[: len(data) // 2 * 2], dtype="<i2")
        with wave.open(str(path), "rb") as speech:
            layout = (speech.getnchannels(), speech.getsampwidth(), speech.getframerate())
            if layout != (1, 2, SAMPLE_RATE):
                raise _damaged(path, f"channels, bytes, rate are {layout}, not (1, 2, {SAMPLE_RATE})")
            return np.frombuffer(speech.readframes(speech.getnframes()), dtype="<i2")
    except (OSError, wave.Error, EOFError, ValueError) as error:
        raise _damaged(path, error) from error


def _noise_windows(_: Path, parameters: Parameters) -> np.ndarray:
    """float32 [windows, 576]: uniform noise of ``amplitude`` / 32768 from a counter-based integer generator."""
    count = _integer(parameters, "windows", 1, MAX_WINDOWS)
    amplitude = _integer(parameters, "amplitude", 1, 32767)
    numbers = splitmix64(_integer(parameters, "seed", 0, 2**31), count * HOP)
    spread = np.uint64(2 * amplitude + 1)
    samples = (numbers % spread).astype(np.int64) - amplitude
    return windows(samples.astype(np.float32) * np.float32(1.0 / 32768.0))


def splitmix64(seed: int, count: int) -> np.ndarray:
    """uint64 [count] from Steele, Lea and Flood's SplitMix64: written out, so no library's stream can change it."""
    with np.errstate(over="ignore"):
        state = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        numbers: np.ndarray = state ^ (state >> np.uint64(31))
    return numbers


def windows(samples: np.ndarray) -> np.ndarray:
    """float32 [n·512] to [n, 576]: each window of 512 samples after the last 64 of the window before (zeros first)."""
    frames = samples.reshape(-1, HOP)
    context = np.zeros((frames.shape[0], CONTEXT), dtype=np.float32)
    context[1:] = frames[:-1, -CONTEXT:]
    return np.concatenate([context, frames], axis=1)


def _zeros(_: Path, parameters: Parameters) -> np.ndarray:
    """float32 zeros of ``shape``: the state a recurrent model starts from."""
    shape = parameters["shape"]
    if not isinstance(shape, (list, tuple)) or not all(isinstance(size, int) and 0 < size < 2**20 for size in shape):
        raise UsageError(f"parameter 'shape' is {shape!r}", hint="give a list of sizes, such as [1, 1, 128]")
    if int(np.prod(shape, dtype=np.int64)) > MAX_PIXELS:
        raise UsageError(f"parameter 'shape' is {shape!r}", hint=f"at most {MAX_PIXELS} elements are made")
    return np.zeros(tuple(shape), dtype=np.float32)


RECIPES: dict[str, Recipe] = {
    "page-orientation": Recipe(1, needs_file=True, make=_page_orientation, defaults={"rotate": 0}),
    "speech-windows": Recipe(1, needs_file=True, make=_speech_windows, defaults={"windows": None}),
    "noise-windows": Recipe(
        1, needs_file=False, make=_noise_windows, defaults={"windows": None, "seed": 1, "amplitude": 3277}
    ),
    "zeros": Recipe(1, needs_file=False, make=_zeros, defaults={"shape": None}),
}
