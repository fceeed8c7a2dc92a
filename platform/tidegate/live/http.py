"""`/healthz`, `/livez`, `/status` and `/metrics` of live mode, in threads of their own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tidegate.errors import TidegateError

#: A client that does not ask, or does not read, gives its thread back after this many seconds.
_PATIENCE = 10.0


class HttpServer:
    """Serves as soon as it is made, until `close`. `port` 0 takes one that is free; `url` says which.

    Raises TG703 if the port is in use.
    """

    def __init__(
        self,
        host: str,
        port: int,
        health: Callable[[], dict[str, Any]],
        status: Callable[[], dict[str, Any]],
        registry: CollectorRegistry,
    ) -> None:
        self._health, self._status, self._registry = health, status, registry
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            timeout = _PATIENCE

            def do_GET(self) -> None:
                code, kind, body = answer(self.path.partition("?")[0], self.headers.get("Accept", ""))
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: a scrape every few seconds is no news."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise TidegateError(
                "TG703",
                f"can't serve health and metrics on {host}:{port}: {error.strerror or error}",
                hint="choose another --port (0 takes one that is free), or --no-http",
            ) from None
        self._server.daemon_threads = True
        at = self._server.server_address
        self.url = f"http://{host}:{at[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, accept: str) -> tuple[int, str, bytes]:
        match path:
            case "/healthz":
                health = self._health()
                return _json(503 if health["status"] == "unavailable" else 200, health)
            case "/livez":
                return _json(200, {"status": "ok"})
            case "/status":
                try:
                    return _json(200, self._status())
                except TidegateError as error:
                    return _json(503, {"error": error.to_dict()})
            case "/metrics":
                encode, kind = choose_encoder(accept)
                return 200, kind, encode(self._registry)
            case "/":
                return _json(200, {"paths": ["/healthz", "/livez", "/status", "/metrics"]})
        return _json(404, {"error": "not found"})


def _json(code: int, document: Any) -> tuple[int, str, bytes]:
    return code, "application/json", json.dumps(document, ensure_ascii=False, default=str).encode() + b"\n"
