"""A connection between a command and a worker: JSON documents, one in a line, both ways."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from typing import Any

#: Both have to be of the same version of what they say to each other.
PROTOCOL = 1
#: A document that is longer is no document.
_LONGEST = 64 << 20
_CHUNK = 1 << 16


class Broken(Exception):
    """The other one is gone, or says what nobody understands."""


class Silent(Exception):
    """Nothing was said in the given time."""


class Channel:
    """A connected socket. `send` may be called by any thread; `receive` by one."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._rest = b""
        self._sending = threading.Lock()

    def send(self, document: dict[str, Any], seconds: float = 60.0) -> None:
        """Raises Broken if the other one is gone, or has not read for so many seconds."""
        line = json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass") + b"\n"
        with self._sending:
            try:
                self._socket.settimeout(seconds)
                self._socket.sendall(line)
            except OSError as error:
                raise Broken(str(error)) from None

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next document. Raises Silent if none comes in so many seconds, Broken if none will come."""
        end = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if len(self._rest) > _LONGEST:
                raise Broken("the line is too long")
            self._rest += self._read(end)
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            document = json.loads(line.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            raise Broken("the line is not JSON") from None
        if not isinstance(document, dict):
            raise Broken("the line is no document")
        return document

    def close(self) -> None:
        self._socket.close()

    def _read(self, end: float) -> bytes:
        # Not by the socket's own timeout, which is that of whoever sends.
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
        except ValueError:
            raise Broken("the connection is closed") from None
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise Silent
        try:
            found = self._socket.recv(_CHUNK)
        except OSError as error:
            raise Broken(str(error)) from None
        if not found:
            raise Broken("the connection has ended")
        return found


def peer_user(connected: socket.socket) -> int | None:
    """The user of the process at the other end; None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    size = struct.calcsize("3i")
    try:
        _, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    except OSError:
        return None
    return int(user)
