"""Between tidegate and the REST catalogs of tests: tokens that end, and the failures that a test asks for.

Iceberg's adapter gives tokens to everybody, and none of them ever ends; a network between two programs loses answers,
and what stands in front of a server answers in its place. All of it is commanded by the test, and nothing by chance.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

HOST = "127.0.0.1"
CLIENT = "tidegate-tests"
_COMMIT = re.compile(r"^/v1/(?:namespaces/[^/]+/tables/[^/]+|transactions/commit)$")
_TOKENS = "/v1/oauth/tokens"
_KEPT = ("content-type", "etag")


@dataclass(frozen=True)
class Fault:
    """What becomes of one request. `applied`: whether the server is asked before. `status`: what the client is
    answered; None: the connection is closed instead. `headers`: of that answer. `delay_s`: before it."""

    status: int | None
    applied: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0


def slow(seconds: float) -> Fault:
    """The server does what it is asked, and its own answer comes late."""
    return Fault(200, applied=True, delay_s=seconds)


class RestProxy:
    """Serves `/<name>/…` by the catalog of that name. `lifetime_s`: what a token's life is said to be; it is honoured
    `leeway_s` longer, since a busy machine may come late to renew it. `secret`: what a client has to know."""

    def __init__(self, lifetime_s: int = 3600, leeway_s: float = 30.0) -> None:
        self.lifetime_s, self.leeway_s, self.secret = lifetime_s, leeway_s, secrets.token_urlsafe(24)
        self.requests: list[tuple[str, str, int | None]] = []
        #: Each with its catalog, and when it ends.
        self._tokens: dict[str, tuple[str, float]] = {}
        self._ports: dict[str, int] = {}
        self._faults: list[tuple[bool, Fault]] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, port: int) -> dict[str, Any]:
        """The `catalog:` of a project whose catalog listens on `port`, without its credential."""
        self._ports[name] = port
        uri = f"http://{HOST}:{self.port}/{name}"
        return {"type": "rest", "uri": uri, "properties": {"oauth2-server-uri": uri + _TOKENS}}

    @property
    def credential(self) -> str:
        return f"{CLIENT}:{self.secret}"

    def next_commit(self, *faults: Fault) -> None:
        """The next commits of tables meet these, one each."""
        with self._lock:
            self._faults += [(True, fault) for fault in faults]

    def next_request(self, *faults: Fault) -> None:
        """The next requests of any kind meet these, except those for tokens."""
        with self._lock:
            self._faults += [(False, fault) for fault in faults]

    @property
    def waiting(self) -> int:
        """How many faults nobody has met yet."""
        return len(self._faults)

    def tokens(self, name: str) -> list[str]:
        """Those that were given for a catalog, in their order."""
        return [token for token, (catalog, _) in self._tokens.items() if catalog == name]

    def revoke(self, tokens: list[str]) -> None:
        """These are good for nothing from now on."""
        with self._lock:
            self._tokens |= {token: (self._tokens[token][0], 0.0) for token in tokens}

    def port_of(self, name: str) -> int | None:
        return self._ports.get(name)

    def fault_for(self, method: str, path: str) -> Fault | None:
        commit = method == "POST" and _COMMIT.match(path) is not None
        with self._lock:
            for place, (only_commits, fault) in enumerate(self._faults):
                if commit or not only_commits:
                    del self._faults[place]
                    return fault
        return None

    def is_known(self, name: str, authorization: str | None) -> bool:
        """Whether a request to a catalog has a token that is good now."""
        kind, _, token = (authorization or "").partition(" ")
        catalog, end = self._tokens.get(token, ("", 0.0))
        return kind.lower() == "bearer" and catalog == name and end > time.monotonic()

    def token(self, name: str, form: dict[str, str]) -> dict[str, Any] | None:
        """What is answered to a request for a token: by the client's secret, or in exchange for one that is good. None
        is a refusal."""
        exchanged = form.get("grant_type", "").endswith(":token-exchange")
        known = exchanged and self.is_known(name, f"Bearer {form.get('subject_token')}")
        if not known and (form.get("client_id"), form.get("client_secret")) != (CLIENT, self.secret):
            return None
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._tokens[token] = (name, time.monotonic() + self.lifetime_s + self.leeway_s)
        kind = "urn:ietf:params:oauth:token-type:access_token"
        return {
            "access_token": token,
            "token_type": "bearer",
            "issued_token_type": kind,
            "expires_in": self.lifetime_s,
        }


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, and one to each server that it asks."""

    owner: RestProxy
    protocol_version = "HTTP/1.1"
    #: Else an answer waits for the client's word that it has its head.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        name, path, body = self._read()
        status: int | None = None
        if path.partition("?")[0] == _TOKENS:
            status = self._give_token(name, body)
        elif not self.owner.is_known(name, self.headers.get("Authorization")):
            status = self._refuse(401, "the token is not known, or has expired")
        elif (port := self.owner.port_of(name)) is None:
            status = self._refuse(404, "no such catalog")
        else:
            status = self._pass_on(port, path, body)
        self.owner.requests.append((self.command, path, status))

    do_POST = do_HEAD = do_DELETE = do_GET

    def _read(self) -> tuple[str, str, bytes]:
        name, _, path = self.path.removeprefix("/").partition("/")
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return name, f"/{path}", self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return name, f"/{path}", body

    def _give_token(self, name: str, body: bytes) -> int:
        form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        answer = self.owner.token(name, form)
        if answer is None:
            return self._answer(401, {}, json.dumps({"error": "invalid_client"}).encode())
        return self._answer(200, {}, json.dumps(answer).encode())

    def _pass_on(self, port: int, path: str, body: bytes) -> int | None:
        fault = self.owner.fault_for(self.command, path.partition("?")[0])
        if fault is None or fault.applied:
            status, headers, content = self._ask(port, path, body)
        if fault is None:
            return self._answer(status, headers, content)
        time.sleep(fault.delay_s)
        if fault.status is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        if fault.status == 200:
            return self._answer(status, headers, content)
        return self._refuse(fault.status, "a test has asked for this", fault.headers)

    def _ask(self, port: int, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(HOST, port, timeout=120)
        try:
            sent = {k: v for k, v in self.headers.items() if k.lower() in ("content-type", "accept")}
            connection.request(self.command, path, body or None, sent)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        return answer.status, {k: v for k, v in answer.getheaders() if k.lower() in _KEPT}, content

    def _refuse(self, status: int, message: str, headers: dict[str, str] | None = None) -> int:
        error = {"error": {"message": message, "type": "Refused", "code": status}}
        return self._answer(status, headers or {}, json.dumps(error).encode())

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> int:
        self.send_response(status)
        for key, value in ({"Content-Type": "application/json"} | headers).items():
            self.send_header(key, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(content)
        self.wfile.flush()
        return status

    def log_message(self, *_: Any) -> None:
        """Nothing: a test reads `requests`."""
