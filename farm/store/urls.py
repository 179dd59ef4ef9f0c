"""Database URLs: which driver speaks to it, and TLS to PostgreSQL in libpq's words."""

from __future__ import annotations

import ssl
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from engine.contract.errors import ConfigError

URL_VARIABLE = "LOCKSTEP_STORE_URL"
SSL_MODES = ("disable", "require", "verify-ca", "verify-full")
ANSWER_SECONDS = 60
"""A server that says nothing for this long is gone; no transaction of ours waits so long for a lock."""


def parse(text: str) -> URL:
    """The URL with the driver that Lockstep comes with; ``ConfigError`` for what is none."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            f"{URL_VARIABLE}: not a database URL", hint="for example postgresql://USER:PASSWORD@HOST/lockstep"
        ) from error
    return url.set(drivername="postgresql+pg8000") if url.drivername in ("postgresql", "postgres") else url


def connection(url: URL) -> tuple[URL, dict[str, Any]]:
    """The URL without ``sslmode`` and ``sslrootcert``, and what they mean to the driver."""
    if url.drivername != "postgresql+pg8000":
        return url, {}
    mode, root = (_single(url, name) for name in ("sslmode", "sslrootcert"))
    plain = url.difference_update_query(["sslmode", "sslrootcert"])
    arguments: dict[str, Any] = {"timeout": ANSWER_SECONDS, "tcp_keepalive": True}
    if mode not in (None, *SSL_MODES):
        raise ConfigError(f"{URL_VARIABLE}: sslmode {mode!r}", hint=f"one of {', '.join(SSL_MODES)}")
    if mode in (None, "disable"):
        return plain, arguments
    try:
        context = ssl.create_default_context(cafile=root)
    except OSError as error:
        raise ConfigError(f"{URL_VARIABLE}: sslrootcert {root}: {error}", hint="name a PEM file") from error
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_NONE if mode == "require" else ssl.CERT_REQUIRED
    return plain, arguments | {"ssl_context": context}


def _single(url: URL, name: str) -> str | None:
    value = url.query.get(name)
    return value if isinstance(value, str) or value is None else value[-1]


def shown(url: URL) -> str:
    """As it may be printed."""
    return url.render_as_string(hide_password=True)
