"""Live mode over HTTP: health, metrics and status, who may ask, and what a client that misbehaves can do."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.pipeline import wait_until
from tests.live.made import HEALTH, STATUS, Bench
from tests.store.test_broker import CERTIFICATE, KEY
from tidegate.errors import TidegateError
from tidegate.live import http
from tidegate.live.http import Access, HttpServer, read_token


class Site:
    """A server on a free port, and what its answers are made of."""

    def __init__(self, **access: Any) -> None:
        self.health: dict[str, Any] = dict(HEALTH)
        self.error: TidegateError | None = None
        self.reads = 0
        registry = Bench().metrics.registry
        self.server = HttpServer(
            Access(access.pop("host", "127.0.0.1"), 0, **access), lambda: self.health, self._status, registry
        )

    def _status(self) -> dict[str, Any]:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return STATUS.to_dict()

    def get(
        self, path: str, token: str | None = None, method: str = "GET", tls: ssl.SSLContext | None = None
    ) -> tuple[int, str, bytes]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return get(self.server.url + path, headers, method, tls)


def get(
    url: str,
    headers: dict[str, str] | None = None,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    timeout: float = 10,
) -> tuple[int, str, bytes]:
    request = urllib.request.Request(url, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout, context=tls) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.server.close()


def test_health_is_200_while_it_is_well_and_503_otherwise(site: Site) -> None:
    code, kind, body = site.get("/healthz")
    assert (code, kind, json.loads(body)) == (200, "application/json", HEALTH)
    site.health = HEALTH | {"status": "degraded"}
    assert site.get("/healthz")[0] == 200
    site.health = HEALTH | {"status": "unavailable"}
    assert site.get("/healthz?verbose=1")[0] == 503
    # That the supervisor itself lives is another question: to kill it helps no worker.
    assert site.get("/livez")[0] == 200


def test_metrics_and_status_over_http(site: Site) -> None:
    code, kind, body = site.get("/metrics")
    assert (code, kind.partition(";")[0]) == (200, "text/plain")
    assert b'tidegate_rows_total{outcome="late",source="clicks"} 18.0' in body
    code, _, body = site.get("/status")
    assert (code, json.loads(body)["relations"][0]["late"]) == (200, 18)
    site.get("/status")
    assert site.reads == 1, "a status that was read just now is told again"
    assert json.loads(site.get("/")[2]) == {"paths": ["/healthz", "/livez", "/status", "/metrics"]}
    assert site.get("/etc/passwd")[0] == 404


def test_a_status_that_cannot_be_read_is_503_with_the_error(site: Site) -> None:
    site.error = TidegateError("TG620", "the catalog does not answer")
    code, _, body = site.get("/status")
    assert (code, json.loads(body)["error"]["code"]) == (503, "TG620")


def test_a_status_that_hangs_keeps_nobody_from_the_probes() -> None:
    answers, asked = threading.Event(), threading.Semaphore(0)

    def hangs() -> dict[str, Any]:
        asked.release()
        assert answers.wait(60)
        return STATUS.to_dict()

    server = HttpServer(Access("127.0.0.1", 0), lambda: dict(HEALTH), hangs, Bench().metrics.registry)
    codes: list[int] = []

    def ask() -> None:
        codes.append(get(f"{server.url}/status", timeout=60)[0])

    try:
        clients = [threading.Thread(target=ask, daemon=True) for _ in range(30)]
        for client in clients:
            client.start()
        assert asked.acquire(timeout=30)
        # All but one that asks, and those that wait for it for a while, are told at once.
        assert wait_until(lambda: len(codes) >= 30 - 12, 30)
        for path in ("/livez", "/healthz"):
            assert get(server.url + path)[0] == 200
        code, _, body = get(f"{server.url}/status")
        assert (code, json.loads(body)["error"]["code"]) == (503, "TG620")
        answers.set()
        for client in clients:
            client.join(30)
        assert sorted(set(codes)) == [200, 503]
        assert not asked.acquire(blocking=False), "the tables were read more than once"
    finally:
        answers.set()
        server.close()


def test_head_answers_as_get_does_without_the_body(site: Site) -> None:
    for path in ("/healthz", "/livez", "/status", "/", "/nothing"):
        code, kind, body = site.get(path, method="HEAD")
        assert (code, kind) == site.get(path)[:2]
        assert body == b""


def test_X1_without_the_token_nothing_is_told_but_whether_the_run_is_well() -> None:
    site = Site(token="a long text")
    try:
        for token in (None, "another text", "a long texta", ""):
            assert {site.get(path, token)[0] for path in ("/", "/status", "/metrics", "/nothing")} == {401}
            assert json.loads(site.get("/healthz", token)[2]) == {"status": HEALTH["status"]}
        assert site.reads == 0
        assert site.get("/livez")[0] == 200
        assert {site.get(path, "a long text")[0] for path in ("/", "/status", "/metrics", "/livez")} == {200}
        assert json.loads(site.get("/healthz", "a long text")[2]) == HEALTH
        assert "a long text" not in repr(Access("::", 0, "a long text"))
    finally:
        site.server.close()


def test_tls_serves_with_the_certificate_and_refuses_what_is_none(tmp_path: Path) -> None:
    certificate, key = tmp_path / "own.pem", tmp_path / "key.pem"
    certificate.write_text(CERTIFICATE)
    key.write_text(KEY)
    site = Site(certificate=certificate, key=key)
    try:
        trusting = ssl.create_default_context(cadata=CERTIFICATE)
        trusting.check_hostname = False
        assert site.server.url.startswith("https://")
        assert site.get("/livez", tls=trusting)[0] == 200
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            site.get("/livez")
        with socket.create_connection(("127.0.0.1", int(site.server.url.rpartition(":")[2]))) as silent:
            # One that never begins its handshake holds up nobody.
            assert site.get("/livez", tls=trusting)[0] == 200
            silent.sendall(b"no TLS at all")
        assert site.get("/livez", tls=trusting)[0] == 200
    finally:
        site.server.close()
    key.write_text("no key")
    for wrong in (key, tmp_path / "absent.pem"):
        with pytest.raises(TidegateError) as refused:
            Site(certificate=certificate, key=wrong)
        assert refused.value.code == "TG703"
        assert str(certificate) in refused.value.message


@pytest.mark.medium
def test_clients_beyond_the_bound_are_turned_away_and_the_others_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CONNECTIONS", 3)
    few = Site()
    address = ("127.0.0.1", int(few.server.url.rpartition(":")[2]))
    try:
        holding = [socket.create_connection(address) for _ in range(3)]
        for each in holding:
            each.sendall(b"GET /livez HTTP/1.1\r\n")  # and never the end of it
        assert wait_until(lambda: few.server._server._free._value == 0, 10)
        # A silent client keeps nobody from asking: the oldest one loses its place.
        assert few.get("/livez")[0] == 200
        assert holding[0].recv(1) == b""
        assert wait_until(lambda: few.server._server._free._value == 1, 10)
        holding[0] = socket.create_connection(address)
        holding[0].sendall(b"GET /livez HTTP/1.1\r\n")
        assert wait_until(lambda: len(few.server._server._silent) == 3, 10)
        # Who is being answered keeps its place.
        few.server._server._silent.clear()
        with socket.create_connection(address) as turned_away:
            assert turned_away.recv(1) == b""
        for each in holding:
            each.close()
        assert wait_until(lambda: few.server._server._free._value == 3, 10)
        assert few.get("/livez")[0] == 200
    finally:
        few.server.close()


def ask(site: Site, sent: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(
        ("127.0.0.1", int(site.server.url.rpartition(":")[2])), timeout=10
    ) as client:
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(4096), b""))


def not_taken(client: socket.socket, sent: bytes) -> bool:
    """Whether the other side has closed; else it has got these bytes, too."""
    try:
        client.sendall(sent)
    except OSError:
        return True
    return False


def test_a_question_that_comes_in_drops_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_PATIENCE", 0.5)
    with socket.create_connection(("127.0.0.1", int(site.server.url.rpartition(":")[2]))) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        assert wait_until(lambda: not_taken(client, b"a"), 5)
    assert wait_until(lambda: site.server._server._free._value == http._CONNECTIONS, 10)


def test_what_was_asked_stands_in_no_answer(site: Site) -> None:
    for sent in (
        b"POST /<img> HTTP/1.1",
        b"<img src=x> / HTTP/1.1",
        b"GET /<img> HTTP/1.1",
        b"GET /<img> HTTP/9.9",
    ):
        answer = ask(site, sent + b"\r\n\r\n")
        assert re.match(rb"HTTP/1.0 (400|404|501|505) ", answer), answer
        assert b"application/json" in answer
        assert b"<img" not in answer


def test_a_mistake_of_ours_is_an_answer_too(site: Site) -> None:
    site.health = {}
    code, kind, body = site.get("/healthz")
    assert (code, kind, json.loads(body)) == (500, "application/json", {"error": "unexpected KeyError"})


def test_live_mode_listens_on_addresses_of_six_parts() -> None:
    site = Site(host="::1")
    try:
        assert site.server.url.startswith("http://[::1]:")
        assert site.get("/livez")[0] == 200
    finally:
        site.server.close()


@pytest.mark.parametrize(
    ("host", "exposed"),
    [
        ("127.0.0.1", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("live", True),
    ],
)
def test_an_address_beyond_this_machine_without_a_token_is_exposed(host: str, exposed: bool) -> None:
    assert Access(host, 0).exposed is exposed
    assert not Access(host, 0, "token").exposed


def test_a_token_is_the_text_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content in (None, b"", b" \n", b"\xff", b"one\ntwo\n", "g\u00fcnstig".encode(), b"a\tb"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(TidegateError) as refused:
            read_token(file)
        assert refused.value.code == "TG703"
    file.write_text("a long text\n")
    assert read_token(file) == "a long text"


def test_a_port_in_use_is_a_clear_error(site: Site) -> None:
    port = int(site.server.url.rpartition(":")[2])
    with pytest.raises(TidegateError) as caught:
        HttpServer(Access("127.0.0.1", port), lambda: HEALTH, dict, Bench().metrics.registry)
    assert caught.value.code == "TG703"
    assert str(port) in caught.value.message
