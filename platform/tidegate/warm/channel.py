"""A connection between a command and a worker: JSON documents, one in a line, both ways."""

from __future__ import annotations

import json
import math
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

#: Both have to be of the same version of what they say to each other.
PROTOCOL = 1
#: The exit code of a command whose user has pressed Ctrl-C.
INTERRUPTED = 130
#: A document that is longer is no document.
_LONGEST = 64 << 20
_CHUNK = 1 << 16
_NOBODY = -1
#: Seconds between two looks whether it is still worth waiting for somebody who does not read.
_LOOKS_EVERY = 0.5


class Broken(Exception):
    """The other one is gone, or says what nobody understands."""


class Silent(Exception):
    """Nothing was said in the given time."""


class Channel:
    """A connected socket. `send` may be called by any thread; `receive` by one."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        #: What was received of the next document, and what came after a line break and was not looked at.
        self._parts: list[bytes] = []
        self._after = b""
        self._sending = threading.Lock()
        #: Half of a line has been sent: whatever followed would be taken for the other half.
        self._halved = False

    def send(
        self,
        document: dict[str, Any],
        seconds: float = math.inf,
        waits: Callable[[], object] = lambda: None,
    ) -> None:
        """Raises Broken if the other one is gone, or has not read everything within so many seconds: without a limit,
        it may read when it likes to. `waits` is called again and again until then; what it raises ends the channel."""
        line = _line(document)
        with self._sending:
            self._send(line, time.monotonic() + seconds, waits)

    def beat(self) -> None:
        """Give a sign of life, if the other one has read what was sent: what it has not read is one. Raises Broken."""
        if self._sending.acquire(blocking=False):
            try:
                self._send(_line({"beat": True}), None, lambda: None)
            finally:
                self._sending.release()

    def _send(self, line: bytes, end: float | None, waits: Callable[[], object]) -> None:
        """`end`: when to give up; None: send nothing if it can't be sent now."""
        if self._halved:
            raise Broken("the connection is broken")
        sent = 0
        try:
            while sent < len(line):
                try:
                    sent += self._socket.send(memoryview(line)[sent:])
                except BlockingIOError:
                    if end is None and not sent:
                        return
                    self._wait_for_the_reader(end or 0.0, waits)
        except (OSError, ValueError) as error:
            raise Broken(str(error)) from None
        finally:
            self._halved = 0 < sent < len(line)

    def _wait_for_the_reader(self, end: float, waits: Callable[[], object]) -> None:
        left = end - time.monotonic()
        if left <= 0:
            raise Broken("it does not read")
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        poll.poll(min(left, _LOOKS_EVERY) * 1000)
        waits()

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next document. Raises Silent if none comes in so many seconds, Broken if none will come."""
        end = time.monotonic() + seconds
        line = self._line(end)
        try:
            document = json.loads(line.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            raise Broken("the line is not JSON") from None
        if not isinstance(document, dict):
            raise Broken("the line is no document")
        return document

    def _line(self, end: float) -> bytes:
        """Up to the next line break: each part is looked at once, however long the line is."""
        length, part = sum(map(len, self._parts)), self._after
        self._after = b""
        while b"\n" not in part:
            self._parts.append(part)
            length += len(part)
            if length > _LONGEST:
                raise Broken("the line is too long")
            part = self._read(end)
        last, _, self._after = part.partition(b"\n")
        line = b"".join((*self._parts, last))
        self._parts.clear()
        return line

    def close(self) -> None:
        self._socket.close()

    def _read(self, end: float) -> bytes:
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


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass") + b"\n"


def peer_user(connected: socket.socket) -> int | None:
    """The user of the process at the other end; None on systems that do not tell, nobody if this one can't."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    size = struct.calcsize("3i")
    try:
        _, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    except OSError:
        return _NOBODY
    return int(user)
