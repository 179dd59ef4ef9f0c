"""The compiled kernel is built once, and its absence costs time, not answers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from consistency.metrics import kernel
from consistency.metrics.measure import measure
from engine.contract.errors import BuildError, MissingToolError
from engine.toolchain import Toolchain
from farm import kernel as builder


@pytest.fixture(autouse=True)
def _numpy_again() -> Iterator[None]:
    kernel.use(None)
    yield
    kernel.use(None)


def test_it_is_compiled_once_and_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    library = builder.build(Toolchain.locate())
    monkeypatch.setattr(builder, "_compile", lambda *_: pytest.fail("compiled again"))
    assert builder.build(Toolchain.locate()) == library
    assert builder.install()
    assert kernel.loaded() is not None


def test_other_flags_are_another_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toolchain = Toolchain.locate()
    monkeypatch.setenv("LOCKSTEP_CACHE", str(tmp_path))
    fast = builder.build(toolchain)
    monkeypatch.setattr(builder, "_has_avx2", lambda: False)
    assert builder.build(toolchain) != fast


def test_without_a_compiler_numpy_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Toolchain:
        raise MissingToolError("the toolchain packages are not in the cache", hint="type: make setup")

    monkeypatch.setattr(Toolchain, "locate", absent)
    assert not builder.install()
    assert measure(np.ones(3, np.float32), np.ones(3, np.float32)).stats.count == 3


def test_another_processor_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder.platform, "machine", lambda: "aarch64")
    with pytest.raises(BuildError, match="no comparison kernel for aarch64"):
        builder.build(Toolchain.locate())
    assert not builder.install()


def test_what_the_compiler_refuses_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toolchain = Toolchain.locate()
    source = tmp_path / "measure.c"
    source.write_text("not C")
    monkeypatch.setattr(builder, "SOURCE", source)
    with pytest.raises(BuildError, match="the compiler left with"):
        builder.build(toolchain)
