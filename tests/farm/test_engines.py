from __future__ import annotations

from pathlib import Path

import pytest

from engine.contract.errors import ConfigError, UsageError
from farm.engines import load_engine

REPOSITORY = Path(__file__).parents[2]
MANIFEST = "name: e\nlevel: 0\nmodel_format: onnx\nrunner: [./e]\nabis: {x86-64: {files: [%s]}}\n"


def test_every_engine_of_the_repository_loads_under_its_own_name() -> None:
    for path in sorted((REPOSITORY / "engines").glob("*.yaml")):
        assert load_engine(REPOSITORY / "engines", path.stem).name == path.stem


def test_an_unknown_engine_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"unknown engine 'refrtt': did you mean 'refrt'\?"):
        load_engine(REPOSITORY / "engines", "refrtt")


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "a/../../b"])
def test_files_outside_the_artifact_folder_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "e.yaml").write_text(MANIFEST % name)
    with pytest.raises(ConfigError, match="must be a path inside the artifact folder"):
        load_engine(tmp_path, "e")


def test_build_and_artifacts_exclude_each_other(tmp_path: Path) -> None:
    text = MANIFEST % "e" + "artifacts: x\nbuild: {command: [make], sources: ['*']}\n"
    (tmp_path / "e.yaml").write_text(text)
    with pytest.raises(ConfigError, match="not both"):
        load_engine(tmp_path, "e")


def test_the_first_abi_that_has_a_build_is_taken() -> None:
    refrt = load_engine(REPOSITORY / "engines", "refrt")
    assert refrt.abi_for(("arm64-sve", "arm64")) == "arm64-sve"
    assert refrt.abi_for(("mips", "arm64")) == "arm64"
    assert refrt.abi_for(("mips",)) is None
