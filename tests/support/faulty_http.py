"""A proxy in front of a real HTTP server that fails where a test says so, and passes everything else on as it is.

A test names requests (method, part of the address) and what happens to the next of them; nothing is left to chance. The
headers stay as they are, `Host` among them, because signatures cover them.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

#: What concerns one connection only, and is made anew for the other one.
_HOP = {"connection", "keep-alive", "transfer-encoding", "proxy-connection", "te", "trailer", "upgrade"}
#: The connection is closed without an answer.
CLOSED = None


@dataclass(frozen=True)
class Asked:
    """A request as it came. `target`: path and query, as they were written."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        """The access key with which an S3 client has signed it; empty without a signature."""
        _, found, rest = self.headers.get("authorization", "").partition("Credential=")
        return rest.partition("/")[0] if found else ""


@dataclass(frozen=True)
class Answer:
    """What the client gets. `whole`: how long the header says that the body is, if not as long as it is."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    whole: int | None = None


Forward = Callable[[Asked], Answer]
Act = Callable[[Asked, Forward], Answer | None]


def answer(status: int, body: bytes = b"", kind: str = "application/xml") -> Act:
    """Answer instead of the server, which does not hear of the request."""
    return lambda asked, forward: Answer(status, (("Content-Type", kind),), body)


def s3_error(status: int, code: str, message: str = "as the test wants it") -> Act:
    """An error of S3's, such as `503, "SlowDown"`."""
    text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>'
    return answer(status, text.encode())


def refuse_key(*keys: str) -> Act:
    """Refuse what is signed with one of these access keys, as temporary credentials that have expired."""
    expired = s3_error(400, "ExpiredToken", "The provided token has expired.")
    return lambda asked, forward: expired(asked, forward) if asked.key in keys else forward(asked)


def truncate(length: int) -> Act:
    """Cut the body of the server's answer after so many bytes, and close the connection."""

    def act(asked: Asked, forward: Forward) -> Answer:
        got = forward(asked)
        return Answer(got.status, got.headers, got.body[:length], len(got.body))

    return act


def delay(seconds: float) -> Act:
    """Let the client wait for the server's answer."""

    def act(asked: Asked, forward: Forward) -> Answer:
        time.sleep(seconds)
        return forward(asked)

    return act


def lose_answer(asked: Asked, forward: Forward) -> None:
    """The server does what it was asked for, and the client does not hear of it."""
    forward(asked)
    return CLOSED


def lose_request(asked: Asked, forward: Forward) -> None:
    """The server does not hear of the request, and the client of no answer."""
    return CLOSED


@dataclass
class Fault:
    """What happens to the next `times` requests (None: to all) that fit, after `skip` of them have passed; `met` counts
    those that it has happened to."""

    method: str
    part: str
    act: Act
    times: int | None = 1
    skip: int = 0
    met: int = 0

    def takes(self, asked: Asked) -> bool:
        """Whether it happens to this request."""
        if self.method not in ("*", asked.method) or self.part not in asked.target:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None and self.met >= self.times:
            return False
        self.met += 1
        return True


@dataclass
class FaultyHttp:
    """The proxy. `seen`: all requests, in their order."""

    upstream: str
    url: str = ""
    seen: list[Asked] = field(default_factory=list)
    _faults: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, method: str, part: str, act: Act, times: int | None = 1, skip: int = 0) -> Fault:
        """`act` on the next `times` requests of a method ("*": any) whose address contains `part`."""
        fault = Fault(method, part, act, times, skip)
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Pass everything on again."""
        with self._lock:
            self._faults.clear()

    def targets(self, method: str) -> list[str]:
        """The addresses of all requests of a method."""
        return [asked.target for asked in self.seen if asked.method == method]

    def react(self, asked: Asked) -> Answer | None:
        """What the client gets; None: its connection is closed."""
        with self._lock:
            self.seen.append(asked)
            fault = next((fault for fault in self._faults if fault.takes(asked)), None)
        return self._forward(asked) if fault is None else fault.act(asked, self._forward)

    def _forward(self, asked: Asked) -> Answer:
        host = urlsplit(self.upstream)
        connection = HTTPConnection(host.hostname or "", host.port or 80, timeout=60)
        try:
            connection.putrequest(asked.method, asked.target, skip_host=True, skip_accept_encoding=True)
            for name, value in asked.headers.items():
                if name not in _HOP | {"expect", "content-length"}:
                    connection.putheader(name, value)
            if asked.body or asked.method in ("PUT", "POST"):
                connection.putheader("Content-Length", str(len(asked.body)))
            connection.endheaders(asked.body)
            got = connection.getresponse()
            body = got.read()
            # A HEAD tells the length of what it does not send.
            length = got.getheader("Content-Length") if asked.method == "HEAD" else None
            headers = tuple((k, v) for k, v in got.getheaders() if k.lower() not in _HOP | {"content-length"})
            return Answer(got.status, headers, body, None if length is None else int(length))
        finally:
            connection.close()


@contextmanager
def faulty_http(upstream: str) -> Iterator[FaultyHttp]:
    """A proxy on loopback in front of the server at `upstream` (`http://host:port`)."""
    proxy = FaultyHttp(upstream)
    with serving(proxy):
        yield proxy


@contextmanager
def serving(proxy: FaultyHttp) -> Iterator[None]:
    """While the block runs, the proxy listens at its `url`."""

    class Handler(_Handler):
        react = proxy.react

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    react: Callable[[Asked], Answer | None]

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line for each request would hide what a failing test says."""

    def _relay(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        got = self.react(Asked(self.command, self.path, headers, self._body(headers)))
        if got is CLOSED:
            self._hang_up()
            return
        self.send_response_only(got.status)
        for name, value in got.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(got.body) if got.whole is None else got.whole))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(got.body)
            if got.whole is not None:
                self._hang_up()

    def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return self.rfile.read(int(headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _relay
