"""Members of JSON messages without a schema that a source does not declare: reported, or taken in by
`schema.evolution = 'add'`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.evolve.test_taken_in import ADD
from tests.ingest.topics import NOON, advance, at, send
from tests.support.brokers import AnyBroker
from tidegate.audit.source import audit_source
from tidegate.errors import TidegateError
from tidegate.findings.look import look
from tidegate.session.session import Session
from tidegate.store.status import read_status

pytestmark = pytest.mark.runner("inprocess")


class Messages:
    """A topic of JSON, and a source that reads it."""

    def __init__(self, workbench: Workbench, broker: AnyBroker, format_: str = "JSON") -> None:
        self.workbench, self.broker, self.format = workbench, broker, format_
        self.topic = broker.topic(partitions=1)
        self._sent = 0

    def send(self, *rows: dict[str, Any] | str) -> None:
        texts = []
        for row in rows:
            self._sent += 1
            known = {"id": self._sent, "ts": at(self._sent)}
            texts.append(row if isinstance(row, str) else json.dumps(known | row))
        send(self.broker, self.topic, [(0, text.encode()) for text in texts])

    def source(self, columns: str = "id BIGINT", options: str = ADD) -> Session:
        self.workbench.assets(
            s=f"CREATE SOURCE s ({columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH "
            f"(connector = 'kafka', topic = '{self.topic}', properties.bootstrap.server = '{self.broker.bootstrap}'"
            f"{options}) FORMAT PLAIN ENCODE {self.format};"
        )
        return self.workbench.session()

    def read(self, columns: str = "id BIGINT", options: str = ADD) -> Session:
        session = self.source(columns, options)
        advance(session, NOON)
        return session


def undeclared(session: Session) -> dict[str, str]:
    (status,) = read_status(session.project).relations
    return dict(status.undeclared)


@pytest.mark.runner("inprocess", "spark")
@pytest.mark.parametrize("columns", ["id BIGINT", "id BIGINT, twice BIGINT AS id * 2"])
def test_E2_E7_R2_a_member_of_messages_is_taken_in_with_the_batch_behind_the_one_that_shows_it(
    workbench: Workbench, broker: AnyBroker, columns: str
) -> None:
    """Whoever reads the messages: the gate's own tasks, or Spark, where it computes a column."""
    topic = Messages(workbench, broker)
    row = {"coupon": "a", "n": 1, "ok": True, "at": {"x": 1}, "nothing": None, "mixed": "x", "two words": 1}
    topic.send(*[row] * 12, row | {"mixed": 1, "n": None})
    session = topic.read(columns)
    assert undeclared(session) == dict.fromkeys(("coupon", "n", "ok", "at", "nothing", "mixed"), "batch 1")
    found = look(session.project, now=NOON, ask_brokers=False)
    (finding,) = [f for f in found.findings if f.kind == "undeclared_columns"]
    for statement in ('"coupon" VARCHAR', '"n" BIGINT', '"ok" BOOLEAN'):
        assert f'ALTER SOURCE "s" ADD COLUMN {statement};' in finding.advice
    assert finding.advice.count("ADD COLUMN") == 3
    assert '; no statement is given for "at", "nothing", "mixed": the values are nested,' in finding.advice
    topic.send(row | {"coupon": "b"}, row | {"n": "x"}, row | {"nothing": 5})
    session = topic.read(columns)
    (note,) = shown(
        session, "SELECT note FROM \"s$watermarks\" WHERE partition IS NULL AND note LIKE '%taken in%'"
    )
    assert note[0] == (
        'taken in, because schema.evolution is \'add\': "coupon" VARCHAR (in batch 1), "n" BIGINT (in batch 1), '
        '"ok" BOOLEAN (in batch 1)'
    )
    assert undeclared(session) == dict.fromkeys(("at", "nothing", "mixed"), "batch 1")
    assert shown(session, 'SELECT count(*) FROM "s$rejected"') == [(0,)]
    session = topic.read(f"{columns}, coupon VARCHAR, n BIGINT, ok BOOLEAN")
    assert shown(session, "SELECT id, coupon, n, ok FROM s WHERE id > 12 ORDER BY id") == [
        (13, None, None, None),
        (14, "b", 1, True),
        (15, "a", None, True),
        (16, "a", 1, True),
    ]
    assert audit_source(session, "s").ok


