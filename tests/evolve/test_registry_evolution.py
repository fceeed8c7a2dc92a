"""New versions of a registry's schemas under a source: their fields are reported with the statement that adds them, or
taken in; and versions that do not fit reject their rows (E2, E4, W5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.ingest.topics import NOON, advance, send
from tests.support.brokers import AnyBroker
from tests.tasks.decode.messages import avro, framed
from tests.tasks.decode.schema_registry import FakeRegistry, schema_registry
from tidegate.findings.look import look
from tidegate.session.session import Session
from tidegate.store.status import read_status

pytestmark = pytest.mark.runner("inprocess")


def record(**fields: Any) -> dict[str, Any]:
    kinds = {"id": "long", "ts": {"type": "long", "logicalType": "timestamp-millis"}} | fields
    return {"type": "record", "name": "S", "fields": [{"name": n, "type": t} for n, t in kinds.items()]}


class Producer:
    """Registers a version, and sends messages that were written with it."""

    def __init__(self, broker: AnyBroker, registry: FakeRegistry) -> None:
        self.broker, self.registry = broker, registry
        self.topic = broker.topic(partitions=1)
        self._sent = 0

    def send(self, number: int, schema: dict[str, Any], **values: Any) -> None:
        if not any(number == known for known, _ in self.registry.subjects.get(f"{self.topic}-value", ())):
            self.registry.add(f"{self.topic}-value", number, json.dumps(schema))
        self._sent += 1
        row = {"id": self._sent, "ts": 1_767_225_600_000 + self._sent * 1000} | values
        send(self.broker, self.topic, [(0, framed(number, avro(schema, row)))])

    def source(self, workbench: Workbench, columns: str = "id BIGINT", **options: str) -> Session:
        given = "".join(f", {name.replace('__', '.')} = '{value}'" for name, value in options.items())
        login = (
            f"schema.registry = '{self.registry.url}', schema.registry.username = 'reader', "
            "schema.registry.password = '${REGISTRY_PASSWORD}'"
        )
        workbench.allow(variables=["REGISTRY_PASSWORD"]).assets(
            s=f"CREATE SOURCE s ({columns}, ts TIMESTAMPTZ, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH "
            f"(connector = 'kafka', topic = '{self.topic}', properties.bootstrap.server = '{self.broker.bootstrap}'"
            f"{given}) FORMAT PLAIN ENCODE AVRO ({login});"
        )
        return workbench.session()


@pytest.fixture
def producer(broker: AnyBroker, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2")
    with schema_registry() as registry:
        yield Producer(broker, registry)


COUPON = record(coupon=["null", "string"], lines={"type": "array", "items": "int"}, x=["int", "string"])


def test_new_fields_are_reported_with_the_statement_that_adds_them(
    workbench: Workbench, producer: Producer
) -> None:
    producer.send(1, record())
    advance(producer.source(workbench), NOON)
    producer.send(2, COUPON, coupon="a", lines=[1], x="?")
    session = producer.source(workbench)
    advance(session, NOON)
    # The row is read as before.
    assert shown(session, "SELECT id FROM s ORDER BY id") == [(1,), (2,)]
    (status,) = read_status(session.project).relations
    assert status.undeclared == dict.fromkeys(("coupon", "lines", "x"), "schema 2")
    (note,) = shown(session, 'SELECT note FROM "s$watermarks" WHERE partition IS NULL AND note IS NOT NULL')
    assert 'not read: "coupon" (in schema 2), "lines" (in schema 2), "x" (in schema 2)' in note[0]
    found = look(session.project, now=NOON, ask_brokers=False)
    (finding,) = [f for f in found.findings if f.kind == "undeclared_columns"]
    # (Values of `x` are of no type that a column has.)
    assert (
        'ALTER SOURCE "s" ADD COLUMN "coupon" VARCHAR; ALTER SOURCE "s" ADD COLUMN "lines" INT[];'
        in finding.advice
    )
    assert 'ADD COLUMN "x"' not in finding.advice
    assert '; no statement is given for "x": ' in finding.advice


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E2_new_fields_are_taken_in_with_the_first_message_that_has_them(
    workbench: Workbench, producer: Producer
) -> None:
    producer.send(1, record())
    add = {"schema__evolution": "add"}
    assert advance(producer.source(workbench, **add), NOON) == 1
    # Three versions are new in one batch.
    producer.send(2, COUPON, coupon="a", lines=[1, 2], x="?")
    producer.send(
        3,
        record(
            coupon="string", at={"type": "record", "name": "At", "fields": [{"name": "n", "type": "int"}]}
        ),
        coupon="b",
        at={"n": 5},
    )
    producer.send(4, record(id="string"), id="not a number")
    producer.send(1, record())
    session = producer.source(workbench, **add)
    assert advance(session, NOON) == 1
    (note,) = shown(
        session, "SELECT note FROM \"s$watermarks\" WHERE partition IS NULL AND note LIKE '%taken in%'"
    )
    for column in (
        '"coupon" VARCHAR (in schema 3)',
        '"lines" INT[] (in schema 2)',
        '"at" STRUCT<n INT> (in schema 3)',
    ):
        assert column in note[0]
    # A version that does not fit rejects its own rows, and names itself (E4).
    rejected = shown(session, 'SELECT reason, "offset" FROM "s$rejected"')
    assert rejected == [('unparseable: column "id" wants BIGINT (schema 4)', 3)]
    session = producer.source(
        workbench, "id BIGINT, lines INT[], coupon VARCHAR, at STRUCT<n VARCHAR>", **add
    )
    with pytest.raises(Exception, match="was taken in as STRUCT<n INT>"):
        advance(session, NOON)
    session = producer.source(workbench, "id BIGINT, lines INT[], coupon VARCHAR, at STRUCT<n BIGINT>", **add)
    advance(session, NOON)
    producer.send(2, COUPON, coupon="c", lines=[3], x=7)
    assert (
        advance(
            producer.source(workbench, "id BIGINT, lines INT[], coupon VARCHAR, at STRUCT<n BIGINT>", **add),
            NOON,
        )
        == 1
    )
    assert shown(session, "SELECT id, coupon, lines, at.n FROM s ORDER BY id") == [
        (1, None, None, None),
        (2, "a", [1, 2], None),
        (3, "b", None, 5),
        (5, None, None, None),
        (6, "c", [3], None),
    ]


def test_a_field_that_older_messages_have_as_another_type_is_reported_and_not_taken_in(
    workbench: Workbench, producer: Producer
) -> None:
    add = {"schema__evolution": "add"}
    producer.send(1, record(code="int"), code=1)
    producer.send(2, record(code="string"), code="x")
    session = producer.source(workbench, **add)
    advance(session, NOON)
    assert shown(session, "SELECT id FROM s ORDER BY id") == [(1,), (2,)]
    (status,) = read_status(session.project).relations
    assert status.undeclared == {"code": "schema 2"}
    # What is taken in, and comes as another type later, is NULL there, and reported again.
    producer.send(3, record(other=["null", "int"]), other=1)
    advance(producer.source(workbench, **add), NOON)
    wrong = record(
        other={"type": "string", "logicalType": "date"},
        ts={"type": "long", "logicalType": "timestamp-millis"},
    )
    producer.send(4, wrong, other="x")
    session = producer.source(workbench, **add)
    advance(session, NOON)
    assert shown(session, 'SELECT count(*) FROM "s$rejected"') == [(0,)]
    (status,) = read_status(session.project).relations
    assert status.undeclared == {"code": "schema 2", "other": "schema 4"}
    session = producer.source(workbench, "id BIGINT, other INT", **add)
    advance(session, NOON)
    assert shown(session, "SELECT other FROM s ORDER BY id") == [(None,), (None,), (1,), (None,)]


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_X5_json_of_a_registry_is_json_behind_its_frame(workbench: Workbench, producer: Producer) -> None:
    producer.registry.add(
        f"{producer.topic}-value", 5, json.dumps({"properties": {"id": {}, "more": {"type": "number"}}})
    )
    texts = [json.dumps({"id": i, "ts": f"2026-01-01 12:00:0{i}"}).encode() for i in range(3)]
    send(
        producer.broker,
        producer.topic,
        [(0, framed(5, texts[0])), (0, texts[1]), (0, framed(77, texts[2])), (0, b"\0\0")],
    )
    send(producer.broker, producer.topic, [(0, framed(5, b'{"id": "x"}'))])
    login = (
        f"schema.registry = '{producer.registry.url}', schema.registry.username = 'reader', "
        "schema.registry.password = '${REGISTRY_PASSWORD}'"
    )
    workbench.allow(variables=["REGISTRY_PASSWORD"]).assets(
        s="CREATE SOURCE s (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH "
        f"(connector = 'kafka', topic = '{producer.topic}', properties.bootstrap.server = '{producer.broker.bootstrap}'"
        f") FORMAT PLAIN ENCODE JSON ({login});"
    )
    session = workbench.session()
    advance(session, NOON)
    assert shown(session, "SELECT id FROM s ORDER BY id") == [(0,), (1,), (2,)]
    assert shown(session, 'SELECT "offset", raw, reason FROM "s$rejected" ORDER BY "offset"') == [
        (3, "\0\0", "unparseable: not one JSON object"),
        (4, '{"id": "x"}', 'unparseable: column "id" wants BIGINT (schema 5)'),
    ]
    (status,) = read_status(session.project).relations
    assert status.undeclared == {"more": "schema 5"}


def test_X2_a_registry_that_is_not_needed_stalls_no_batches(workbench: Workbench, producer: Producer) -> None:
    """Of a JSON source: what it has is only reported."""
    producer.registry.broken = True
    login = (
        f"schema.registry = '{producer.registry.url}', schema.registry.username = 'reader', "
        "schema.registry.password = '${REGISTRY_PASSWORD}'"
    )
    workbench.allow(variables=["REGISTRY_PASSWORD"]).assets(
        s="CREATE SOURCE s (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH "
        f"(connector = 'kafka', topic = '{producer.topic}', max_rows_per_batch = 1, "
        f"properties.bootstrap.server = '{producer.broker.bootstrap}') FORMAT PLAIN ENCODE JSON ({login});"
    )
    for number in range(6):
        text = json.dumps({"id": number, "ts": f"2026-01-01 12:00:0{number}"})
        send(producer.broker, producer.topic, [(0, text.encode())])
    session = workbench.session()
    advance(session, NOON)
    asked = len([path for path in producer.registry.asked if path.endswith("/versions")])
    assert shown(session, "SELECT count(*) FROM s") == [(6,)]
    # Three tries of the first batch.
    assert asked == 3
