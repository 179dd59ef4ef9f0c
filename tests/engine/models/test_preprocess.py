import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.contract.errors import ModelError, StorageFull, UsageError
from engine.models.preprocess import (
    RECIPES,
    checked_recipe,
    prepared_input,
    resize_bilinear,
    splitmix64,
    windows,
)


def test_the_smoke_inputs_keep_their_bits(smoke, tmp_path: Path) -> None:
    """The pinned bytes of every input: a host, or a change, that prepares other bits is found here."""
    pinned = {
        "page-0": "5176bc58",
        "page-90": "2ba7a9cf",
        "page-180": "675693da",
        "page-270": "a49567ac",
        "speech": "cbd473ef",
        "noise": "703e60b7",
        "zero-state": "076a27c7",
    }
    by_input = {}
    for case in smoke.suite.cases:
        for name, entry in smoke.suite.prepare(case, smoke.fetched.files, tmp_path).items():
            by_input[case.inputs[name]] = entry.sha256[:8]
    assert by_input == pinned


def test_a_prepared_input_is_kept_by_content(tmp_path: Path) -> None:
    first = prepared_input("h", "zeros", {"shape": [1, 3]}, None, tmp_path)
    again = prepared_input("c", "zeros", {"shape": (1, 3)}, None, tmp_path)
    assert first.path == again.path == tmp_path / "prepared" / first.sha256
    assert first.path.read_bytes() == bytes(12)
    assert first.array().shape == (1, 3)
    assert first.origin != prepared_input("h", "zeros", {"shape": [3, 1]}, None, tmp_path).origin


def test_a_new_version_of_a_recipe_is_another_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepared_input("h", "zeros", {"shape": [2]}, None, tmp_path)
    zeros = RECIPES["zeros"]
    monkeypatch.setitem(RECIPES, "zeros", type(zeros)(zeros.version + 1, False, zeros.make, zeros.defaults))
    second = prepared_input("h", "zeros", {"shape": [2]}, None, tmp_path)
    assert first.sha256 == second.sha256
    assert first.origin != second.origin


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 60), st.integers(1, 60), st.integers(0, 255))
def test_resizing_a_flat_picture_keeps_it_flat(h: int, w: int, height: int, width: int, value: int) -> None:
    image = np.full((h, w, 3), value, dtype=np.uint8)
    np.testing.assert_array_equal(resize_bilinear(image, height, width), np.full((height, width, 3), value))


@given(st.integers(2, 30), st.integers(2, 30), st.integers(0, 2**31))
def test_resizing_to_the_same_size_changes_nothing(h: int, w: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (h, w, 3)).astype(np.uint8)
    np.testing.assert_array_equal(resize_bilinear(image, h, w), image)


