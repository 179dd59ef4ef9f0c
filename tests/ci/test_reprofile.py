"""A repro folder is untrusted: what is missing, changed or outside is named, with the next step."""

import json

import pytest

from ci.reprofile import load_repro
from engine.contract.errors import LockstepError
from engine.digest import file_sha256


@pytest.fixture
def folder(tmp_path):
    for name in ("model.onnx", "input-0.bin", "expected.bin"):
        (tmp_path / name).write_bytes(name.encode())
    tensor = {"dtype": "float32", "shape": [2]}
    given = {"name": "x", "file": "input-0.bin", "sha256": file_sha256(tmp_path / "input-0.bin"), **tensor}
    wanted = {"name": "y", "file": "expected.bin", "sha256": file_sha256(tmp_path / "expected.bin"), **tensor}
    document = {
        **{key: key for key in ("case", "device", "layer", "op", "engine", "profile", "backend", "precision")},
        "model": "model.onnx",
        "model_sha256": file_sha256(tmp_path / "model.onnx"),
        "inputs": [given],
        "expected": wanted,
    }
    (tmp_path / "repro.json").write_text(json.dumps(document))
    return tmp_path


def change(folder, edit):
    document = json.loads((folder / "repro.json").read_text())
    edit(document)
    (folder / "repro.json").write_text(json.dumps(document))


def test_a_whole_folder_is_read(folder):
    repro = load_repro(folder)
    assert (repro.layer, repro.inputs[0].shape) == ("layer", (2,))


@pytest.mark.parametrize("name", ["model.onnx", "input-0.bin", "expected.bin"])
def test_a_file_that_is_gone_or_changed_is_named(folder, name):
    (folder / name).write_bytes(b"other")
    with pytest.raises(LockstepError, match=f"{name} is not the file that repro.json describes") as raised:
        load_repro(folder)
    assert "lockstep repro make" in raised.value.hint
    (folder / name).unlink()
    with pytest.raises(LockstepError, match=f"{name} is gone"):
        load_repro(folder)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d["inputs"][0].update(file="../secret"), "secret"),
        (lambda d: d.update(model="/etc/passwd"), "passwd"),
        (lambda d: d["expected"].update(dtype="object"), "element type 'object' is not known"),
        (lambda d: d.update(colour="red"), "colour"),
        (lambda d: d.pop("layer"), "layer"),
    ],
)
def test_what_does_not_fit_is_refused(folder, edit, words):
    change(folder, edit)
    with pytest.raises(LockstepError, match=words):
        load_repro(folder)


@pytest.mark.parametrize("text", ["", "{", "[" * 1000])
def test_what_is_no_manifest_is_refused(folder, text):
    (folder / "repro.json").write_text(text)
    with pytest.raises(LockstepError):
        load_repro(folder)
