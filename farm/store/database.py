"""The relational store: one engine, short transactions, migrated when opened. Sole importer of alembic.

SQLite by default (``state_root()/lockstep.db``); ``LOCKSTEP_STORE_URL`` names a PostgreSQL database, or any other that
SQLAlchemy speaks to once its driver is installed. ``docs/decisions/store-and-leases.md`` says why.
"""

from __future__ import annotations

import fcntl
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session

from engine.contract.errors import ConfigError, StoreError
from engine.places import state_root
from farm.secrets import read_secret, redact, remember
from farm.stopping import undisturbed
from farm.store.urls import URL_VARIABLE, connection, parse, shown

BUSY_SECONDS = 30
CACHE_KIB = 16 * 1024
"""Of an SQLite file, kept by each connection. With the usual 2 MiB a job cost more the larger the table was: the growth
exponent of `bench/farm_scale.py` was 1.051, and is 1.008 with this."""
MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0004"  # the newest revision in migrations/versions; a test compares


inserts: dict[str, Callable[[Table], Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
"""By dialect the INSERT that knows what to do where the key is taken."""


def default_url() -> str:
    """``LOCKSTEP_STORE_URL``, else SQLite under the state folder."""
    return read_secret(URL_VARIABLE) or f"sqlite:///{state_root() / 'lockstep.db'}"


class Store:
    """The job store. ``open`` (or ``with``) connects and migrates; each transaction is one short ``with`` block.

    Connections are kept between transactions: the last one to close an SQLite file pays for a checkpoint. They must
    not cross a fork.
    """

    def __init__(self, url: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self.url = remember(url) or default_url()
        self.clock = clock
        self._engine: Engine | None = None
        self._binds: dict[bool, Engine] = {}

    def open(self) -> Store:
        """Connect, bring the tables to the newest form, return self. ``ConfigError``, ``StoreError``."""
        url = parse(self.url)
        lock = _prepare_sqlite(url)
        try:
            plain, arguments = connection(url)
            engine = create_engine(plain, pool_pre_ping=lock is None, connect_args=arguments)
            if url.get_backend_name() == "sqlite":
                event.listen(engine, "connect", _tune_sqlite)
                event.listen(engine, "begin", _begin_sqlite)
            with _disposed_on_error(engine):
                _migrate(engine, lock)
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise ConfigError(
                f"{shown(url)}: no driver for this database: {error}", hint="install its driver into .venv"
            ) from error
        except (SQLAlchemyError, ssl.SSLError) as error:
            raise _unusable(url, error) from error
        self._engine = engine
        self._binds = {write: engine.execution_options(lockstep_write=write) for write in (True, False)}
        return self

    def close(self) -> None:
        """Give the connections back."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def __enter__(self) -> Store:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def compact(self) -> None:
        """Give the room of deleted rows back to the disk; other databases than SQLite do that by themselves."""
        if self._engine is not None and self._engine.dialect.name == "sqlite":
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("VACUUM")
            finally:
                connection.close()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction that may write: all of it or nothing. ``StoreError`` when the database refuses."""
        with self._session(write=True) as session:
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One transaction that only reads; never waits for a writer on SQLite."""
        with self._session(write=False) as session:
            yield session

    @contextmanager
    def _session(self, *, write: bool) -> Iterator[Session]:
        if self._engine is None:
            raise StoreError("the store is not open", hint="use it inside `with Store() as store`")
        try:
            with undisturbed, Session(self._binds[write], expire_on_commit=False) as session, session.begin():
                yield session
        except (SQLAlchemyError, ssl.SSLError) as error:
            raise _unusable(self._engine.url, error) from error


def take_turns(session: Session) -> None:
    """Until the transaction ends nobody else gets past this line; SQLite lets only one write anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(5702)"))


def _unusable(url: URL, error: Exception) -> StoreError:
    return StoreError(
        f"store {shown(url)}: {redact(_reason(error))}", hint="check its disk, its permissions and LOCKSTEP_STORE_URL"
    )


def _reason(error: Exception) -> str:
    """One line; PostgreSQL's driver gives the server's answer as fields, ``M`` is the message."""
    original = getattr(error, "orig", None) or error
    fields = original.args[0] if original.args else None
    if isinstance(fields, dict) and "M" in fields:
        return str(fields["M"])
    return (str(original).splitlines() or [type(original).__name__])[0]


def _prepare_sqlite(url: URL) -> Path | None:
    """The lock file beside an SQLite file, its folder made; None for other databases."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    path = Path(url.database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(f"{path.parent}: {error.strerror}", hint="set LOCKSTEP_STATE to a writable folder") from error
    return path.with_name(path.name + ".lock")


def _tune_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # we begin transactions ourselves, see _begin_sqlite
    waits, keeps = f"busy_timeout={BUSY_SECONDS * 1000}", f"cache_size=-{CACHE_KIB}"
    for pragma in (waits, keeps, "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes the write lock at once: upgrading a read transaction later fails without waiting."""
    write = connection.get_execution_options().get("lockstep_write", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _revision(engine: Engine) -> str | None:
    with engine.execution_options(lockstep_write=False).connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine, lock: Path | None) -> None:
    """Upgrade to HEAD, one opener at a time; alembic is only imported when there is something to do."""
    if _revision(engine) == HEAD:
        return
    with _alone(engine, lock):
        if _revision(engine) != HEAD:
            if lock is not None:
                _keep_log(engine)
            _upgrade(engine)


def _keep_log(engine: Engine) -> None:
    """Let readers and a writer work at once; the file remembers it. Two that ask for it at once fail, both waiting."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("PRAGMA journal_mode=WAL").close()
    finally:
        connection.close()


def _upgrade(engine: Engine) -> None:
    from alembic import command  # noqa: PLC0415 - half a second that most openers need not spend
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(
            f"store {shown(engine.url)} was written by a newer Lockstep: {error}",
            hint="update this checkout, or set LOCKSTEP_STATE to a folder of its own",
        ) from error


@contextmanager
def _disposed_on_error(engine: Engine) -> Iterator[None]:
    """A store that could not be opened leaves no connection, and with it no lock, behind."""
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


@contextmanager
def _alone(engine: Engine, lock: Path | None) -> Iterator[None]:
    if lock is not None:
        with lock.open("a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield
    elif engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(5701)"))
            yield  # ends with the connection
            connection.execute(text("SELECT pg_advisory_unlock(5701)"))
    else:
        yield
