"""`/healthz`, `/livez`, `/status` and `/metrics` of live mode, in threads of their own."""

from __future__ import annotations

import contextlib
import hmac
import io
import ipaddress
import json
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tidegate.errors import TidegateError
from tidegate.live.kept_answer import KeptAnswer
from tidegate.masking import conceal

#: A client that has not asked, or has not read its answer, after this many seconds gives its thread back.
_PATIENCE = 10.0
_ANSWER_SECONDS = 60.0
_PIECE = 1 << 16
#: Clients that are answered at the same time; whoever comes beyond them takes the place of a silent one, or is turned
#: away at once.
_CONNECTIONS = 32
#: How long a silent client that is cut off may take to give its place back.
_SECONDS_TO_END = 1.0
#: A status is read from the tables at most this often, whoever asks.
_STATUS_SECONDS = 5.0
#: Paths that anybody may ask, since probes have no token. They say how the run is, and nothing of what it holds.
_OPEN = ("/livez", "/healthz")


@dataclass(frozen=True)
class Access:
    """Where live mode serves, and to whom: `token` (clients send `Authorization: Bearer …`), the certificate and
    its key as PEM files for TLS. `port` 0 takes one that is free."""

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    certificate: Path | None = None
    key: Path | None = None

    @property
    def exposed(self) -> bool:
        """Whether other machines can ask without a token."""
        return self.token is None and not _is_loopback(self.host)

    def context(self) -> ssl.SSLContext | None:
        """TLS, where there is a certificate. Raises TG703 for files that can't be used."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or "not a PEM file"
            raise TidegateError(
                "TG703",
                f"the certificate {self.certificate} or its key can't be used: {reason}",
                hint="use --tls-certificate FILE and --tls-key FILE, both in PEM, the key without a password",
            ) from None
        return context


def read_token(path: Path) -> str:
    """The token in a file, without the line break at its end. Raises TG703 if there is none."""
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise TidegateError("TG703", f"the token file {path} can't be read: {reason}") from None
    if not token:
        raise TidegateError(
            "TG703", f"the token file {path} is empty", hint="write a long random text into it"
        )
    if not re.fullmatch(r"[!-~]+( +[!-~]+)*", token):
        raise TidegateError(
            "TG703",
            f"the token in {path} can't be sent by a client: it has more than one line, or letters beyond ASCII",
            hint="write one line of letters and digits into it",
        )
    conceal(token)
    return token


class HttpServer:
    """Serves as soon as it is made, until `close`; `url` says where.

    Raises TG703 if the port is in use or the certificate can't be used.
    """

    def __init__(
        self,
        access: Access,
        health: Callable[[], dict[str, Any]],
        status: Callable[[], dict[str, Any]],
        registry: CollectorRegistry,
    ) -> None:
        context = access.context()
        try:
            self._server = _server_of(access.host)(
                (access.host, access.port),
                _handler(access, health, KeptAnswer(status, _STATUS_SECONDS, time.monotonic), registry),
            )
        except OSError as error:
            raise TidegateError(
                "TG703",
                f"can't serve health and metrics on {access.host}:{access.port}: {error.strerror or error}",
                hint="choose another --port (0 chooses a free one), or use --no-http",
            ) from None
        if context is not None:
            # The handshake is the business of the client's own thread: a slow one holds up nobody else.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        at = self._server.server_address
        host = f"[{access.host}]" if ":" in access.host else access.host
        self.url = f"{'http' if context is None else 'https'}://{host}:{at[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Bounded(ThreadingHTTPServer):
    """A thread for each client, and no more than `_CONNECTIONS` of them. When all are taken, the client that has been
    silent for the longest time gives its place to a new one: silence keeps nobody from asking `/livez`."""

    daemon_threads = True
    request_queue_size = _CONNECTIONS

    def __init__(self, *args: Any) -> None:
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        #: Those whose question is not here yet, the oldest first; by the accepting thread and by their own.
        self._silent: dict[Any, None] = {}
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False) and not self._takes_a_place():
            self.shutdown_request(request)
            return
        self._silent[request] = None
        super().process_request(request, client_address)

    def _takes_a_place(self) -> bool:
        oldest = next(iter(list(self._silent)), None)
        if oldest is None:
            return False
        with contextlib.suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        return self._free.acquire(timeout=_SECONDS_TO_END)

    def heard(self, request: Any) -> None:
        """What a client asks has arrived."""
        self._silent.pop(request, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._silent.pop(request, None)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a client that breaks off, or fails its handshake, is no news."""


