"""apt itself is real here: a local package folder stands for the mirror, so no network is needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from engine import debian
from engine.contract.errors import MissingToolError
from engine.debian import Apt, Group, fetch_package, find_mirrors, private_configuration, source_list, unpack

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get (Debian)")


def make_package(folder: Path, name: str, path: str, depends: str = "") -> None:
    root = folder / f".{name}"
    (root / "DEBIAN").mkdir(parents=True)
    fields = f"Package: {name}\nVersion: 1:2.0-1\nArchitecture: all\nMaintainer: t <t@example.org>\nDescription: t\n"
    (root / "DEBIAN" / "control").write_text(fields + (f"Depends: {depends}\n" if depends else ""))
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(name)
    (root / "usr/share/doc" / name).mkdir(parents=True)
    (root / "usr/share/doc" / name / "copyright").write_text("c")
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", root, folder], check=True, capture_output=True)
    shutil.rmtree(root)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of three packages that the private configuration is pointed to."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    make_package(folder, "alpha", "lib/alpha.txt", "beta, unwanted")
    make_package(folder, "beta", "usr/lib/beta.txt")
    make_package(folder, "unwanted", "usr/lib/unwanted.txt")
    listing = []
    for deb in sorted(folder.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "-f", deb], check=True, capture_output=True, text=True).stdout.strip()
        digest = subprocess.run(["sha256sum", deb], check=True, capture_output=True, text=True).stdout.split()[0]
        listing.append(f"{control}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n")
    (folder / "Packages").write_text("\n".join(listing))
    monkeypatch.setattr(debian, "find_mirrors", lambda: (str(folder), ""))
    monkeypatch.setattr(debian, "source_list", lambda *_: f"deb [trusted=yes] copy:{folder} ./\n")
    return folder


def test_a_group_is_unpacked_with_its_dependencies_and_kept(mirror: Path, tmp_path: Path) -> None:
    said: list[str] = []
    group = Group("toys", ("alpha",), skip=("unw*",))
    tree = unpack(group, tmp_path / "cache", said.append)
    assert (tree / "usr/lib/alpha.txt").read_text() == "alpha", "/lib and /usr/lib are one folder"
    assert (tree / "usr/lib/beta.txt").is_file()
    assert not (tree / "usr/lib/unwanted.txt").exists()
    assert not (tree / "usr/share/doc").exists()
    manifest = json.loads((tree.parent / "manifest.json").read_text())
    assert [(one["package"], one["version"]) for one in manifest["packages"]] == [
        ("alpha", "1:2.0-1"),
        ("beta", "1:2.0-1"),
    ]
    assert any("unpacking 2 packages" in line for line in said)

    shutil.rmtree(mirror)
    assert unpack(group, tmp_path / "cache") == tree, "offline once cached"


def test_only_kept_paths_are_unpacked(mirror: Path, tmp_path: Path) -> None:
    tree = unpack(Group("one", ("beta",), keep=("usr/lib/beta.txt",)), tmp_path / "cache")
    assert (tree / "usr/lib/beta.txt").is_file()
    with pytest.raises(MissingToolError, match=r"cannot unpack beta_.*Not found in archive"):
        unpack(Group("none", ("beta",), keep=("usr/bin/absent",)), tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache/debian").iterdir() if path.name.startswith((".new", "none"))]


def test_one_package_is_fetched_alone_and_by_version(mirror: Path, tmp_path: Path) -> None:
    tree = fetch_package("alpha", "1:2.0-1", tmp_path / "cache")
    assert (tree / "usr/lib/alpha.txt").is_file()
    assert not (tree / "usr/lib/beta.txt").exists()


def test_an_absent_package_is_named_with_the_next_step(mirror: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="no-such-package") as caught:
        unpack(Group("x", ("no-such-package",)), tmp_path / "cache")
    assert "make setup" in caught.value.hint
    with pytest.raises(MissingToolError, match=r"9\.9"):
        fetch_package("alpha", "9.9", tmp_path / "cache")


def test_a_damaged_archive_is_refused(mirror: Path, tmp_path: Path) -> None:
    archive = mirror / "beta_1%3a2.0-1_all.deb"
    archive = archive if archive.exists() else mirror / "beta_2.0-1_all.deb"
    data = bytearray(archive.read_bytes())
    data[-1] ^= 1
    archive.write_bytes(data)
    with pytest.raises(MissingToolError):
        unpack(Group("b", ("beta",)), tmp_path / "cache")


def test_the_machine_s_mirror_is_found_in_both_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKSTEP_DEBIAN_MIRROR", raising=False)
    old, new = tmp_path / "sources.list", tmp_path / "parts"
    new.mkdir()
    old.write_text("deb http://old.example.org/debian bookworm main\n")
    (new / "d.sources").write_text(
        "Types: deb\nURIs: http://new.example.org/debian-security\nSuites: bookworm-security\nComponents: main\n"
    )
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::Etc::SourceList "{old}";\nDir::Etc::SourceParts "{new}";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    assert find_mirrors() == ("http://old.example.org/debian", "http://new.example.org/debian-security")

    old.write_text("")
    with pytest.raises(MissingToolError, match="no Debian mirror configured") as caught:
        find_mirrors()
    assert "LOCKSTEP_DEBIAN_MIRROR" in caught.value.hint
    monkeypatch.setenv("LOCKSTEP_DEBIAN_MIRROR", "http://own.example.org/debian/")
    assert find_mirrors() == ("http://own.example.org/debian", "")


def test_the_private_configuration_reads_nothing_of_the_machine_but_its_network_settings(tmp_path: Path) -> None:
    home = tmp_path / "apt"
    (home / "none").mkdir(parents=True)
    (home / "apt.conf").write_text(private_configuration(home, 'Acquire::http::Proxy "http://proxy.example.org";'))
    environment = {**os.environ, "APT_CONFIG": str(home / "apt.conf")}
    dump = subprocess.run(["apt-config", "dump"], env=environment, capture_output=True, text=True, check=True).stdout
    assert 'Acquire::http::Proxy "http://proxy.example.org";' in dump
    assert "Post-Invoke" not in dump
    assert f'Dir::State::Status "{home}/status";'.lower() in dump.lower()


def test_the_source_list_has_release_backports_and_security() -> None:
    lines = source_list(("http://m.example.org/debian", "http://s.example.org/debian-security")).splitlines()
    assert [line.split("]")[-1].split()[-2] for line in lines] == [
        "bookworm",
        "bookworm-backports",
        "bookworm-security",
    ]
    assert len(source_list(("http://m.example.org/debian", "")).splitlines()) == 2


def test_without_apt_the_message_names_the_machine_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError, match="apt-get is not here") as caught:
        Apt.prepare(tmp_path / "apt")
    assert "Debian 12" in caught.value.hint


def test_a_group_for_another_release_or_architecture_is_another_tree() -> None:
    keys = {
        Group("a", ("x",)).key,
        Group("a", ("x",), release="trixie").key,
        Group("a", ("x",), architecture="arm64").key,
    }
    assert len(keys) == 3


def test_the_configuration_for_a_foreign_architecture_asks_for_no_other(tmp_path: Path) -> None:
    text = private_configuration(tmp_path, "", "arm64")
    assert 'APT::Architecture "arm64"; APT::Architectures { "arm64"; };' in text
    assert "Architecture" not in private_configuration(tmp_path, "")
