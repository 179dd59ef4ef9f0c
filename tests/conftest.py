"""What the tests of all rooms share: the browser that `make test` unpacked, and options."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from engine.contract.errors import MissingToolError
from engine.toolchain import browser


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--chaos-…`` must be known wherever the tests are started from."""
    parser.addoption(
        "--chaos-seed", type=int, default=1, help="which handful of faults × moments × links `make test` tries"
    )
    parser.addoption("--chaos-part", default="1/1", help="which share of all of them: the Nth of M, as N/M")


@pytest.fixture(scope="session", autouse=True)
def _unpacked_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Scripts that start Chromium, and playwright's own node, with the libraries unpacked beside Chromium.

    A minimal machine has neither these libraries nor a browser; only these two programs may see them.
    """
    try:
        program, environment = browser()
    except MissingToolError:
        yield
        return
    folder = tmp_path_factory.mktemp("browser")
    programs = {"LOCKSTEP_CHROMIUM": program, "PLAYWRIGHT_NODEJS_PATH": _node()}
    with pytest.MonkeyPatch.context() as patch:
        for variable, wrapped in programs.items():
            if wrapped and variable not in os.environ:
                patch.setenv(variable, str(_script(folder / wrapped.name, wrapped, environment)))
        yield


def _node() -> Path | None:
    spec = importlib.util.find_spec("playwright")
    return Path(spec.origin).parent / "driver" / "node" if spec and spec.origin else None


def _script(path: Path, program: Path, environment: Mapping[str, str]) -> Path:
    lines = [f"export {name}={shlex.quote(environment[name])}" for name in ("LD_LIBRARY_PATH", "FONTCONFIG_FILE")]
    path.write_text("\n".join(["#!/bin/sh", *lines, f'exec {shlex.quote(str(program))} "$@"', ""]))
    path.chmod(0o755)
    return path
