"""Secrets: where they come from, and that they are never shown.

A URL with a password comes from an environment variable, or from the file that ``VARIABLE_FILE`` names, which only
its owner may read. ``redact`` takes every password that was read, and every password in a URL, out of a text; logs,
error messages and what the store keeps go through it.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from engine.contract.errors import ConfigError

MAX_BYTES = 4096
SHORTEST = 4
"""Shorter passwords are hidden in URLs only: their letters occur in every text."""
HIDDEN = "***"
#: ``scheme://user:password@``; the password ends at the last @ before the path.
_IN_QUERY = re.compile(r"(?P<before>[?&](?:password|passwd|pwd)=)[^\s&'\"]+", re.IGNORECASE)
_IN_URL = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s/:@'\"]*:)(?P<password>[^\s/'\"]+)(?=@)", re.IGNORECASE)
_known: set[str] = set()


def read_secret(variable: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The value of ``variable``, or the contents of the file that ``variable_FILE`` names; None without either.

    ``ConfigError`` when both are set, or when others may read the file.
    """
    environment = os.environ if environment is None else environment
    direct, path = environment.get(variable), environment.get(f"{variable}_FILE")
    if direct and path:
        raise ConfigError(f"{variable} and {variable}_FILE are both set", hint="unset one of them")
    return remember(_from_file(f"{variable}_FILE", Path(path)) if path else direct) or None


def _from_file(variable: str, path: Path) -> str:
    try:
        with path.open("rb") as stream:
            _check_permissions(variable, path, os.fstat(stream.fileno()))
            data = stream.read(MAX_BYTES + 1)
        text = data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{variable}: {path}: {reason}", hint="name a file with one line, the URL") from error
    if not text or len(data) > MAX_BYTES or len(text.splitlines()) != 1:
        raise ConfigError(f"{variable}: {path} does not hold one line", hint="write the URL into it, nothing else")
    return text


def _check_permissions(variable: str, path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise ConfigError(f"{variable}: {path} is no regular file", hint="name a file with one line, the URL")
    if facts.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{variable}: {path} belongs to another user", hint=f"chown it: chown $(id -u) {path}")
    if facts.st_mode & 0o077:
        raise ConfigError(
            f"{variable}: {path} can be read by others (mode {stat.S_IMODE(facts.st_mode):04o})",
            hint=f"chmod 600 {path}",
        )


def remember(url: str | None) -> str | None:
    """Have the password of a URL (as written and decoded) redacted from now on; returns the URL."""
    try:
        password = urlsplit(url or "").password
    except ValueError:
        password = None
    if password and len(password) >= SHORTEST:
        _known.update({password, unquote(password), quote(unquote(password), safe="")})
    return url


def redact(text: str) -> str:
    """``text`` without passwords."""
    for password in sorted(_known, key=len, reverse=True):
        text = text.replace(password, HIDDEN)
    return _IN_QUERY.sub(rf"\g<before>{HIDDEN}", _IN_URL.sub(rf"\g<before>{HIDDEN}", text))


class RedactingFormatter(logging.Formatter):
    """A log line, traceback included, without passwords."""

    def format(self, record: logging.LogRecord) -> str:
        """The line as it is written."""
        return redact(super().format(record))