def test_E7_a_type_that_earlier_batches_contradict_is_reported_and_not_taken_in(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = Messages(workbench, broker)
    report = {"options": ""}
    for values in ([1, "a"], [1], ["x"]):
        topic.send(*[{"mixed": value, "nothing": None} for value in values * 10])
        session = topic.read(**report)
    assert undeclared(session) == dict.fromkeys(("mixed", "nothing"), "batch 3")
    topic.send(*[{"nothing": 1.5}] * 10)
    topic.read(**report)
    topic.send({"mixed": 1, "nothing": 2})
    session = topic.read()
    assert undeclared(session) == {"mixed": "batch 3"}
    session = topic.read("id BIGINT, nothing DOUBLE")
    assert shown(session, "SELECT nothing FROM s ORDER BY id DESC LIMIT 2") == [(2.0,), (None,)]


def test_messages_of_csv_have_no_header_and_take_nothing_in(workbench: Workbench, broker: AnyBroker) -> None:
    with pytest.raises(TidegateError, match="TG404"):
        Messages(workbench, broker, "CSV").source()


def test_small_batches_are_looked_at_together(workbench: Workbench, broker: AnyBroker) -> None:
    topic = Messages(workbench, broker)
    topic.send(*[{"ref": "x"}] * 9)
    assert undeclared(topic.read()) == {}
    topic.send(*[{"ref": "x"}] * 15)
    session = topic.source()
    # Of three rows each.
    assert advance(session, NOON, 3) == 5
    (note,) = shown(
        session, "SELECT note FROM \"s$watermarks\" WHERE partition IS NULL AND note LIKE '%taken in%'"
    )
    assert '"ref" VARCHAR (in batch 5)' in note[0]


def test_R2_E7_messages_of_a_run_that_ends_between_the_columns_and_the_batch(
    workbench: Workbench, broker: AnyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Messages(workbench, broker)
    topic.send(*[{"ref": "x"}] * 10)
    topic.read()
    topic.send({"ref": "y"})
    with monkeypatch.context() as patched:
        patched.setattr(
            "tidegate.ingest.stream.PlanInbox.write", lambda *_: (_ for _ in ()).throw(OSError("killed"))
        )
        with pytest.raises(OSError, match="killed"):
            topic.read()
    assert advance(topic.source(), NOON) == 1
    # A plan that stands is read as it was planned, though its source takes columns in now (W4).
    topic.send({"ref": "z", "more": 1}, *[{"more": 1}] * 10)
    session = topic.source()
    with monkeypatch.context() as patched:
        patched.setattr("tidegate.ingest.ingest.Log.add", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"):
            advance(session, NOON)
    topic.send({"more": 2})
    topic.read()
    session = topic.read("id BIGINT, ref VARCHAR, more BIGINT")
    assert shown(session, "SELECT ref, more FROM s WHERE id > 10 ORDER BY id") == [
        ("y", None),
        ("z", None),
        *[(None, None)] * 10,
        (None, 2),
    ]


def test_X2_X4_hostile_names_neither_stop_a_source_nor_widen_its_log(
    workbench: Workbench, broker: AnyBroker
) -> None:
    topic = Messages(workbench, broker)
    strange: dict[str, Any] = dict.fromkeys(
        ("__proto__", "_raw", "_outcome", "$rowtime", "a b", "ä", "x" * 100, "y" * 9999, "Foo", "foo"), 1
    )
    many = {f"m{i}": i for i in range(2000)}
    topic.send(*[strange | many | {f"own{i}": 1} for i in range(20)])
    topic.send("[1]", "{", '{"a": NaN}', '{"id": 1, "id": 2}', "[" * 5000, '{"n": 1e999999}')
    session = topic.read()
    before = undeclared(session)
    assert len(before) == 50
    assert not [name for name in before if name.startswith("own") or len(name) > 60]
    topic.send({"id": 1})
    session = topic.read()
    assert (
        len(json.loads(session.tables.open(session.identifier("s")).property("tidegate.taken-in") or "[]"))
        <= 50
    )
    assert shown(session, "SELECT count(*) FROM s") == [(21,)]
    assert undeclared(session).keys() <= {"__proto__", "_raw", "_outcome", "ä", "Foo", "x" * 60}
    for _ in range(14):
        topic.send(*[many] * 10)
        session = topic.read()
    taken = json.loads(session.tables.open(session.identifier("s")).property("tidegate.taken-in") or "[]")
    assert 400 < len(taken) <= 500
    assert audit_source(session, "s").ok


def test_E2_a_member_that_the_definition_had_is_not_taken_in(workbench: Workbench, broker: AnyBroker) -> None:
    topic = Messages(workbench, broker)
    topic.send({"old": 1, "was": 2})
    topic.read("id BIGINT, old BIGINT, was BIGINT")
    topic.send(*[{"old": 1, "was": 2}] * 10)
    topic.read("id BIGINT, now BIGINT RENAMED FROM was")
    topic.send({"old": 1})
    session = topic.read("id BIGINT, now BIGINT")
    assert session.tables.open(session.identifier("s")).property("tidegate.taken-in") is None
    assert undeclared(session) == dict.fromkeys(("old", "was"), "batch 3")
