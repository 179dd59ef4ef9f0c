"""The shell part of the set-up, run for real in a copy of the files it reads."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INPUTS = ("requirements.lock", "pyproject.toml", "engine/debian.py")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone"
    shutil.copytree(ROOT / "setup", folder / "setup", ignore=shutil.ignore_patterns("__pycache__"))
    for name in INPUTS:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    # In place of the second half: it tells what it was asked for, and the key
    (folder / "setup" / "environment.py").write_text("import sys; print('asked for', *sys.argv[1:])\n")
    return folder


def bootstrap(copy: Path, *, target: str = "gate", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(copy), **variables}
    command = ["/bin/sh", str(copy / "setup" / "bootstrap.sh"), target]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)


def finish(copy: Path, *folders: Path, **variables: str) -> str:
    """Leave the stamps as a finished set-up does; returns the key."""
    key = bootstrap(copy, **variables).stdout.split()[-1]
    (copy / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    (copy / ".venv" / "bin" / "python").write_text("#!/bin/sh\n")
    (copy / ".venv" / "bin" / "python").chmod(0o755)
    (copy / ".venv" / "setup-gate").write_text("\n".join([key, *map(str, folders), ""]))
    return key


def test_nothing_is_done_when_nothing_changed(copy: Path) -> None:
    kept = copy / "cache" / "toolchain"
    kept.mkdir(parents=True)
    finish(copy, kept)
    done = bootstrap(copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_deleted_folder_of_the_cache_is_noticed(copy: Path) -> None:
    kept = copy / "cache" / "toolchain"
    kept.mkdir(parents=True)
    finish(copy, kept)
    kept.rmdir()
    assert bootstrap(copy).stdout.startswith("asked for gate ")


@pytest.mark.parametrize("name", [*INPUTS, "setup/packages.yaml", "setup/environment.py", "setup/system.py"])
def test_a_change_of_any_input_is_noticed(copy: Path, name: str) -> None:
    finish(copy)
    with (copy / name).open("a") as file:
        file.write("\n# changed\n")
    assert bootstrap(copy).stdout.startswith("asked for gate ")


def test_another_target_another_cache_and_a_lost_environment_are_noticed(copy: Path) -> None:
    finish(copy)
    assert bootstrap(copy, target="test").stdout.startswith("asked for test ")
    assert bootstrap(copy, LOCKSTEP_CACHE="/elsewhere").stdout.startswith("asked for gate ")
    (copy / ".venv" / "bin" / "python").unlink()
    assert bootstrap(copy).stdout.startswith("asked for gate ")


def test_a_python_that_is_too_old_is_named_with_what_to_type(copy: Path, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "python3"
    old.parent.mkdir()
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = bootstrap(copy, LOCKSTEP_PYTHON=str(old))
    assert done.returncode == 3
    assert "Python 3.11 or newer is needed; found: Python 3.9.2;" in done.stderr
    assert "apt-get install python3" in done.stderr
    assert "found: none" in bootstrap(copy, LOCKSTEP_PYTHON="no-such-python").stderr


def test_a_python_further_down_the_path_is_found(copy: Path) -> None:
    assert bootstrap(copy, LOCKSTEP_PYTHON="no-such-python python3").stdout.startswith("asked for gate ")
