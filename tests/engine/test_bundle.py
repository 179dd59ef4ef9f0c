from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.bundle import BuildSpec, Bundle, build_bundle, collect_bundle, source_tree, sources_digest
from engine.contract.errors import BuildError, ConfigError, UsageError

COPY = """
import pathlib, sys
runner = pathlib.Path(sys.argv[1]) / "runner"
runner.write_bytes(pathlib.Path("src/a.txt").read_bytes())
runner.chmod(0o755)
open("ran", "a").write("x")
"""


def make(root: Path, cache: Path, script: str = COPY, abi: str = "arm64") -> Bundle:
    spec = BuildSpec(command=("{python}", "-c", script, "{out}", "{abi}"), sources=("src/**",))
    return build_bundle("toy", abi, ["runner"], spec, root, cache=cache, python=sys.executable)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    source = tmp_path / "root" / "src"
    source.mkdir(parents=True)
    (source / "a.txt").write_text("one")
    return tmp_path / "root"


def test_a_build_is_run_once_for_the_same_sources(root: Path, tmp_path: Path) -> None:
    first = make(root, tmp_path / "cache")
    second = make(root, tmp_path / "cache")
    assert first == second
    assert (root / "ran").read_text() == "x"
    assert (first.root / "runner").read_text() == "one"
    assert [(file.path, file.size, file.executable) for file in first.files] == [("runner", 3, True)]


def test_a_changed_source_and_another_abi_are_built_again(root: Path, tmp_path: Path) -> None:
    first = make(root, tmp_path / "cache")
    make(root, tmp_path / "cache", abi="riscv64")
    (root / "src" / "a.txt").write_text("two")
    changed = make(root, tmp_path / "cache")
    assert (root / "ran").read_text() == "xxx"
    assert changed.digest != first.digest
    assert changed.version != first.version
    assert (first.root / "runner").read_text() == "one", "a kept build never changes"


def test_the_digest_depends_on_files_only(root: Path, tmp_path: Path) -> None:
    assert make(root, tmp_path / "cache").digest == make(root, tmp_path / "cache", abi="armv7").digest


def test_a_build_deleted_in_part_is_made_again(root: Path, tmp_path: Path) -> None:
    first = make(root, tmp_path / "cache")
    (first.root / "runner").rename(first.root / "elsewhere")
    assert make(root, tmp_path / "cache") == first


def test_a_failed_build_says_why_and_leaves_nothing(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"building toy for arm64 failed with exit code 7") as caught:
        make(root, tmp_path / "cache", "import sys; print('undeclared x', file=sys.stderr); sys.exit(7)")
    assert "undeclared x" in str(caught.value)
    assert "run it by hand in" in caught.value.hint
    assert caught.value.fields["exit_code"] == 7
    assert caught.value.fields["stderr"] == "undeclared x\n"
    assert [path.name for path in (tmp_path / "cache" / "builds").iterdir()] == [".locks"]


def test_a_build_without_its_files_is_not_accepted(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"succeeded but left no runner"):
        make(root, tmp_path / "cache", "pass")


def test_a_command_that_does_not_exist_is_named(root: Path, tmp_path: Path) -> None:
    spec = BuildSpec(command=("no-such-builder",), sources=("src/**",))
    with pytest.raises(BuildError, match=r"cannot start no-such-builder"):
        build_bundle("toy", "arm64", ["runner"], spec, root, cache=tmp_path / "cache", python=sys.executable)


def test_patterns_that_match_nothing_or_leave_the_tree_are_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"'nowhere/\*\*' matches no file"):
        sources_digest(["nowhere/**"], root)
    with pytest.raises(ConfigError, match="leaves the source tree"):
        sources_digest(["../**"], root)


def test_byte_code_does_not_count_as_a_source(root: Path) -> None:
    before = sources_digest(["src/**"], root)
    (root / "src" / "__pycache__").mkdir()
    (root / "src" / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert sources_digest(["src/**"], root) == before
    (root / "src" / "deep").mkdir()
    (root / "src" / "deep" / "b.txt").write_text("b")
    assert sources_digest(["src/**"], root) != before


def test_artifacts_are_taken_in_place(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "runner").write_bytes(b"\x7fELF")
    (tmp_path / "lib" / "x.so").write_bytes(b"so")
    bundle = collect_bundle("team", "arm64", ["runner", "lib/x.so"], tmp_path)
    assert bundle.root == tmp_path
    assert [file.path for file in bundle.files] == ["lib/x.so", "runner"]
    assert bundle.version == bundle.digest[:12]
    with pytest.raises(UsageError, match=r"has no absent for arm64"):
        collect_bundle("team", "arm64", ["runner", "absent"], tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()

    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-b", "main")
    (folder / "a.txt").write_text("old")
    git("add", "a.txt")
    git("commit", "-m", "first")
    (folder / "a.txt").write_text("new")
    git("commit", "-am", "second")
    return folder


def test_a_commit_is_unpacked_once(repo: Path, tmp_path: Path) -> None:
    tree = source_tree("HEAD~1", repo, tmp_path / "cache")
    assert (tree / "a.txt").read_text() == "old"
    assert source_tree("HEAD~1", repo, tmp_path / "cache") == tree
    assert (source_tree("main", repo, tmp_path / "cache") / "a.txt").read_text() == "new"


@pytest.mark.parametrize("ref", ["no-such-branch", "--help", "", "HEAD~9"])
def test_an_unknown_commit_is_a_usage_error(ref: str, repo: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git knows no commit") as caught:
        source_tree(ref, repo, tmp_path / "cache")
    assert "fetch --unshallow" in caught.value.hint
