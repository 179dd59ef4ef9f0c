"""The wheels of another chip are those of the lock file."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from ci.learning.arm import WHEELS, requirements
from engine.contract.errors import ConfigError
from engine.toolchain import groups_needed_by, package_group

LOCK = (Path(__file__).parents[3] / "requirements.lock").read_text(encoding="utf-8")


def test_they_have_the_versions_and_hashes_that_are_locked() -> None:
    told = requirements(LOCK)
    entries = [line for line in told.splitlines() if not line.startswith(" ")]
    assert {entry.partition("==")[0] for entry in entries} == set(WHEELS)
    assert any(entry.startswith(f"onnxruntime=={version('onnxruntime')} ") for entry in entries)
    assert len([entry for entry in entries if entry.startswith("numpy==")]) == LOCK.count("\nnumpy==")
    assert all(line.startswith("    --hash=sha256:") for line in told.splitlines() if line.startswith(" "))
    assert told.count("--hash") >= len(entries)


def test_a_lock_file_without_one_of_them_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no onnxruntime, xxhash"):
        requirements(LOCK.replace("\nonnxruntime==", "\nother==").replace("\nxxhash==", "\nfaster=="))


def test_its_interpreter_is_unpacked_only_when_asked_for() -> None:
    assert package_group("python-arm64").architecture == "arm64"
    for target in ("setup", "gate", "test", "bench", "lint"):
        assert "python-arm64" not in groups_needed_by(target)
