from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from engine.contract.errors import MissingToolError

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"setup_{name}", ROOT / "setup" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


environment = load("environment")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_pins_and_hashes_everything_the_project_asks_for() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"^(?=\S)", lock, flags=re.MULTILINE)[1:]
    pinned = {normal(entry.split("==")[0]) for entry in entries}
    assert all(re.match(r"\S+==\S+", entry) and "--hash=sha256:" in entry for entry in entries)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"], "setuptools", "uv", "pip"]
    assert {normal(re.split(r"[\[<>=! ;]", one)[0]) for one in wanted} <= pinned, "type: make lock"
    assert "://" not in lock, "the lock must not bind anyone to a registry"


def test_one_package_is_cut_out_of_the_lock_with_its_hashes() -> None:
    lock = "alpha==1 \\\n    --hash=sha256:aa\nuv==2.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\nzeta==3\n"
    assert environment.locked_requirement("uv", lock) == "uv==2.0 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    assert environment.locked_requirement("zeta", lock) == "zeta==3\n"
    with pytest.raises(MissingToolError, match="does not pin pip") as caught:
        environment.locked_requirement("pip", lock)
    assert caught.value.hint == "type: make lock"


def test_pip_s_files_are_read_and_variables_win(tmp_path: Path) -> None:
    (tmp_path / ".config" / "pip").mkdir(parents=True)
    (tmp_path / ".config" / "pip" / "pip.conf").write_text(
        "[global]\nindex-url = https://a.example.org/simple\ncert = /ca.pem\nextra-index-url =\n  https://x\n  https://y\n"
    )
    own = tmp_path / "own.conf"
    own.write_text("[global]\ncert = /own.pem\n")
    found = environment.pip_settings(
        {"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(own), "PIP_INDEX_URL": "https://b.example.org/simple"}
    )
    assert found["index-url"] == "https://b.example.org/simple"
    assert found["cert"] == "/own.pem"
    assert found["extra-index-url"].split() == ["https://x", "https://y"]


def test_a_broken_pip_configuration_is_told_and_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.conf"
    broken.write_text("no section\n")
    environment.pip_settings({"HOME": str(tmp_path), "PIP_CONFIG_FILE": str(broken)})
    assert "not readable and not used" in capsys.readouterr().err


def test_pip_s_settings_reach_uv_and_its_own_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    pip = {
        "index-url": "https://a.example.org/simple",
        "extra-index-url": f"https://x.example.org/simple file://{tmp_path}/absent",
        "find-links": f"{wheels} {tmp_path}/absent",
        "no-index": "true",
        "cert": "/ca.pem",
    }
    monkeypatch.setattr(environment, "pip_settings", lambda _: pip)
    made = environment.uv_environment({"HOME": "/home/x"}, tmp_path)
    assert made["UV_DEFAULT_INDEX"] == "https://a.example.org/simple"
    assert made["UV_INDEX"] == "https://x.example.org/simple", "a folder that is not there is skipped, as pip does"
    assert made["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert made["UV_FIND_LINKS"] == str(wheels)
    assert made["UV_NO_INDEX"] == "1"
    assert made["SSL_CERT_FILE"] == "/ca.pem"
    assert made["UV_CACHE_DIR"] == str(tmp_path / "uv" / "cache")
    assert made["HOME"] == "/home/x"

    chosen = environment.uv_environment({"UV_INDEX_URL": "https://mine", "UV_CACHE_DIR": "/mine"}, tmp_path)
    assert "UV_DEFAULT_INDEX" not in chosen
    assert chosen["UV_CACHE_DIR"] == "/mine"


def test_a_failed_step_carries_the_tail_and_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="hash mismatch for uv") as caught:
        environment.run(["sh", "-c", "echo hash mismatch for uv >&2; exit 1"], {"PATH": "/bin:/usr/bin"}, tmp_path)
    assert "make setup" in caught.value.hint


def test_a_cache_that_cannot_be_made_is_an_error_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCKSTEP_CACHE", "/proc/nowhere")
    assert environment.main("gate", "key") == 3
    said = capsys.readouterr().err
    assert "/proc/nowhere" in said
    assert "set LOCKSTEP_CACHE" in said
    assert "Traceback" not in said


def test_an_environment_that_is_gone_or_of_another_version_is_made_again(tmp_path: Path) -> None:
    python = tmp_path / "python"
    assert not environment.has_same_version(python)
    python.write_text("#!/bin/sh\necho '(3, 9)'\n")
    python.chmod(0o755)
    assert not environment.has_same_version(python)
