"""What a registry that is broken, hostile or asked by random bytes can do to those who ask it (X2, X4). No Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tasks.decode.schema_registry import LOGIN, FakeRegistry, schema_registry
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.reach import Endpoints
from tidegate.sql import load_catalog
from tidegate.tasks.decode.binary import registry as module
from tidegate.tasks.decode.binary import registry_http
from tidegate.tasks.decode.binary.registry import Registry, Schema, registry_of


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    monkeypatch.setattr(module, "_PAUSE", 0)
    monkeypatch.setattr(module, "_ANSWERS", {})
    monkeypatch.setattr(module, "_ABSENCES", {})
    with schema_registry() as running:
        yield running


LOOPBACK = Endpoints(("localhost",), "resources/local.yaml")


def client(server: FakeRegistry, endpoints: Endpoints = LOOPBACK) -> Registry:
    return Registry(server.url, "reader", "hunter2", endpoints=endpoints)


def refused(registry: Registry, number: int) -> str:
    with pytest.raises(TidegateError) as caught:
        registry.schema(number)
    assert caught.value.code == "TG555"
    assert "hunter2" not in str(caught.value)
    return caught.value.message


def test_each_id_is_asked_for_once_in_an_interval(
    server: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.add("orders-value", 1, "{}")
    registry, now = client(server), time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    for _ in range(3):
        # Another decoder, as each task has: what the process knows is not its own.
        assert client(server).schema(1) == Schema("{}")
        assert registry.schema(2) is None
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/2"]
    server.broken = True
    for _ in range(3):
        assert "500" in refused(registry, 3)
    assert server.asked[2:] == ["/schemas/ids/3"] * 3  # the tries of one question
    server.broken, server.asked[:] = False, []
    server.add("orders-value", 2, "[2]")
    server.add("orders-value", 3, "[3]")
    assert "500" in refused(registry, 3)
    assert registry.schema(2) is None
    now += module._ABSENT
    assert (registry.schema(1), registry.schema(2), registry.schema(3)) == (
        Schema("{}"),
        Schema("[2]"),
        Schema("[3]"),
    )
    assert server.asked == ["/schemas/ids/2", "/schemas/ids/3"]


def test_what_is_remembered_is_bounded(server: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ANSWERS", 5)
    for number in range(20):
        assert client(server).schema(number) is None
    assert [path for _, path in module._ANSWERS] == [f"schemas/ids/{n}" for n in range(15, 20)]
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    server.add("orders-value", 30, "x" * 600)
    server.add("orders-value", 31, "x" * 600)
    client(server).schema(30)
    client(server).schema(31)
    assert [path for _, path in module._ANSWERS] == ["schemas/ids/31"]


@pytest.mark.medium
def test_X2_random_ids_are_asked_for_only_so_often_and_so_long(
    server: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tens of thousands of them would else take longer than rows may take by the clock, which ends the worker."""
    now = time.monotonic()
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    monkeypatch.setattr(module, "_MOST_ABSENT", 10)
    server.add("orders-value", 1, "{}")
    assert [client(server).schema(number) for number in range(100, 130)] == [None] * 30
    assert len(server.asked) == 10
    # What is known stays so, and a registry of its own has its own measure.
    with schema_registry() as other:
        other.add("orders-value", 1, "{}")
        assert client(other).schema(1) == Schema("{}")
    assert client(server).schema(1) is None
    now += module._ABSENT
    assert client(server).schema(1) == Schema("{}")
    assert client(server).schema(129) is None
    assert len(server.asked) == 12
    assert [client(server).schema(1) for _ in range(20)] == [Schema("{}")] * 20
    slow = module.read_json

    def slowly(*arguments: Any) -> Any:
        nonlocal now
        now += 4.0
        return slow(*arguments)

    monkeypatch.setattr(module, "read_json", slowly)
    server.asked.clear()
    assert [client(server).schema(number) for number in range(200, 230)] == [None] * 30
    assert len(server.asked) == 3


def test_no_message_can_be_read_by_an_answer_that_is_too_large(
    server: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_http, "LARGEST", 10_000)
    body = json.dumps({"schema": "x" * 20_000, "id": 7}).encode()
    server.raw = {"/schemas/ids/7": body, "/subjects/orders-value/versions/1": body}
    assert client(server).schema(7) == Schema("")
    assert client(server).version("orders-value", 1) is None
    assert len(server.asked) == 2
    server.raw = {"/subjects/orders-value/versions": b"[" + b"1," * 6000 + b"1]"}
    with pytest.raises(TidegateError, match="something other than a list of versions"):
        client(server).versions("orders-value")


def test_an_answer_that_drips_ends_in_time(server: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_http, "_LONGEST", -1.0)
    server.add("orders-value", 1, "{}")
    assert "TimeoutError" in refused(client(server), 1)


@pytest.mark.medium
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[1]",
        b"7",
        b'{"id": 1}',
        b'{"schema": 1}',
        b'{"schema": "", "references": 3}',
        b'{"schema": "", "references": [{"name": "a", "subject": "s", "version": "x"}]}',
        b'{"schema": "", "references": [{"name": "a", "subject": "s", "version": 1e999}]}',
        b"\xff",
    ],
)
def test_what_is_no_schema_is_an_error_with_a_code(server: FakeRegistry, body: bytes) -> None:
    server.raw = {"/schemas/ids/1": body}
    refused(client(server), 1)