def test_resizing_agrees_with_bilinear_in_floating_point() -> None:
    image = np.random.default_rng(1).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    height, width = 13, 16

    def axis(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
        place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = np.minimum(place.astype(int), old - 2)
        return low, place - low

    row, down = axis(9, height)
    column, right = axis(7, width)
    down, right = down[:, None, None], right[None, :, None]
    rows = image[row] * (1 - down) + image[row + 1] * down
    wanted = rows[:, column] * (1 - right) + rows[:, column + 1] * right
    assert np.abs(resize_bilinear(image, height, width) - wanted).max() < 0.65


def test_the_page_is_turned_clockwise(tmp_path: Path) -> None:
    picture = np.zeros((300, 300, 3), dtype=np.uint8)
    picture[:150, :] = 255  # the upper half is white
    path = tmp_path / "half.png"
    Image.fromarray(picture).save(path)
    upright = prepared_input("x", "page-orientation", {}, path, tmp_path).array()
    turned = prepared_input("x", "page-orientation", {"rotate": 90}, path, tmp_path).array()
    assert upright.shape == (1, 3, 224, 224)
    assert upright.dtype == np.float32
    assert upright[0, 0, 10, 10] > 2
    assert upright[0, 0, 213, 10] < -1
    assert turned[0, 0, 10, 213] == upright[0, 0, 10, 10]
    assert turned[0, 0, 10, 10] == upright[0, 0, 213, 10]


def test_channels_are_blue_green_red(tmp_path: Path) -> None:
    picture = np.zeros((256, 256, 3), dtype=np.uint8)
    picture[..., 0] = 255  # red
    path = tmp_path / "red.png"
    Image.fromarray(picture).save(path)
    tensor = prepared_input("x", "page-orientation", {}, path, tmp_path).array()[0, :, 0, 0]
    np.testing.assert_allclose(tensor, [-0.485 / 0.229, -0.456 / 0.224, (1 - 0.406) / 0.225], rtol=1e-6)


def test_windows_carry_the_end_of_the_window_before() -> None:
    framed = windows(np.arange(1024, dtype=np.float32))
    assert framed.shape == (2, 576)
    np.testing.assert_array_equal(framed[0, :64], 0)
    np.testing.assert_array_equal(framed[1], np.arange(512 - 64, 1024))


def test_splitmix64_yields_its_published_numbers() -> None:
    assert [int(number) for number in splitmix64(1234567, 3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_noise_stays_within_its_amplitude(tmp_path: Path) -> None:
    noise = prepared_input("input", "noise-windows", {"windows": 20, "seed": 3, "amplitude": 100}, None, tmp_path)
    other = prepared_input("input", "noise-windows", {"windows": 20, "seed": 4, "amplitude": 100}, None, tmp_path)
    assert np.abs(noise.array()).max() * 32768 == 100
    assert abs(float(noise.array().mean())) * 32768 < 3
    assert noise.sha256 != other.sha256


def speech(path: Path, samples: np.ndarray, rate: int = 16000) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return path


def test_wav_and_headerless_speech_are_the_same(tmp_path: Path) -> None:
    samples = np.arange(-600, 600)
    raw = tmp_path / "speech.raw"
    raw.write_bytes(samples.astype("<i2").tobytes())
    wav = speech(tmp_path / "speech.wav", samples)
    first = prepared_input("input", "speech-windows", {"windows": 2}, wav, tmp_path)
    second = prepared_input("input", "speech-windows", {"windows": 2}, raw, tmp_path)
    assert first.sha256 == second.sha256
    assert first.array()[0, 64] == np.float32(-600 / 32768)


@pytest.mark.parametrize(
    ("recipe", "parameters", "content", "words"),
    [
        ("page-orientation", {"rotate": 45}, b"\x89PNG", "'rotate' is 45"),
        ("page-orientation", {"rotate": True}, b"\x89PNG", "'rotate' is True"),
        ("page-orientation", {}, b"\x89PNG\r\n\x1a\n nonsense", "cannot be read as an input"),
        ("page-orientation", {}, b"", "cannot be read as an input"),
        ("speech-windows", {"windows": 3}, bytes(2048), "holds 2 whole windows, 3 are asked"),
        ("speech-windows", {"windows": 0}, bytes(2048), "'windows' is 0"),
        ("speech-windows", {"windows": 1}, b"RIFF\x00\x00", "cannot be read as an input"),
    ],
)
def test_bad_sources_and_parameters_are_refused(
    recipe: str, parameters: dict[str, object], content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "source"
    path.write_bytes(content)
    with pytest.raises((UsageError, ModelError)) as caught:
        prepared_input("x", recipe, parameters, path, tmp_path)
    assert words in caught.value.message
    assert caught.value.hint


def test_speech_at_another_rate_is_refused(tmp_path: Path) -> None:
    path = speech(tmp_path / "speech.wav", np.zeros(2048), rate=8000)
    with pytest.raises(ModelError, match="not \\(1, 2, 16000\\)"):
        prepared_input("input", "speech-windows", {"windows": 1}, path, tmp_path)


@pytest.mark.parametrize("shape", [[0], ["1"], 5, [2**19, 2**19], [-1]])
def test_zeros_of_a_wrong_shape_are_refused(shape: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'shape' is"):
        prepared_input("h", "zeros", {"shape": shape}, None, tmp_path)


def test_unknown_recipes_list_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        checked_recipe("zeroes", {}, has_file=False)
    assert caught.value.hint == "known: noise-windows, page-orientation, speech-windows, zeros"


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageFull, match="No space left") as caught:
        prepared_input("h", "zeros", {"shape": [4]}, None, tmp_path)
    assert "LOCKSTEP_CACHE" in caught.value.hint
    assert list((tmp_path / "prepared").iterdir()) == []
