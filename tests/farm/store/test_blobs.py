import errno
import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.errors import StorageFull, StoreError
from farm.store.blobs import BlobStore


@pytest.fixture
def blobs(tmp_path):
    return BlobStore(tmp_path / "blobs")


@given(data=st.binary(max_size=2000))
def test_what_goes_in_comes_out_under_its_hash(tmp_path_factory, data):
    blobs = BlobStore(tmp_path_factory.getbasetemp() / "any")
    digest = blobs.put_bytes(data)
    assert digest == hashlib.sha256(data).hexdigest()
    assert blobs.get(digest).read_bytes() == data


def test_files_are_checked_against_what_was_expected(blobs, tmp_path):
    source = tmp_path / "f"
    source.write_bytes(b"x" * 3_000_000)
    digest = blobs.put_file(source)
    assert blobs.put_file(source, expected=digest) == digest
    with pytest.raises(StoreError, match=rf"expected a file with SHA-256 {'0' * 12}…, got {digest[:12]}…"):
        blobs.put_file(source, expected="0" * 64)
    assert not blobs.has("0" * 64)
    assert not list(blobs.root.glob(".new-*"))


def test_a_damaged_blob_is_not_given_out(blobs):
    digest = blobs.put_bytes(b"good")
    blobs.path(digest).write_bytes(b"evil")
    with pytest.raises(StoreError, match="was damaged on disk and is removed"):
        blobs.get(digest)
    with pytest.raises(StoreError, match="is not in"):
        blobs.get(digest)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63])
def test_a_name_that_is_no_digest_never_becomes_a_path(blobs, name):
    with pytest.raises(StoreError, match="is no SHA-256"):
        blobs.path(name)


def test_many_writers_of_one_blob(blobs):
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(lambda _: blobs.put_bytes(b"same" * 10000), range(16)))
    assert len(digests) == 1
    assert sum(path.is_file() for path in blobs.root.rglob("*")) == 1


def test_a_full_disk_is_told_and_leaves_nothing(blobs, monkeypatch):
    def full(_fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageFull, match="no room left"):
        blobs.put_bytes(b"x")
    assert list(blobs.root.iterdir()) == []
