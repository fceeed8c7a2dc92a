"""A schema registry for tests: Confluent's API over a dictionary, on loopback, with a login."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

LOGIN = "Basic " + base64.b64encode(b"reader:hunter2").decode()


@dataclass
class FakeRegistry:
    """`subjects`: versions in order as (id, answer). `asked`: the paths of all requests, `logins` how they logged in.
    `broken`: answers 500. `raw`: bodies of paths. `elsewhere`: where a path is sent on to."""

    url: str = ""
    subjects: dict[str, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    broken: bool = False
    logins: list[str | None] = field(default_factory=list)
    raw: dict[str, bytes] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)

    def add(self, subject: str, number: int, schema: str, **more: Any) -> None:
        """Register a schema under an id."""
        self.subjects.setdefault(subject, []).append((number, {"schema": schema, **more}))

    def answer(self, path: str) -> Any:
        """What a GET gives; None is 404."""
        if match := re.fullmatch(r"/schemas/ids/(\d+)", path):
            every = dict(entry for versions in self.subjects.values() for entry in versions)
            return every.get(int(match[1]))
        if match := re.fullmatch(r"/subjects/([^/]+)/versions", path):
            versions = self.subjects.get(unquote(match[1]))
            return None if versions is None else list(range(1, len(versions) + 1))
        if match := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+)", path):
            number, found = self.subjects[unquote(match[1])][int(match[2]) - 1]
            return found | {"id": number, "version": int(match[2])}
        return None


@contextmanager
def schema_registry() -> Iterator[FakeRegistry]:
    """A registry that runs while the block does."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            registry.asked.append(url.path)
            registry.logins.append(self.headers.get("Authorization"))
            if url.path in registry.elsewhere:
                self.send_response(302)
                self.send_header("Location", registry.elsewhere[url.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            found = None if url.path in registry.raw else registry.answer(url.path)
            code = 200 if found is not None else 404
            if registry.broken:
                code, found = 500, None
            if self.headers.get("Authorization") != LOGIN:
                code, found = 401, None
            if isinstance(found, list):
                assert parse_qs(url.query).get("deleted") == ["true"]
            body = registry.raw.get(url.path, json.dumps(found).encode())
            code = 200 if url.path in registry.raw else code
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Not on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
