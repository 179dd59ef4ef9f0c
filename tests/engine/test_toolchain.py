from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from engine import toolchain
from engine.contract.errors import ConfigError, MissingToolError
from engine.debian import RELEASE
from engine.toolchain import EMULATORS, Toolchain, browser, emulator, environment_of, groups_needed_by, package_group


def test_an_empty_cache_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="the toolchain packages are not in the cache") as caught:
        Toolchain.locate(tmp_path)
    assert caught.value.hint == "type: make setup"
    assert caught.value.exit_code == 3


def test_the_package_list_is_the_only_one() -> None:
    assert groups_needed_by("gate") == ("toolchain", "emulators")
    assert set(groups_needed_by("test")) > set(groups_needed_by("gate"))
    assert package_group("emulators").suite == f"{RELEASE}-backports"
    assert {Path(path).name for path in package_group("emulators").keep} == set(EMULATORS)


def test_a_group_changes_its_folder_with_its_content(tmp_path: Path) -> None:
    names = {package_group(name).folder(tmp_path) for name in ("toolchain", "emulators", "browser")}
    assert len(names) == 3


def test_a_broken_list_is_a_configuration_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "packages.yaml"
    broken.write_text("groups: [")
    monkeypatch.setattr(toolchain, "PACKAGE_LIST", broken)
    toolchain._list.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"cannot read .*packages\.yaml"):
            package_group("toolchain")
    finally:
        toolchain._list.cache_clear()


def test_libraries_of_a_tree_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    folders = environment_of(tmp_path)["LD_LIBRARY_PATH"].split(":")
    assert folders[0].startswith(str(tmp_path))
    assert folders[-1] == "/mine"
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert "" not in environment_of(tmp_path)["LD_LIBRARY_PATH"].split(":"), "an empty entry means the current folder"


def says(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.qemu
def test_the_compiler_and_every_emulator_run_and_are_the_wanted_ones() -> None:
    tools = Toolchain.locate()
    assert says([str(tools.compiler), "--version"], tools.environment()).startswith("Debian clang version 19.")
    for name in EMULATORS:
        assert says([str(emulator(name)), "--version"], {}).startswith(f"{name} version 10.")
    assert os.access(tools.emulator("qemu-arm"), os.X_OK)
    assert len(tools.identity) == 64


@pytest.mark.qemu
def test_an_unknown_emulator_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        MissingToolError, match="no emulator 'qemu-mips': there are qemu-aarch64, qemu-arm, qemu-riscv64, qemu-x86_64"
    ):
        emulator("qemu-mips")


@pytest.mark.browser
def test_the_unpacked_browser_starts_with_libraries_of_its_own_tree() -> None:
    program, environment = browser()
    tree = program.parents[3]
    linked = subprocess.run(["ldd", program], env=environment, capture_output=True, text=True, check=True).stdout
    assert "not found" not in linked
    assert f"{tree}/usr/lib/x86_64-linux-gnu/libnss3.so" in linked
    assert f"{tree}/usr/lib/x86_64-linux-gnu/pulseaudio/libpulsecommon" in linked
