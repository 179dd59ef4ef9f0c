"""A held connection to our adb server: it ends with the server, and tells each change of the list of devices."""

from __future__ import annotations

import threading
from contextlib import suppress

from adbutils import AdbClient
from adbutils._adb import AdbConnection

from agents.adblist import LOST, parse_devices
from agents.adbserver import ask


class Watch:
    """Notices, between two calls, what no call would: a restarted server, a device gone and back.

    The constructor connects; it may raise what adbutils raises.
    """

    def __init__(self, client: AdbClient, serial: str) -> None:
        self._serial = serial
        self._buffer = bytearray()
        self._fault = ""
        self._lock = threading.Lock()  # streams of several threads look at it
        self._connection: AdbConnection = client.make_connection()
        ask(self._connection, "host:track-devices")
        self._connection.conn.setblocking(False)

    def close(self) -> None:
        """Let go; never raises."""
        with suppress(OSError):
            self._connection.conn.close()

    def fault(self) -> str:
        """What happened to the link since it was made, in words; empty while it was there all the time."""
        with self._lock:
            return self._look()

    def _look(self) -> str:
        while not self._fault:
            try:
                data = self._connection.conn.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self._fault = "the adb server ended"
            self._buffer += data
            self._read()
        return self._fault

    def _read(self) -> None:
        while len(self._buffer) >= 4:
            size = int(self._buffer[:4], 16)
            if len(self._buffer) < 4 + size:
                return
            text = self._buffer[4 : 4 + size].decode(errors="replace")
            del self._buffer[: 4 + size]
            states = {listed.serial: listed.state for listed in parse_devices(text)}
            state = states.get(self._serial, LOST)
            if state != "device" and not self._fault:
                self._fault = f"it was {state} for a moment"
