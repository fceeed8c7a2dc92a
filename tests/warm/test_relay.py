"""What another process says looks as if the command had said it, byte for byte."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.fake import RUN
from tidegate.cli.statements import only_asks
from tidegate.console import Console, JsonConsole, LinesConsole, Table
from tidegate.console.port import Shape
from tidegate.console.terminal import TerminalConsole
from tidegate.errors import Location, TidegateError
from tidegate.plan.events import Event, RowsDelivered, SinkDelivered, StepFailed, StepSkipped, ViewFinished
from tidegate.runtime.steps import together
from tidegate.sql.statements.questions import only_reads
from tidegate.warm.relay import RelayConsole, replay

EVENTS: list[Event] = [
    *RUN[:-1],
    ViewFinished("orders_hourly", "2026-03-01 11:00:00", 1234, 2),
    RowsDelivered("out", ("k", "n"), (("a", "1"), (None, "ü")), 3),
    SinkDelivered("out", "console", 1, 0.5),
    StepFailed("x", "view", {"code": "TG507", "message": "refused", "hint": None, "location": None}),
    StepSkipped("y", "view", "it reads x"),
    RUN[-1],
]
ROWS: list[tuple[Any, ...]] = [
    (1, "a\x1b[0m", datetime(2026, 1, 1, 12, tzinfo=UTC), Decimal("1.10"), 1.5, None, b"\x00", [1, None]),
    (None, "ü – 漢字", None, None, float("nan"), date(2026, 1, 1), None, {"k": timedelta(seconds=1)}),
]
TABLE = Table([*"abcdefg", "a"], ROWS, ["int", "string", "timestamp", *[None] * 5], title="rows:")


def speak(console: Console) -> None:
    for event in EVENTS:
        console.event(event)
    console.table(TABLE)
    console.table(Table(["n"], [], ["int"]))
    console.document({"a": float("inf"), "b": [1, (2,)], "c": "ü"}, "text\nof two lines")
    console.note("a note")
    where = Location("assets/a.sql", 3, 2, 4, "\tSELECT x")
    first = TidegateError("TG202", "there is no column", hint="look", location=where)
    console.error(first)
    console.error(together([first, TidegateError("TG505", "changed")]))
    console.error("unexpected")


def relayed(console: Console) -> None:
    """The same, as it comes from another process."""
    sent: list[str] = []
    speak(RelayConsole(lambda document: sent.append(json.dumps(document, default=str)), console.shape))
    for line in sent:
        assert replay(json.loads(line), console, console.event)


@pytest.mark.parametrize("kind", ["json", "lines", "narrow", "terminal"])
def test_R4_a_command_says_the_same_both_ways(kind: str) -> None:
    said = []
    for way in (speak, relayed):
        out, err = io.StringIO(), io.StringIO()
        consoles: dict[str, Console] = {
            "json": JsonConsole(out),
            "lines": LinesConsole(out, err),
            "narrow": LinesConsole(out, err, width=30),
        }
        way(consoles.get(kind) or TerminalConsole(out, err, width=60))
        said.append((out.getvalue(), err.getvalue()))
    assert said[0] == said[1]
    assert said[0][0]


def test_rows_come_before_the_one_that_fails() -> None:
    def rows() -> Any:
        yield (1,)
        raise TidegateError("TG513", "the job failed")

    sent: list[dict[str, Any]] = []
    console = RelayConsole(sent.append, Shape(json=True))
    with pytest.raises(TidegateError):
        console.table(Table(["n"], rows(), ["int"]))
    assert sent == [{"written": '{"n": 1}'}]


def test_what_is_no_word_of_this_version_is_left_out() -> None:
    heard: list[Event] = []
    assert not replay({"beat": True}, JsonConsole(io.StringIO()), heard.append)
    assert replay({"event": {"event": "unknown"}}, JsonConsole(io.StringIO()), heard.append)
    assert heard == []


QUESTIONS = """SELECT 1
WITH a AS (SELECT 1 AS n) SELECT n FROM a
(SELECT 1) UNION ALL SELECT 2
-- a comment; with INSERT
/* DROP */ SELECT ';', '-- x' FROM "orders; x"
SHOW SOURCES
SHOW timezone; select 1;
DESCRIBE orders
EXPLAIN orders_hourly""".splitlines()
OTHERS = """INSERT INTO orders VALUES (1)
SELECT 1; INSERT INTO orders VALUES (1)
/* SELECT */ DROP TABLE orders
CREATE SOURCE s (a INT) WITH (password = 'x')
EXPLAIN CREATE TABLE t (a INT)
SET timezone = 'UTC'
FLUSH
ALTER SOURCE s RESET WATERMARK
'SELECT' 1
;
-- nothing""".splitlines()


def test_X1_only_what_reads_is_asked_of_another_process() -> None:
    for text in QUESTIONS:
        assert only_asks(text) == (not text.startswith("--")), text
        assert only_reads(text), text
    for text in OTHERS:
        assert not only_asks(text), text


def test_X1_a_worker_looks_again() -> None:
    for text in ("INSERT INTO o VALUES (1)", "SELECT 1; DROP TABLE o", "FLUSH", "SET a = 1", "DELETE FROM o"):
        assert not only_reads(text), text
    # Whoever cannot be read is refused in its place, and nothing behind it is carried out.
    assert only_reads("SELECT 1; SELEC 2")
    assert not only_reads("DROP TABLE o; SELEC 2")
