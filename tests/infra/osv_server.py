"""A small OSV on loopback: the three questions that `make audit` and pip-audit ask, over a few stored advisories."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PURL = re.compile(r"pkg:(maven|pypi)/(.+)@([^@?]+)")


def advisory(
    id_: str, name: str, versions: list[str], fixed: str, *aliases: str, **more: Any
) -> dict[str, Any]:
    """An advisory as OSV serves it. `name`: `group:artifact` of Maven, else a package of Python."""
    ecosystem = "Maven" if ":" in name else "PyPI"
    events = [{"introduced": "0"}, {"fixed": fixed}]
    affected = {
        "package": {"ecosystem": ecosystem, "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
        "versions": versions,
    }
    text = {
        "schema_version": "1.7.0",
        "id": id_,
        "aliases": list(aliases),
        "summary": f"{name} is vulnerable",
    }
    return {**text, "modified": "2026-09-01T00:00:00Z", "affected": [affected], **more}


class StoredOsv:
    """What is stored, how the server behaves, and what it was asked."""

    def __init__(self, *advisories: dict[str, Any]) -> None:
        self.advisories = {each["id"]: each for each in advisories}
        #: How many ids one page of an answer holds.
        self.page = 1000
        #: Answer with this status and text instead, if set.
        self.broken: tuple[int, str] | None = None
        #: Answer no question before this is set.
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked: list[str] = []
        self.url = ""

    def matching(self, ecosystem: str, name: str, version: str) -> list[str]:
        return [
            id_
            for id_, each in self.advisories.items()
            for affected in each["affected"]
            if affected["package"] == {"ecosystem": ecosystem, "name": name}
            and version in affected["versions"]
        ]

    def answer(self, path: str, question: dict[str, Any] | None) -> dict[str, Any] | None:
        """None: there is no such page."""
        if path == "/v1/querybatch" and question:
            return {"results": [self._result(query) for query in question["queries"]]}
        if path == "/v1/query" and question:
            name, version = question["package"]["name"], question["version"]
            self.asked.append(f"pkg:pypi/{name}@{version}")
            ids = self.matching("PyPI", name, version)
            return {"vulns": [self.advisories[id_] for id_ in ids]} if ids else {}
        return self.advisories.get(path.removeprefix("/v1/vulns/"))

    def _result(self, query: dict[str, Any]) -> dict[str, Any]:
        purl = query["package"]["purl"]
        self.asked.append(purl)
        match = _PURL.fullmatch(purl)
        assert match, purl
        kind, name, version = match.groups()
        named = ("Maven", name.replace("/", ":")) if kind == "maven" else ("PyPI", name)
        ids, start = self.matching(*named, version), int(query.get("page_token", 0))
        result: dict[str, Any] = {}
        if ids[start:]:
            result["vulns"] = [{"id": id_} for id_ in ids[start : start + self.page]]
        if ids[start + self.page :]:
            result["next_page_token"] = str(start + self.page)
        return result


@contextmanager
def serve(osv: StoredOsv) -> Iterator[StoredOsv]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self._answer(None)

        def _answer(self, question: dict[str, Any] | None) -> None:
            osv.may_answer.wait(10)
            found = None if osv.broken else osv.answer(self.path, question)
            status, text = osv.broken or (200 if found is not None else 404, json.dumps(found))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # Waits for the end of the last request only as long as that takes.
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    osv.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield osv
    finally:
        osv.may_answer.set()
        server.shutdown()
        server.server_close()
        thread.join()
