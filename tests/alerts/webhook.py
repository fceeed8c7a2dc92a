"""A webhook that keeps what it gets, on a free port of this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """`got`: the JSON bodies, `paths`: where they were posted. `answer`: the status that it gives."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.answer = 200


@contextmanager
def webhook() -> Iterator[Webhook]:
    """One that answers while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.answer == 200:
                hook.got.append(json.loads(body))
                hook.paths.append(self.path)
            self.send_response(hook.answer)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook = Webhook(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
