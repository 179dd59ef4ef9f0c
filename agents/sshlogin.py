"""Logging in to an ssh device: its host key verified, every refusal told with the next step."""

from __future__ import annotations

import logging
import shlex
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from engine.contract.errors import DeviceUnauthorized, DeviceUnavailable, HostKeyChanged

CONNECT_SECONDS = 15.0

# All that paramiko logs comes back as an exception, which is translated below; its log would say it twice.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Address:
    """Where a device listens and who we are there.

    ``key`` is a private key file; without it ssh-agent is asked. ``jump`` is a host that forwards us to the device;
    its key is verified like any other.
    """

    host: str
    port: int
    user: str
    known_hosts: Path
    key: Path | None = None
    jump: Address | None = None

    @property
    def entry(self) -> str:
        """Its name in known_hosts: two ports of one address are two hosts."""
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"


class _UnknownHostKey(paramiko.SSHException):
    """known_hosts has no key of this host."""

    def __init__(self, offered: paramiko.PKey) -> None:
        super().__init__("unknown host key")
        self.offered = offered


class _Refuse(paramiko.MissingHostKeyPolicy):
    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        raise _UnknownHostKey(key)


def log_in(device: str, address: Address, through: paramiko.SSHClient | None = None) -> paramiko.SSHClient:
    """A connection to ``device``, logged in. Raises DeviceUnavailable with the reason and what to do about it.

    ``through`` is a connection to the jump host.
    """
    _check_files(device, address)
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(_Refuse())
    try:
        client.load_host_keys(str(address.known_hosts))
        _connect(client, address, _channel(through, address) if through is not None else None)
    except (OSError, EOFError, ValueError, paramiko.SSHException) as error:
        client.close()
        words, hint = _refusal(error, address)
        raise _kind(error)(f"{device}: {words}", hint=hint, device=device) from error
    except BaseException:
        client.close()
        raise
    return client


def _check_files(device: str, address: Address) -> None:
    words = ""
    if not address.known_hosts.is_file():
        words, hint = f"host key cannot be verified: there is no file {address.known_hosts}", _how_to_trust(address)
    elif address.key is not None:
        try:
            if stat.S_IMODE(address.key.stat().st_mode) & 0o077:
                words, hint = f"key file {address.key} can be read by others", f"chmod 600 {address.key}"
        except OSError as error:
            words = f"cannot read key file {address.key}: {error.strerror}"
            hint = "correct `key` in the devices file, or leave it out to use ssh-agent"
    if words:
        raise DeviceUnavailable(f"{device}: {words}", hint=hint, device=device)


def _channel(through: paramiko.SSHClient, address: Address) -> paramiko.Channel:
    transport = through.get_transport()
    if transport is None:
        raise EOFError("the jump host hung up")
    there, here = (address.host, address.port), ("127.0.0.1", 0)
    return transport.open_channel("direct-tcpip", there, here, timeout=CONNECT_SECONDS)


def _connect(client: paramiko.SSHClient, address: Address, channel: paramiko.Channel | None) -> None:
    client.connect(
        address.host,
        port=address.port,
        sock=channel,
        username=address.user,
        key_filename=str(address.key) if address.key else None,
        allow_agent=address.key is None,
        look_for_keys=False,
        timeout=CONNECT_SECONDS,
        banner_timeout=CONNECT_SECONDS,
        auth_timeout=CONNECT_SECONDS,
    )
    transport = client.get_transport()
    if transport is not None:
        transport.set_keepalive(15)
        if isinstance(transport.sock, socket.socket):
            # Small requests and answers take turns: waiting to fill a packet would cost 40 ms each.
            transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _how_to_trust(address: Address) -> str:
    return (
        "compare its fingerprint with the one the device itself shows (ssh-keygen -lf on its host key), then "
        f"ssh-keyscan -p {address.port} {address.host} >> {address.known_hosts}"
    )


def _kind(error: Exception) -> type[DeviceUnavailable]:
    """What the farm must know: a changed key and a refused login wait for a person, an absent device for itself."""
    if isinstance(error, paramiko.BadHostKeyException):
        return HostKeyChanged
    if isinstance(error, (_UnknownHostKey, paramiko.AuthenticationException)):
        return DeviceUnauthorized
    return DeviceUnavailable


def _refusal(error: Exception, address: Address) -> tuple[str, str]:
    """What went wrong, and the next step."""
    where = f"{address.host} port {address.port}"
    match error:
        case _UnknownHostKey():
            words = f"host key unknown: {where} offers {error.offered.fingerprint}, not in known_hosts"
            return words, _how_to_trust(address)
        case paramiko.BadHostKeyException():
            offered, expected = error.key.fingerprint, error.expected_key.fingerprint
            forget = f"ssh-keygen -f {address.known_hosts} -R {shlex.quote(address.entry)}"
            return (
                f"host key changed: {where} offers {offered}, known_hosts has {expected}",
                "someone may stand in for the device; when it was set up anew, check the new fingerprint on it, then "
                f"{forget} and add the new key",
            )
        case paramiko.PasswordRequiredException():
            return "its key file needs a passphrase", "ssh-add the key, and leave `key` out of the link"
        case paramiko.AuthenticationException():
            hint = "add the public key to authorized_keys there, or correct user and key"
            return f"{address.user}@{address.host} was refused", hint
        case socket.gaierror():
            return f"unknown host name {address.host}", "correct `host` in the devices file"
    hint = "is it switched on, on the network, and its sshd running on that port?"
    return f"no ssh at {where}: {_reason(error)}", hint


def _reason(error: BaseException) -> str:
    """Words for a failed connection; paramiko's sum of several attempts carries none of its own."""
    if isinstance(error, NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, paramiko.ChannelException):
        return f"the jump host cannot reach it ({error.text})"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
