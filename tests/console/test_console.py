"""Drawing of values, tables and events, in every console."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tidegate.console import CaptureConsole, Console, JsonConsole, LinesConsole, Table, describe_event
from tidegate.console.drawing import draw
from tidegate.console.terminal import TerminalConsole
from tidegate.console.values import show, to_json
from tidegate.errors import Location, TidegateError
from tidegate.plan import events


class Row(tuple):
    """What pyspark's Row looks like from outside."""

    __fields__ = ("a", "b")


@pytest.mark.parametrize(
    ("value", "text", "json_value"),
    [
        (None, "NULL", None),
        ("NULL", "NULL", "NULL"),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        (float("nan"), "NaN", "NaN"),
        (float("-inf"), "-Infinity", "-Infinity"),
        (Decimal("1E+3"), "1000", "1000"),
        (Decimal("0.10"), "0.10", "0.10"),
        (datetime(2013, 1, 1, 5), "2013-01-01 05:00:00", "2013-01-01 05:00:00"),
        (datetime(2013, 1, 1, 5, 0, 0, 250_000), "2013-01-01 05:00:00.25", "2013-01-01 05:00:00.25"),
        (
            datetime(2013, 1, 1, 5, tzinfo=timezone(timedelta(hours=-5))),
            "2013-01-01 10:00:00+00:00",
            "2013-01-01 10:00:00+00:00",
        ),
        (date(2013, 1, 1), "2013-01-01", "2013-01-01"),
        (b"\x00\xff", "00ff", "00ff"),
        (Row((1, None)), "{a: 1, b: NULL}", {"a": 1, "b": None}),
        ({"k": Decimal(1)}, "{k: 1}", {"k": "1"}),
        ([1, None], "[1, NULL]", [1, None]),
        ("two\nlines \x1b[31m", "two\\nlines \\x1b[31m", "two\nlines \x1b[31m"),
    ],
)
def test_values(value: object, text: str, json_value: object) -> None:
    assert show(value) == text
    assert to_json(value) == json_value
    json.dumps(to_json(value))


@pytest.fixture
def new_york() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("new_york")
def test_timestamptz_is_shown_in_utc_whatever_this_machine_s_time_zone_is() -> None:
    assert show(datetime(2013, 1, 1, 5), "timestamp") == "2013-01-01 10:00:00+00:00"
    assert show(datetime(2013, 1, 1, 5), "timestamp_ntz") == "2013-01-01 05:00:00"
    assert show(datetime(2013, 1, 1, 5, tzinfo=UTC), "timestamp") == "2013-01-01 05:00:00+00:00"


ROWS = [("EWR", 12, None), ("JFK", 1234, 0.5)]


def test_numbers_stand_right_and_null_is_null() -> None:
    assert draw(Table(["origin", "departures", "delay"], ROWS)) == (
        "origin  departures  delay\n"
        "──────  ──────────  ─────\n"
        "EWR             12   NULL\n"
        "JFK           1234    0.5\n"
        "(2 rows)"
    )


def test_wide_cells_are_cut_to_the_terminal() -> None:
    text = draw(Table(["a", "raw"], [(1, "x" * 100)], unit=None), width=30)
    assert text.splitlines()[2] == "1  " + "x" * 26 + "…"
    assert max(len(line) for line in text.splitlines()) == 30


def test_no_cut_without_a_width() -> None:
    assert "x" * 500 in draw(Table(["raw"], [("x" * 500,)]))


def test_too_many_columns_become_blocks() -> None:
    text = draw(Table([f"column_{i}" for i in range(9)], [tuple(range(9))], unit=None), width=40)
    assert text.splitlines()[:2] == ["── row 1 ──", "column_0  0"]


def test_columns_that_do_not_fit_can_be_hidden_instead_and_are_counted() -> None:
    names, rows = [f"column_{i}" for i in range(9)], [tuple(range(9))]
    lines = draw(Table(names, rows, layout="grid"), width=40).splitlines()
    assert lines[0] == "column_0  column_1  column_2  column_3"
    assert lines[-1] == "(1 row; 5 of 9 columns are hidden: \\x shows them)"
    assert draw(Table(names, rows, unit=None, layout="grid"), width=5).splitlines()[-1].startswith("(8 of 9")
    # What fits is the same in any case, and blocks are blocks.
    assert draw(Table(["a"], [(1,)], layout="grid"), width=40) == draw(Table(["a"], [(1,)]))
    assert draw(Table(["a"], [(1,)], layout="blocks")) == "── row 1 ──\na  1\n(1 row)"


def test_wide_characters_keep_columns_straight() -> None:
    lines = draw(Table(["city", "n"], [("東京", 1), ("Roma", 2)], unit=None)).splitlines()
    assert lines[2:] == ["東京  1", "Roma  2"]