class _BoundedV6(_Bounded):
    address_family = socket.AF_INET6


def _server_of(host: str) -> type[_Bounded]:
    """Raises OSError for a host that has no address."""
    family = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    return _BoundedV6 if host and family == socket.AF_INET6 else _Bounded


class _Question(io.RawIOBase):
    """What a client sends. All of it has to be here in time: one byte now and then would hold a thread for ever."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._until = connection, time.monotonic() + _PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(_left(self._until))
        return self._connection.recv_into(buffer)


def _left(until: float) -> float:
    """Seconds until then. Raises TimeoutError."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Talk(BaseHTTPRequestHandler):
    """How a client is listened to and answered, in a bounded time."""

    server_version, sys_version = "tidegate", ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Question(self.connection))

    def parse_request(self) -> bool:
        found = super().parse_request()
        server = self.server
        assert isinstance(server, _Bounded)
        server.heard(self.connection)
        return found

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What was asked stands in no answer."""
        self.request_version = "HTTP/1.0"
        self._send(*_json(code, {"error": HTTPStatus(code).phrase.lower()}))

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if code == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        until = time.monotonic() + _ANSWER_SECONDS
        self.connection.settimeout(_left(until))
        self.end_headers()
        # In pieces: over TLS, the time that is given is that of each.
        for start in range(0, len(body) if self.command != "HEAD" else 0, _PIECE):
            self.connection.settimeout(min(_PATIENCE, _left(until)))
            self.wfile.write(body[start : start + _PIECE])

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape every few seconds is no news."""


def _handler(
    access: Access,
    health: Callable[[], dict[str, Any]],
    status: Callable[[], dict[str, Any]],
    registry: CollectorRegistry,
) -> type[BaseHTTPRequestHandler]:
    def answer(path: str, accept: str, known: bool) -> tuple[int, str, bytes]:
        if not known and path not in _OPEN:
            return _json(401, {"error": "send the token as Authorization: Bearer …"})
        match path:
            case "/healthz":
                found = health()
                code = 503 if found["status"] == "unavailable" else 200
                return _json(code, found if known else {"status": found["status"]})
            case "/livez":
                return _json(200, {"status": "ok"})
            case "/status":
                try:
                    return _json(200, status())
                except TidegateError as error:
                    return _json(503, {"error": error.to_dict()})
            case "/metrics":
                encode, kind = choose_encoder(accept)
                return 200, kind, encode(registry)
            case "/":
                return _json(200, {"paths": ["/healthz", "/livez", "/status", "/metrics"]})
        return _json(404, {"error": "not found"})

    class Handler(_Talk):
        def do_HEAD(self) -> None:
            given = self.headers.get("Authorization", "").encode()
            known = access.token is None or hmac.compare_digest(given, f"Bearer {access.token}".encode())
            try:
                found = answer(self.path.partition("?")[0], self.headers.get("Accept", ""), known)
            except Exception as error:
                logging.getLogger(__name__).exception("%r has no answer", self.path)
                found = _json(500, {"error": f"unexpected {type(error).__name__}"})
            self._send(*found)

        do_GET = do_HEAD

    return Handler


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def _text(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, default=str) + "\n"


def _json(code: int, document: Any) -> tuple[int, str, bytes]:
    return code, "application/json", _text(document).encode(errors="backslashreplace")
