"""A real PostgreSQL server for tests: unpacked into the cache, run in a folder of its own, gone with the tests."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pg8000.native

from engine.toolchain import environment_of, group_tree
from farm.store import Store

#: PostgreSQL refuses to run as root; any other user will do.
NOBODY = 65534
NEEDED = ("usr/lib/postgresql/15", "usr/share/postgresql/15", "usr/lib/x86_64-linux-gnu")
PROGRAMS = "usr/lib/postgresql/15/bin"
TEMPLATE = "migrated"
SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "jit=off", "max_connections=60")


@dataclass
class Postgres:
    """One server. ``url(name)`` makes a fresh database with all tables, or an empty one."""

    folder: Path
    host: str
    port: int
    password: str = field(default_factory=lambda: secrets.token_hex(12), repr=False)
    _tree: Path = field(init=False)
    _server: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._tree = group_tree("postgres")
        if os.geteuid() == 0:  # that other user cannot look into root's cache
            for part in NEEDED:
                target = self.folder / "tree" / part
                ignored = shutil.ignore_patterns("bitcode")  # of compiled queries
                shutil.copytree(self._tree / part, target, symlinks=True, ignore=ignored)
            self._tree = self.folder / "tree"

    def start(self, *settings: str) -> None:
        """Make the cluster unless it is there, then serve. Extra ``settings`` as NAME=VALUE."""
        data = self.folder / "data"
        if not data.exists():
            (self.folder / "password").write_text(self.password)
            self._own(self.folder)
            made = self._command("initdb", "-D", data, "-U", "lockstep", "-A", "scram-sha-256", "--no-sync")
            made += ["-E", "UTF8", "--locale", "C", "--pwfile", str(self.folder / "password")]
            done = subprocess.run(made, env=self._environment(), capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            with (data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 0.0.0.0/0 scram-sha-256\n")
        command = self._command("postgres", "-D", data, "-p", self.port, "-h", self.host, "-k", self.folder)
        for setting in (*SETTINGS, *settings):
            command += ["-c", setting]
        with (self.folder / "postgres.log").open("ab") as log:
            self._server = subprocess.Popen(command, env=self._environment(), stdout=log, stderr=log)
        self._wait()

    def stop(self) -> None:
        """End the server at once."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(timeout=30)
            self._server = None

    @contextmanager
    def with_tls(self, certificate: Path, key: Path) -> Iterator[None]:
        """The server speaks TLS for a while, with this certificate and key."""
        data = self.folder / "data"
        for name, source in (("server.crt", certificate), ("server.key", key)):
            shutil.copy(source, data / name)
            (data / name).chmod(0o600)
        self._own(data)
        self.sql("ALTER SYSTEM SET ssl = on")
        self._reload("on")
        try:
            yield
        finally:
            self.sql("ALTER SYSTEM RESET ssl")
            self._reload("off")

    def _reload(self, wanted: str) -> None:
        self.sql("SELECT pg_reload_conf()")
        end = time.monotonic() + 30
        while self.sql("SHOW ssl") != [[wanted]]:
            assert time.monotonic() < end
            time.sleep(0.05)

    def url(self, name: str = "", *, migrated: bool = True) -> str:
        """The URL of a fresh database."""
        name = name or f"t{secrets.token_hex(6)}"
        if migrated and not self.sql("SELECT 1 FROM pg_database WHERE datname = :name", name=TEMPLATE):
            self.sql(f"CREATE DATABASE {TEMPLATE}")
            Store(self._url(TEMPLATE)).open().close()
        self.sql(f"CREATE DATABASE {name}" + (f" TEMPLATE {TEMPLATE}" if migrated else ""))
        return self._url(name)

    def drop(self, url: str) -> None:
        """Remove a database again, also under the feet of who still uses it."""
        self.sql(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def sql(self, text: str, **values: object) -> list[list[object]]:
        """Rows of one statement, asked as the server's owner."""
        connection = pg8000.native.Connection(
            "lockstep", host=self.host, port=self.port, password=self.password, database="postgres", timeout=30
        )
        try:
            return connection.run(text, **values) or []
        finally:
            connection.close()

    def _url(self, name: str) -> str:
        return f"postgresql://lockstep:{self.password}@{self.host}:{self.port}/{name}"

    def _command(self, program: str, *arguments: object) -> list[str]:
        user = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"] if os.geteuid() == 0 else []
        program_path = self._tree / PROGRAMS / program
        return ["setpriv", *user, "--pdeathsig", "QUIT", str(program_path), *map(str, arguments)]

    def _environment(self) -> dict[str, str]:
        return environment_of(self._tree) | {"LC_ALL": "C", "TZ": "UTC"}

    def _own(self, folder: Path) -> None:
        if os.geteuid() == 0:
            for path in (folder, *(entry for entry in folder.iterdir() if entry.name != "tree")):
                os.chown(path, NOBODY, NOBODY)

    def _wait(self) -> None:
        end = time.monotonic() + 30
        while True:
            try:
                with socket.create_connection((self.host, self.port), timeout=5):
                    pass  # the driver leaves a socket open where nobody listens yet
                self.sql("SELECT 1")
            except (OSError, pg8000.exceptions.Error):
                assert self._server is not None
                log = (self.folder / "postgres.log").read_text(errors="replace")
                assert self._server.poll() is None, log
                assert time.monotonic() < end, log
                time.sleep(0.05)
            else:
                return


@contextmanager
def running_postgres(host: str = "127.0.0.1") -> Iterator[Postgres]:
    """A server on a free port of ``host``, in a folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="lspg-"))  # short: it holds a Unix socket
    folder.chmod(0o755)
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    try:
        server = Postgres(folder, host, port)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