def test_an_empty_table_says_so() -> None:
    assert draw(Table(["a"], [])) == "a\n─\n(0 rows)"


RUN = [
    events.RunStarted(("flights", "hourly")),
    events.SourceStarted("flights", 100, 2),
    events.DefinitionChanged("flights", 1, 'column "x" INT is added'),
    events.BatchCommitted("flights", 1, 58, 1, 1, 60, "2013-01-01 05:00:00", 2.0),
    events.BatchCommitted("flights", 2, 40, 0, 0, 100, "2013-01-02 05:00:00", 2.0),
    events.SourceFinished("flights", 98, 1, 1, "2013-01-02 05:00:00", 2),
    events.SliceCommitted("hourly", "2013-01-02 05:00:00", 1300, 4, 1.25),
    events.ViewFinished("hourly", "2013-01-02 05:00:00", 1300, 0),
    events.RowsDelivered("out", ("k", "n"), (("a", "1"), (None, "2")), 3),
    events.SinkDelivered("out", "console", 5, 0.5),
    events.SinkDelivered("archive", "iceberg", 1, 0.5, 1),
    events.RunFinished(6.5),
    events.WorkerStarted("flights", ("flights", "hourly"), 7),
    events.TickFinished("flights", 1, 60, True, 1.5, 0.25),
    events.TickFinished("flights", 2, 1, False, 1.5, 0.25, ("hourly",)),
    events.MemberFailed("flights", "hourly", "view", "TG507", "Spark refuses", 2, 4.0),
    events.WorkHangs("flights", "hourly", "view", 301.0, "TG519", "it was broken off"),
    events.MemberRecovered("flights", "hourly", "view", 2),
    events.UpkeepFinished("flights", "hourly", ("hourly: 60 old snapshots",), 1.5),
    events.WorkerStopping("flights", "asked to", 2),
    events.WorkerFailed("flights", "TG506", "changed", "DROP it", False),
    events.WorkerFailed("flights", None, "boom", None, True),
    events.LiveStarted(("flights",), "http://127.0.0.1:9464"),
    events.LiveStarted(("flights",), None),
    events.LiveStandsBy(("flights",), "another process runs live mode", None),
    events.LiveStandsBy(("flights",), "another process runs live mode", "http://127.0.0.1:9464"),
    events.WorkerSpawned("flights", 7, 0),
    events.WorkerSpawned("flights", 8, 1),
    events.WorkerExited("flights", -9, 1.5, "worker 7 was killed by SIGKILL"),
    events.WorkerExited("flights", 2, None, "given up: TG506 changed"),
    events.DefinitionsLoaded(("flights",), ("old",), 18),
    events.DefinitionsLoaded((), (), 1),
    events.DefinitionsRefused({"code": None, "message": "Oops"}),
    events.LiveStopped(0, 3.0),
    events.LiveStopped(2, 3.0, ("flights",)),
    events.MemberFailed("flights", "flights", "source", "TG505", "1.json has changed", 1, 0.0),
    events.StepFailed("hourly", "view", {"code": None, "message": "Oops"}),
    events.StepSkipped("daily", "view", "it reads hourly"),
    events.RunFinished(6.5, ("hourly",), ("daily",)),
]


DELIVERED = "out:\nk     n\n────  ─\na     1\nNULL  2\n… and 3 more"


