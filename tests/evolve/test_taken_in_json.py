"""Members of JSON that a source does not declare, by a registry's schemas and by the beginnings of files: reported, or
taken in by `schema.evolution = 'add'`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tests.evolve.test_registry_evolution import Producer, producer
from tests.evolve.test_taken_in import opened, ran
from tests.evolve.test_taken_in_messages import Messages, undeclared
from tidegate.audit.source import audit_source
from tidegate.errors import TidegateError
from tidegate.findings.look import look

pytestmark = pytest.mark.runner("inprocess")

__all__ = ["producer"]  # a fixture


def registered(producer: Producer, workbench: Workbench, case: str = "") -> Messages:
    login = (
        f"schema.registry = '{producer.registry.url}', schema.registry.username = 'reader', "
        "schema.registry.password = '${REGISTRY_PASSWORD}'"
    )
    workbench.allow(variables=["REGISTRY_PASSWORD"])
    found = Messages(workbench, producer.broker, f"JSON ({case}{login})")
    found.topic = producer.topic
    return found


def register(producer: Producer, number: int, **properties: Any) -> None:
    producer.registry.add(f"{producer.topic}-value", number, json.dumps({"properties": properties}))


TEXT, INTEGER = {"type": "string"}, {"type": "integer"}


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_E2_fields_of_a_registrys_json_schema_are_taken_in_with_their_types(
    workbench: Workbench, producer: Producer
) -> None:
    topic = registered(producer, workbench)
    register(producer, 1, id=INTEGER)
    topic.send({})
    topic.read()
    nested = {"type": "object", "properties": {"x": INTEGER, "y": {"type": ["null", "string"]}}}
    lines = {"type": "array", "items": INTEGER}
    register(
        producer,
        2,
        coupon=TEXT,
        n=INTEGER,
        price={"type": "number"},
        at=nested,
        lines=lines,
        any={},
        _raw=TEXT,
    )
    topic.send(
        {"coupon": "a", "n": 1, "price": 2, "at": {"x": 1, "y": "z"}, "lines": [1, 2], "any": 1},
        # No value of any type rejects a row: nobody has declared these columns (W5).
        {"coupon": {"k": 1}, "n": "one", "price": True},
        {"coupon": None, "n": 2**70, "price": {"x": 1}},
        {"coupon": "d", "n": -5, "price": 1.5, "at": {"x": 2}, "lines": []},
    )
    session = topic.read()
    assert shown(session, 'SELECT count(*) FROM "s$rejected"') == [(0,)]
    assert shown(session, "SELECT id FROM s ORDER BY id") == [(1,), (2,), (3,), (4,), (5,)]
    (note,) = shown(
        session, "SELECT note FROM \"s$watermarks\" WHERE partition IS NULL AND note LIKE '%taken in%'"
    )
    assert note[0].endswith(
        '"coupon" VARCHAR (in schema 2), "n" BIGINT (in schema 2), "price" DOUBLE (in schema 2), '
        '"at" STRUCT<x BIGINT, y VARCHAR> (in schema 2), "lines" BIGINT[] (in schema 2)'
    )
    assert undeclared(session).keys() == {"any", "_raw"}
    columns = (
        "id BIGINT, coupon VARCHAR, n BIGINT, price DOUBLE, at STRUCT<x BIGINT, y VARCHAR>, lines BIGINT[]"
    )
    session = topic.read(columns)
    found = shown(session, "SELECT coupon, n, CAST(price AS VARCHAR), at.x, at.y, lines FROM s ORDER BY id")
    assert found == [
        (None,) * 6,
        ("a", 1, "2.0", 1, "z", [1, 2]),
        ('{"k": 1}', None, None, None, None, None),
        (None, None, None, None, None, None),
        ("d", -5, "1.5", 2, None, []),
    ]
    # From here on they are columns like any other.
    topic.send({"n": "one"})
    session = topic.read(columns)
    assert shown(session, 'SELECT reason FROM "s$rejected"') == [('unparseable: column "n" wants BIGINT',)]
    assert audit_source(session, "s").ok


def test_E2_versions_that_spell_a_name_in_two_ways_are_reported_where_names_are_exact(
    workbench: Workbench, producer: Producer
) -> None:
    topic = registered(producer, workbench)
    register(producer, 1, id=INTEGER, Ref=TEXT, one=TEXT)
    register(producer, 2, id=INTEGER, ref=TEXT, Two=TEXT, two=TEXT)
    topic.send({"ref": "x", "Ref": "y", "one": "z"})
    session = topic.read()
    assert undeclared(session).keys() == {"ref", "two"}
    register(producer, 3, ONE=TEXT)
    topic.send({"ONE": "w"})
    session = topic.read()
    # Its values are in no column, and this is not silent.
    assert undeclared(session).keys() == {"ref", "two", "one"}
    session = topic.read("id BIGINT, one VARCHAR")
    assert shown(session, "SELECT one FROM s ORDER BY id") == [("z",), (None,)]


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_W5_of_two_members_that_are_one_column_by_case_neither_is_taken_in_and_no_row_is_rejected(
    workbench: Workbench, producer: Producer
) -> None:
    topic = registered(producer, workbench, "case = 'insensitive', ")
    nested = {"type": "object", "properties": {"x": INTEGER}}
    register(producer, 1, id=INTEGER, ref=TEXT, at=nested)
    topic.send(
        {"REF": "x"},
        {"ref": "x", "Ref": "y", "at": {"X": 1}},
        {"ref": "y", "at": {"x": 1, "X": 2}},
        {"ref": "z", "AT": {"x": 3}},
    )
    session = topic.read()
    assert shown(session, "SELECT id FROM s ORDER BY id") == [(1,), (2,), (3,), (4,)]
    session = topic.read("id BIGINT, ref VARCHAR, at STRUCT<x BIGINT>")
    assert shown(session, "SELECT ref, at.x FROM s ORDER BY id") == [
        ("x", None),
        (None, 1),
        ("y", None),
        ("z", 3),
    ]


def test_R2_a_registry_that_does_not_answer_keeps_a_source_waiting_that_takes_columns_in(
    workbench: Workbench, producer: Producer
) -> None:
    """Else the values of the first messages with a field would be lost. One that only reports reads on."""
    topic = registered(producer, workbench)
    register(producer, 1, id=INTEGER)
    topic.send({})
    topic.read()
    register(producer, 2, id=INTEGER, ref=TEXT)
    topic.send({"ref": "x"})
    producer.registry.broken = True
    with pytest.raises(TidegateError, match="TG555"):
        topic.read()
    producer.registry.broken = False
    topic.read()
    session = topic.read("id BIGINT, ref VARCHAR")
    assert shown(session, "SELECT id, ref FROM s ORDER BY id") == [(1, None), (2, "x")]


def test_E2_E7_a_member_of_json_files_is_taken_in_with_the_first_batch_whose_files_show_it(
    workbench: Workbench,
) -> None:
    def lines(count: int, minute: int, **more: Any) -> list[str]:
        return [
            json.dumps({"page": f"p{minute}", "ts": f"2026-01-01 12:{minute:02}:{i:02}"} | more)
            for i in range(count)
        ]

    workbench.json_lines("in/1.json", lines(9, 1, ref="x"))
    assert ran(opened(workbench, "page VARCHAR", encode="JSON")) == ["1: 9 rows"]
    # Of integers and numbers with a fraction; of NULL alone; of several types; nested; not of half of the rows.
    rows = lines(20, 2, ref="y", n=1, nothing=None, mixed="a", at={"x": 1}, Two=1, two=2)
    rows[7] = json.dumps(json.loads(rows[7]) | {"n": 1.5, "mixed": 1})
    rows[8:11] = [json.dumps(json.loads(row) | {"few": 1}) for row in rows[8:11]]
    workbench.json_lines("in/2.json", rows)
    workbench.json_lines("in/3.json", lines(1, 3, ref="z", n=3, few=1))
    session = workbench.session()
    assert ran(session) == [
        '2: taken in, because schema.evolution is \'add\': "ref" VARCHAR (in 2.json), "n" DOUBLE (in 2.json)',
        "3: 21 rows",
    ]
    assert undeclared(session) == dict.fromkeys(("nothing", "mixed", "at", "Two"), "2.json")
    found = look(session.project, ask_brokers=False)
    (finding,) = [f for f in found.findings if f.kind == "undeclared_columns"]
    assert "ADD COLUMN;" in finding.advice
    # Values of another type are NULL and reported, and no row is rejected for them.
    workbench.json_lines("in/4.json", [*lines(11, 4, ref=5, n=1), *lines(1, 5, n="x", nothing=1)])
    session = workbench.session()
    assert ran(session) == ["4: 12 rows"]
    assert undeclared(session)["n"] == "4.json"
    assert "ref" not in undeclared(session)
    assert shown(session, 'SELECT count(*) FROM "clicks$rejected"') == [(0,)]
    session = opened(workbench, "page VARCHAR, ref VARCHAR, n DOUBLE", encode="JSON")
    ran(session)
    query = "SELECT page, ref, CAST(n AS VARCHAR), count(*) FROM clicks GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    assert shown(session, query) == [
        ("p1", None, None, 9),
        ("p2", "y", "1.0", 19),
        ("p2", "y", "1.5", 1),
        ("p3", "z", "3.0", 1),
        ("p4", "5", "1.0", 11),
        ("p5", None, None, 1),
    ]
    assert audit_source(session, "clicks").ok


def test_R2_E7_a_run_of_json_files_that_ends_between_the_columns_and_the_batch_is_continued(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [json.dumps({"page": "a", "ts": f"2026-01-01 12:00:{i}", "ref": "x"}) for i in range(10, 20)]
    workbench.json_lines("in/1.json", rows)
    session = opened(workbench, "page VARCHAR", encode="JSON")
    with monkeypatch.context() as patched:
        patched.setattr(
            "tidegate.ingest.stream.PlanInbox.write", lambda *_: (_ for _ in ()).throw(OSError("killed"))
        )
        with pytest.raises(OSError, match="killed"):
            session.run()
    assert ran(workbench.session()) == ["2: 10 rows"]
    session = opened(workbench, "page VARCHAR, ref VARCHAR", encode="JSON")
    session.run()
    assert shown(session, "SELECT DISTINCT page, ref FROM clicks") == [("a", "x")]