def test_imports_that_go_round_or_multiply_come_to_an_end(server: FakeRegistry) -> None:
    server.add("round", 1, "{}", references=[{"name": "r", "subject": "round", "version": 1}])
    assert client(server).schema(1) == Schema("")
    for level in range(15):
        twice = [{"name": n, "subject": f"level{level + 1}", "version": 1} for n in "ab"]
        server.add(f"level{level}", 100 + level, "{}", references=twice)
    server.add("level15", 115, "{}")
    assert client(server).schema(100) == Schema("")
    assert client(server).schema(113) is not None
    assert len(server.asked) < 60


@pytest.mark.medium
def test_a_redirect_carries_the_login_to_the_same_host_only(server: FakeRegistry) -> None:
    server.add("orders-value", 2, "{}")
    server.elsewhere = {"/schemas/ids/1": "/schemas/ids/2"}
    assert client(server).schema(1) == Schema("{}")
    assert server.logins == [LOGIN, LOGIN]
    with schema_registry() as other:
        # Another port is another server.
        other.raw = {"/schemas/ids/3": b'{"schema": "[]"}'}
        server.elsewhere = {"/schemas/ids/3": f"{other.url}/schemas/ids/3"}
        assert client(server).schema(3) == Schema("[]")
        assert other.logins == [None]


def test_X1_a_redirect_leads_to_what_is_listed_and_nowhere_else(server: FakeRegistry) -> None:
    with schema_registry() as other:
        other.raw = {"/schemas/ids/1": b'{"schema": "[]"}'}
        server.elsewhere = {"/schemas/ids/1": f"http://me:hunter2@{other.url[7:]}/schemas/ids/1"}
        for listed in ((server.url[7:],), (f"{server.url}/",), ()):
            registry = client(server, Endpoints(listed, "resources/local.yaml"))
            with pytest.raises(TidegateError) as caught:
                registry.schema(1)
            assert (caught.value.code, other.asked) == ("TG614", [])
            assert caught.value.message.endswith(
                f"sends on to {other.url[7:]}, an address that SQL may not use"
            )
            assert caught.value.hint == (
                "the operator of tidegate can allow it in resources/local.yaml, "
                f'allow: {{endpoints: ["{other.url[7:]}"]}}'
            )
        # Nor out of the path that is listed; the server of the operator's own variable may send on within itself.
        server.elsewhere = {
            "/schemas/ids/1": "/schemas/ids/2",
            "/api/schemas/ids/1": "/schemas/ids/2",
            "/schemas/ids/3": "//127.0.0.1.example/x",
        }
        server.add("orders-value", 2, "{}")
        url = f"{server.url}/api"
        with pytest.raises(TidegateError, match="TG614"):
            Registry(url, "reader", "hunter2", endpoints=Endpoints((url,))).schema(1)
        assert client(server, Endpoints()).schema(1) == Schema("{}")
        with pytest.raises(TidegateError, match="TG614"):
            client(server).schema(3)


def test_X1_of_an_address_that_is_not_listed_the_same_server_is_one_with_https() -> None:
    assert registry_http.is_same_server("http://registry/a", "https://registry/b")
    assert registry_http.is_same_server("http://Registry:80/a", "http://registry/b")
    assert not registry_http.is_same_server("http://registry:8081/a", "https://registry/b")
    assert not registry_http.is_same_server("https://registry/a", "http://registry/b")
    assert not registry_http.is_same_server("http://registry/a", "http://registry:8080/b")


@pytest.mark.medium
@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,{}"])
def test_a_redirect_away_from_http_is_refused(server: FakeRegistry, target: str) -> None:
    server.elsewhere = {"/schemas/ids/1": target}
    refused(client(server), 1)


def test_a_redirect_without_end_is_an_error(server: FakeRegistry) -> None:
    server.elsewhere = {"/schemas/ids/1": "/schemas/ids/1?again", "/schemas/ids/2": "/schemas/ids/2"}
    refused(client(server), 1)
    refused(client(server), 2)
    assert len(server.asked) < 30


@pytest.mark.parametrize("url", ["file:///etc", "ftp://127.0.0.1", "data:,", "127.0.0.1:8081"])
def test_only_http_is_spoken(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable can stand for any address: nothing but HTTP is opened."""
    monkeypatch.setattr(module, "_PAUSE", 0)
    refused(Registry(url), 1)


@pytest.mark.parametrize(
    "address", ["http://me:hunter2@127.0.0.1:1", "http://me@127.0.0.1:1/api", "https://:x@y"]
)
def test_X4_an_address_with_a_login_says_where_the_login_belongs(address: str) -> None:
    source = """CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'kafka', topic = 't',
        properties.bootstrap.server = 'localhost:9092') FORMAT PLAIN ENCODE AVRO
        (schema.registry = '${REGISTRY_URL}')"""
    relation = load_catalog([("s.sql", source)]).relations[0]
    with pytest.raises(TidegateError) as caught:
        registry_of(relation, Project.temporary(), {"REGISTRY_URL": address})
    assert caught.value.code == "TG555"
    assert "me" not in str(caught.value).replace("schema", "").replace("username", "").split()
    assert "hunter2" not in str(caught.value)
    assert caught.value.message == "the address of the schema registry, ${REGISTRY_URL}, has a login in it"
    assert caught.value.hint == (
        "take the login out of the address, and write it as schema.registry.username and schema.registry.password"
    )