def test_every_event_has_a_line() -> None:
    assert {type(e) for e in RUN} == set(events.Event.__subclasses__())
    assert [describe_event(e) for e in RUN] == [
        "run: flights, hourly",
        "flights: reading, 2 files with 100 rows waiting",
        'flights: changed in place as batch 1: column "x" INT is added',
        "flights: batch 1 committed, 58 on time, 1 late, 1 rejected; 60 rows in the log, "
        "watermark 2013-01-01 05:00:00 (2.0 s, 30 rows/s)",
        "flights: batch 2 committed, 40 on time, 0 late, 0 rejected; 100 rows in the log, "
        "watermark 2013-01-02 05:00:00 (2.0 s, 20 rows/s)",
        "flights: up to date, 100 rows = 98 on time, 1 late, 1 rejected; watermark 2013-01-02 05:00:00",
        "hourly: 1,300 final rows, 4 rows of open windows, final up to 2013-01-02 05:00:00 (1.2 s)",
        "hourly: up to date, 1,300 final rows, final up to 2013-01-02 05:00:00",
        DELIVERED,
        "out: 5 rows delivered, connector console (0.5 s)",
        "archive: 1 row delivered, 1 amended window again, connector iceberg (0.5 s)",
        "run: finished in 6.5 s",
        "flights: worker 7 keeps flights, hourly up to date",
        "flights: tick 1, 60 rows, more rows wait (1.5 s)",
        "flights: tick 2, 1 row, no rows wait (1.5 s); failing: hourly",
        "hourly: view failed, next try in 4 s (try 3): TG507: Spark refuses",
        "hourly: view hangs (301 s): TG519: it was broken off",
        "hourly: works again after 2 failures",
        "hourly: upkeep (1.5 s): hourly: 60 old snapshots",
        "flights: worker stops after 2 ticks: asked to",
        "flights: worker failed: TG506: changed; hint: DROP it",
        "flights: worker failed: boom",
        "live: flights; health and metrics on http://127.0.0.1:9464",
        "live: flights",
        "live: stands by for flights: another process runs live mode",
        "live: stands by for flights; http://127.0.0.1:9464/healthz: another process runs live mode",
        "flights: worker 7 starts",
        "flights: worker 8 starts (restart 1)",
        "flights: worker 7 was killed by SIGKILL; the next one starts in 1.5 s",
        "flights: given up: TG506 changed",
        "live: the new definitions are taken up: flights begins with them after its commit; old ends; 18 groups "
        "unchanged",
        "live: the new definitions are taken up: 1 group unchanged",
        "live: the definitions have changed and are not taken up; all groups continue with the earlier ones: error: "
        "Oops",
        "live: stopped after 3.0 s",
        "live: stopped after 3.0 s; given up: flights",
        "flights: source continues without the inputs that failed: TG505: 1.json has changed",
        "hourly: view failed: error: Oops",
        "daily: view skipped: it reads hourly",
        "run: finished in 6.5 s; failed: hourly; skipped: daily",
    ]


def test_every_event_comes_back_from_json() -> None:
    for event in RUN:
        assert events.event_of(json.loads(json.dumps(event.to_dict()))) == event
    assert events.event_of({"event": "of_another_version"}) is None
    assert events.event_of({"event": "run_finished"}) is None


ERROR = TidegateError("TG1", "wrong", hint="do", location=Location("a.sql", 1, 3, 2, "x yy"))


def drive(console: Console) -> None:
    for event in RUN:
        console.event(event)
    console.table(Table(["a"], [(1,)]))
    console.document({"b": 2}, "two [bold]")
    console.note("beside")
    console.error(ERROR)
    console.close()


def test_lines_console() -> None:
    out, err = io.StringIO(), io.StringIO()
    drive(LinesConsole(out, err))
    lines = [line for event in RUN for line in describe_event(event).splitlines()]
    assert out.getvalue().splitlines() == [*lines, "a", "─", "1", "(1 row)", "two [bold]"]
    assert err.getvalue() == f"beside\n{ERROR}\n"


def test_json_console_prints_only_objects() -> None:
    out = io.StringIO()
    drive(JsonConsole(out))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[0] == {"event": "run_started", "names": ["flights", "hourly"]}
    assert [line["event"] for line in lines[2:4]] == ["definition_changed", "batch_committed"]
    assert lines[-3:] == [{"a": 1}, {"b": 2}, {"error": ERROR.to_dict()}]


def test_json_of_columns_with_the_same_name_loses_none() -> None:
    out = io.StringIO()
    JsonConsole(out).table(Table(["a", "a", "a"], [(1, 2, 3)]))
    assert json.loads(out.getvalue()) == {"a": 1, "a_2": 2, "a_3": 3}


def test_capture_console() -> None:
    console = CaptureConsole()
    drive(console)
    assert console.events == RUN
    assert console.tables == [(("a",), [(1,)])]
    assert (console.documents, console.notes) == ([({"b": 2}, "two [bold]")], ["beside"])
    assert console.errors == [ERROR]
    assert console.closed


def test_terminal_console_draws_a_bar_per_source_and_ends_with_lines() -> None:
    out, err = io.StringIO(), io.StringIO()
    drive(TerminalConsole(out, err, width=200))
    assert out.getvalue() == f"{DELIVERED}\na\n─\n1\n(1 row)\ntwo [bold]\n"
    shown = err.getvalue()
    assert "100 rows  25 rows/s  watermark 2013-01-02 05:00:00" in shown
    assert "flights: up to date, 100 rows = 98 on time, 1 late, 1 rejected" in shown
    assert "error TG1: wrong" in shown


def test_terminal_console_after_an_interrupt_leaves_no_display() -> None:
    err = io.StringIO()
    console = TerminalConsole(io.StringIO(), err, width=200)
    for event in RUN[:3]:
        console.event(event)
    console.close()
    console.error("interrupted")
    assert err.getvalue().rstrip().endswith("interrupted\x1b[0m")
