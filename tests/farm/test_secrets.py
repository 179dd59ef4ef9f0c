import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.errors import ConfigError, TransferError
from farm.jobs import JobError
from farm.secrets import RedactingFormatter, read_secret, redact, remember

URL = "rediss://:pa55w0rd-of-the-farm@farm.example:6379/0"


def from_file(path):
    return read_secret("LOCKSTEP_BROKER_URL", {"LOCKSTEP_BROKER_URL_FILE": str(path)})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "url"
    path.touch(mode=0o600)
    path.write_text(URL + "\n")
    return path


def test_a_secret_comes_from_the_environment_or_from_a_file(file):
    assert read_secret("LOCKSTEP_BROKER_URL", {}) is None
    assert read_secret("LOCKSTEP_BROKER_URL", {"LOCKSTEP_BROKER_URL": ""}) is None
    assert read_secret("LOCKSTEP_BROKER_URL", {"LOCKSTEP_BROKER_URL": URL}) == URL
    assert from_file(file) == URL


def test_both_at_once_are_refused(file):
    with pytest.raises(ConfigError, match="LOCKSTEP_BROKER_URL and LOCKSTEP_BROKER_URL_FILE are both set"):
        read_secret("LOCKSTEP_BROKER_URL", {"LOCKSTEP_BROKER_URL": URL, "LOCKSTEP_BROKER_URL_FILE": str(file)})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666, 0o777])
def test_a_file_that_others_may_touch_is_refused(file, mode):
    file.chmod(mode)
    with pytest.raises(
        ConfigError, match=rf"can be read by others \(mode {mode:04o}\)(.|\n)*next: chmod 600"
    ) as caught:
        from_file(file)
    assert "pa55w0rd" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(file, monkeypatch):
    os.chown(file, 4711, 4711)
    with pytest.raises(ConfigError, match="belongs to another user"):
        from_file(file)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
        (lambda path: path.write_text(""), "does not hold one line"),
        (lambda path: path.write_text("a\nb\n"), "does not hold one line"),
        (lambda path: path.write_text("x" * 5000), "does not hold one line"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_it_is_told(file, make, words):
    make(file)
    with pytest.raises(ConfigError, match=words):
        from_file(file)


@given(
    password=st.text("abcXYZ019-_.~!%40$&*+,;=", min_size=4, max_size=30),
    before=st.sampled_from(["", "cannot reach ", "Traceback:\n  "]),
    scheme=st.sampled_from(["redis", "rediss", "postgresql+pg8000", "sftp", "unix"]),
    user=st.sampled_from(["", "lockstep"]),
)
def test_no_url_shows_its_password(password, before, scheme, user):
    text = redact(f"{before}{scheme}://{user}:{password}@host.example:1/x and on")
    assert text == f"{before}{scheme}://{user}:***@host.example:1/x and on"


def test_a_password_that_was_read_is_hidden_wherever_it_turns_up():
    remember("redis://:p%40ss%3Aword-4711@h/0")
    for form in ("p%40ss%3Aword-4711", "p@ss:word-4711"):
        assert redact(f"AUTH {form} failed") == "AUTH *** failed"
    assert redact("redis://h/0?password=p4ss&x=1") == "redis://h/0?password=***&x=1"


def test_text_without_secrets_stays_as_it_is():
    text = "see https://host.example/a:b@c, C:\\x, user@host, 12:30"
    assert redact(text) == text


def test_a_log_line_and_its_traceback_hide_passwords(capsys):
    remember(URL)
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("lockstep.test")
    logger.addHandler(handler)
    try:
        int(URL)
    except ValueError:
        logger.exception("with %s", URL)
    finally:
        logger.removeHandler(handler)
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert "pa55w0rd" not in told


def test_what_the_store_keeps_of_an_error_hides_passwords():
    remember(URL)
    kept = JobError.of(TransferError(f"at {URL}", hint=f"try {URL}", stderr=f"AUTH {URL}", nested={"a": [URL]}))
    assert "pa55w0rd" not in str(kept.to_json())
    assert "pa55w0rd" not in str(JobError.internal(ValueError(URL)).to_json())
