import os
import pwd
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agents.sshlogin import Address
from engine.contract.errors import ConfigError, StoreError
from farm.store.blobs import BlobStore
from farm.store.remote import RemoteBlobs, remote_at
from tests.agents.sshd import running_sshd

DATA = b"a tensor" * 1000


@pytest.fixture
def shared(tmp_path):
    return (tmp_path / "shared").as_uri()


def host(tmp_path, name, url):
    """The blobs as one host sees them: a cache of its own before the common storage."""
    return BlobStore(tmp_path / name, RemoteBlobs(url))


def test_what_one_host_puts_another_gets(tmp_path, shared):
    one, two = host(tmp_path, "one", shared), host(tmp_path, "two", shared)
    digest = one.put_bytes(DATA)
    assert not two.has(digest)
    assert two.get(digest).read_bytes() == DATA
    assert two.has(digest)
    assert two.path(digest).parent.parent == tmp_path / "two"


def test_what_is_fetched_needs_no_room_but_that_of_the_cache(tmp_path, shared, monkeypatch):
    digest = host(tmp_path, "one", shared).put_bytes(DATA)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    two = host(tmp_path, "two", shared)
    assert two.get(digest).read_bytes() == DATA
    assert [path.name for path in two.root.rglob("*") if path.is_file()] == [digest]
    (tmp_path / "three").touch()
    with pytest.raises(StoreError, match=r"three: File exists(.|\n)*next: set LOCKSTEP_CACHE to a writable folder"):
        host(tmp_path, "three", shared).get(digest)


def test_a_file_is_shared_without_a_second_copy_here(tmp_path, shared):
    one, two = host(tmp_path, "one", shared), host(tmp_path, "two", shared)
    digest = BlobStore(tmp_path / "elsewhere").put_bytes(DATA)
    source = tmp_path / "elsewhere" / digest[:2] / digest
    one.share_file(source, digest)
    assert not one.has(digest)
    assert two.get(digest).read_bytes() == DATA
    source.write_bytes(b"changed since")
    one.share_file(source, digest)  # there already: not read again
    with pytest.raises(StoreError, match="expected a file with SHA-256 0000"):
        one.share_file(source, "0" * 64)


def test_a_blob_seen_under_its_name_is_whole(tmp_path, shared):
    one = host(tmp_path, "one", shared)
    digest = one.put_bytes(DATA)
    one.put_bytes(DATA)
    files = [path for path in (tmp_path / "shared").rglob("*") if path.is_file()]
    assert [path.name for path in files] == [digest]


def test_a_copy_that_breaks_off_is_not_seen(tmp_path, shared, monkeypatch):
    remote = RemoteBlobs(shared)
    files, _ = remote._files()

    def half(source, target):
        Path(target).write_bytes(DATA[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "put_file", half)
    with pytest.raises(StoreError, match=r"blobs at file:.*No space left"):
        BlobStore(tmp_path / "one", remote).put_bytes(DATA)
    assert not [path for path in (tmp_path / "shared").rglob("*") if path.is_file()]


def test_damage_in_the_common_storage_is_not_taken_over(tmp_path, shared):
    digest = host(tmp_path, "one", shared).put_bytes(DATA)
    (tmp_path / "shared" / digest[:2] / digest).write_bytes(b"evil")
    two = host(tmp_path, "two", shared)
    with pytest.raises(StoreError, match="expected a file with SHA-256"):
        two.get(digest)
    assert not two.has(digest)


def test_damage_in_the_cache_is_mended_from_the_common_storage(tmp_path, shared):
    one = host(tmp_path, "one", shared)
    digest = one.put_bytes(DATA)
    one.path(digest).write_bytes(b"evil")
    assert one.get(digest).read_bytes() == DATA


def test_what_is_nowhere_is_told(tmp_path, shared):
    with pytest.raises(StoreError, match=r"blob 0000.* is not in .* nor at file://"):
        host(tmp_path, "one", shared).get("0" * 64)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("/srv/blobs", "LOCKSTEP_BLOBS_URL: /srv/blobs is no URL"),
        ("s3://bucket/blobs", "LOCKSTEP_BLOBS_URL: Install s3fs"),
        ("absent://x", "LOCKSTEP_BLOBS_URL: Protocol not known"),
    ],
)
def test_a_url_that_cannot_be_is_a_configuration_error(url, words):
    with pytest.raises(ConfigError, match=words):
        RemoteBlobs(url)


def test_storage_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"Not a directory(.|\n)*next: is LOCKSTEP_BLOBS_URL right"):
        host(tmp_path, "one", (tmp_path / "file" / "blobs").as_uri()).put_bytes(DATA)


def test_the_environment_names_the_storage(shared, monkeypatch):
    monkeypatch.delenv("LOCKSTEP_BLOBS_URL", raising=False)
    assert BlobStore.configured().remote is None
    monkeypatch.setenv("LOCKSTEP_BLOBS_URL", shared)
    assert BlobStore.configured().remote is remote_at(shared)


def test_commands_without_remote_storage_do_not_pay_for_it():
    asked = "import sys, farm.store.blobs; sys.exit('fsspec' in sys.modules or 'paramiko' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0


@pytest.mark.ssh
def test_sftp_takes_known_hosts_only(tmp_path, monkeypatch):
    with running_sshd(tmp_path / "sshd") as daemon:
        where: Address = daemon.address
        monkeypatch.setattr("os.path.expanduser", lambda path: str(path).replace("~", str(tmp_path / "home")))
        (tmp_path / "home" / ".ssh").mkdir(parents=True)
        known = tmp_path / "home" / ".ssh" / "known_hosts"
        known.touch()
        (tmp_path / "home" / ".ssh" / "id_ed25519").write_bytes(where.key.read_bytes())
        user = pwd.getpwuid(os.getuid()).pw_name
        url = f"sftp://{user}@127.0.0.1:{where.port}{tmp_path}/blobs"
        with pytest.raises(StoreError, match="known_hosts"):
            host(tmp_path, "one", url).put_bytes(DATA)
        daemon.trust(known)
        one, two = host(tmp_path, "one", url), host(tmp_path, "two", url)
        digest = one.put_bytes(DATA)
        assert two.get(digest).read_bytes() == DATA
        assert [path.name for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == [digest]
        for blobs in (one, two):
            files, _ = blobs.remote._files()
            files.ftp.close()
            files.client.close()
