"""A connection to one broker: as much of Kafka's protocol as reading takes. Executor side.

One request at a time, in versions that brokers know since 2.3 and in which nothing depends on a former request.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from tidegate.tasks.kafka.login import log_in
from tidegate.tasks.kafka.records import Bytes
from tidegate.tasks.reading import NeedsJava

FETCH, METADATA, HANDSHAKE, VERSIONS, AUTHENTICATE = 1, 3, 17, 18, 36
#: The versions that are spoken here.
SPOKEN = {FETCH: 11, METADATA: 4, HANDSHAKE: 1, VERSIONS: 0, AUTHENTICATE: 0}

_CLIENT = b"tidegate"
#: As Java's client of the driver waits (`kafka_broker.py`), for a connection and for an answer.
ANSWER_S = 10.0
#: More than this is no answer of a broker's.
_LARGEST = 1 << 30

Item = TypeVar("Item")


class Answer:
    """The bytes of an answer, read from the front. Raises NeedsJava where they end too early."""

    def __init__(self, data: Bytes) -> None:
        self.data, self.at = data, 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        """By the letters of `struct`."""
        try:
            found = struct.unpack_from(">" + form, self.data.data, self.at)
        except struct.error:
            raise NeedsJava("a broker whose answer can't be read") from None
        self.at += struct.calcsize(">" + form)
        return found

    def number(self, form: str) -> int:
        return int(self.numbers(form)[0])

    def text(self) -> str:
        """Empty for one that is NULL, too."""
        return self._bytes(self.number("h")).tobytes().decode("utf-8", "replace")

    def bytes_(self) -> Bytes:
        """Empty for none, too; not copied."""
        return self._bytes(self.number("i"))

    def list_(self, item: Callable[[], Item]) -> list[Item]:
        """Empty for none, too."""
        return [item() for _ in range(self.number("i"))]

    def _bytes(self, size: int) -> Bytes:
        end = self.at + max(size, 0)
        if end > len(self.data):
            raise NeedsJava("a broker whose answer can't be read")
        found, self.at = self.data[self.at : end], end
        return found


def text(value: str) -> bytes:
    """A text of a request."""
    data = value.encode()
    return struct.pack(">h", len(data)) + data


class Connection:
    """Made ready for requests; close it. `settings`: see `store.broker_access.client_settings`.

    Raises OSError if the broker does not answer, NeedsJava if it refuses or is older than 2.3."""

    def __init__(self, host: str, port: int, settings: Mapping[str, Any]) -> None:
        self._number = 0
        self._socket = socket.create_connection((host, port), ANSWER_S)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if (context := settings.get("ssl_context")) is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
            self._require_versions()
            if (mechanism := settings.get("sasl_mechanism")) is not None:
                self._log_in(mechanism, settings["sasl_plain_username"], settings["sasl_plain_password"])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the broker."""
        self._socket.close()

    def ask(self, request: int, body: bytes) -> Answer:
        """The answer to a request. Raises OSError."""
        self._number += 1
        head = struct.pack(">hhi", request, SPOKEN[request], self._number) + text(_CLIENT.decode())
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", self._exactly(4).data)
        if not 4 <= size <= _LARGEST:
            raise NeedsJava("a broker whose answer can't be read")
        answer = Answer(self._exactly(size))
        if answer.number("i") != self._number:
            raise NeedsJava("a broker that answers another question")
        return answer

    def _exactly(self, size: int) -> Bytes:
        found = np.empty(size, np.uint8)
        view, at = found.data, 0
        while at < size:
            taken = self._socket.recv_into(view[at:])
            if not taken:
                raise ConnectionResetError("the broker has closed the connection")
            at += taken
        view.release()
        found.flags.writeable = False
        return found

    def _require_versions(self) -> None:
        answer = self.ask(VERSIONS, b"")
        if answer.number("h"):
            raise NeedsJava("a broker that does not tell its versions")
        known = {key: (least, most) for key, least, most in answer.list_(lambda: answer.numbers("hhh"))}
        for request in (FETCH, METADATA):
            least, most = known.get(request, (0, -1))
            if not least <= SPOKEN[request] <= most:
                raise NeedsJava("a broker older than Kafka 2.3")

    def _log_in(self, mechanism: str, user: str, password: str) -> None:
        answer = self.ask(HANDSHAKE, text(mechanism))
        if answer.number("h"):
            raise NeedsJava("a broker that does not have the mechanism of the login")

        def exchange(message: bytes) -> bytes:
            said = self.ask(AUTHENTICATE, struct.pack(">i", len(message)) + message)
            code, _ = said.number("h"), said.text()
            if code:
                raise NeedsJava("a broker that refuses the login")
            return said.bytes_().tobytes()

        log_in(mechanism, user, password, exchange)
