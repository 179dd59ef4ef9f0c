from __future__ import annotations

from pathlib import Path

import pytest

from engine.contract.errors import ConfigError
from farm.config import Strict, load, nearest, read_yaml
from farm.inventory import Fleet


class Inner(Strict):
    colour: str = "red"


class Outer(Strict):
    inner: Inner
    items: tuple[Inner, ...] = ()


def write(folder: Path, text: str) -> Path:
    path = folder / "file.yaml"
    path.write_text(text)
    return path


def test_an_unknown_key_names_file_path_and_the_nearest_known_key(tmp_path: Path) -> None:
    path = write(tmp_path, "inner: {color: blue}")
    with pytest.raises(ConfigError, match=r"file\.yaml: inner\.color: unknown key \(did you mean 'colour'\?\)"):
        load(path, Outer)


def test_an_unknown_key_in_a_list_names_its_index(tmp_path: Path) -> None:
    path = write(tmp_path, "inner: {}\nitems: [{colour: a}, {colou: b}]")
    with pytest.raises(ConfigError, match=r"items\[1\]\.colou: unknown key \(did you mean 'colour'\?\)"):
        load(path, Outer)


def test_an_unknown_key_far_from_all_lists_what_is_known(tmp_path: Path) -> None:
    path = write(tmp_path, "inner: {zzzz: 1}")
    with pytest.raises(ConfigError, match=r"inner\.zzzz: unknown key \(known: colour\)"):
        load(path, Outer)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "inner: {colour: [1]}\nitem: []")
    with pytest.raises(ConfigError) as caught:
        load(path, Outer)
    assert "inner.colour" in caught.value.message
    assert "did you mean 'items'" in caught.value.message


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="key 'a' is given twice"):
        read_yaml(write(tmp_path, "a: 1\na: 2"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "not valid YAML"),
        ("!!python/object/apply:os.system [id]", "not valid YAML"),
        ("- 1", "holds list, not a mapping"),
        ("", "holds NoneType, not a mapping"),
        ("? [a]\n: 1", "not valid YAML"),
    ],
)
def test_broken_documents_are_told_plainly(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(write(tmp_path, text), Outer)


def test_a_file_that_is_no_text_is_told_plainly(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(path)


def test_a_missing_file_is_told_plainly(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "absent.yaml")


def test_nested_models_of_the_fleet_are_walked(tmp_path: Path) -> None:
    text = """
devices:
  - {name: a, chip: c, model: m, tier: low, abis: [arm64], memory_mb: 1, link: {kind: emulated, emulater: qemu-arm}}
"""
    with pytest.raises(ConfigError, match=r"devices\[0\]\.link\.emulater: unknown key \(did you mean 'emulator'\?\)"):
        load(write(tmp_path, text), Fleet)


def test_nearest_points_from_a_typing_error_to_the_name() -> None:
    assert nearest("cortex-a35", ["cortex-a53", "riscv64"]) == "did you mean 'cortex-a53'?"
    assert nearest("zzz", []) == "known: none"
