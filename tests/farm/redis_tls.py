"""A real Redis with a password and TLS, and certificates made for it: on a free port, gone with the test."""

from __future__ import annotations

import datetime
import ipaddress
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engine.toolchain import environment_of, group_tree


@dataclass
class Authority:
    """A certificate authority in a folder: ``ca.pem``, and what it signed."""

    folder: Path
    name: str = "lockstep tests"
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        certificate = self._sign(self.name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    @property
    def file(self) -> Path:
        """The authority's own certificate."""
        return self.folder / "ca.pem"

    def issue(self, host: str) -> tuple[Path, Path]:
        """Certificate and key of a server at the address or name ``host``."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        certificate = self._sign(host, key, x509.SubjectAlternativeName([name]))
        paths = self.folder / f"{host}.pem", self.folder / f"{host}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].touch(mode=0o600)
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return paths

    def _sign(self, subject: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]),
            subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(hours=1),
            not_valid_after=now + datetime.timedelta(days=1),
        )
        return builder.add_extension(extension, critical=True).sign(self._key, hashes.SHA256())


@dataclass
class RedisTls:
    """One server; ``url`` holds the password and the authority's file."""

    folder: Path
    host: str
    authority: Authority
    port: int
    password: str = field(default_factory=lambda: secrets.token_hex(12), repr=False)
    _server: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """As LOCKSTEP_BROKER_URL."""
        return f"rediss://:{self.password}@{self.host}:{self.port}/0?ssl_ca_certs={self.authority.file}"

    def start(self) -> None:
        """Serve; returns once it answers over TLS."""
        certificate, key = self.authority.issue(self.host)
        lines = [f"bind {self.host}", "port 0", f"tls-port {self.port}", f"requirepass {self.password}"]
        lines += [f"tls-cert-file {certificate}", f"tls-key-file {key}", f"tls-ca-cert-file {self.authority.file}"]
        lines += ["tls-auth-clients no", f"dir {self.folder}", "appendonly yes", 'save ""', ""]
        configuration = self.folder / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text("\n".join(lines))
        tree = group_tree("redis")
        command = ["setpriv", "--pdeathsig", "KILL", str(tree / "usr/bin/redis-server"), str(configuration)]
        with (self.folder / "redis.log").open("ab") as log:
            self._server = subprocess.Popen(command, env=environment_of(tree), stdout=log, stderr=log)
        end = time.monotonic() + 30
        while not self.answers():
            assert self._server.poll() is None, (self.folder / "redis.log").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)

    def answers(self) -> bool:
        """True once a client that checks the certificate is let in."""
        with redis.Redis.from_url(self.url) as client:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

    def stop(self) -> None:
        """End it at once."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None


@contextmanager
def running_redis(folder: Path, host: str = "127.0.0.1") -> Iterator[RedisTls]:
    """A server on a free port of ``host``."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    server = RedisTls(folder, host, Authority(folder / "tls"), port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
