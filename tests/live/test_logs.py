"""What is run together, and what is written about it."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from tests.live.made import STATUS
from tidegate.errors import TidegateError
from tidegate.live.groups import Group, find_groups
from tidegate.live.logs import DEBUG, FileLog, JsonLog
from tidegate.live.screen import Screen
from tidegate.plan import events
from tidegate.sql.statements.analysis import load_catalog

NOW = datetime(2026, 1, 1, 12, 0, 0, 250_000, UTC)
SOURCE = """CREATE SOURCE {name} (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;
"""
VIEW = """CREATE MATERIALIZED VIEW {name} AS SELECT window_start, count(*) AS n
FROM TUMBLE({of}, ts, INTERVAL '1 minute') GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
PROJECT = (
    SOURCE.format(name="a")
    + SOURCE.format(name="b")
    + VIEW.format(name="a_minutes", of="a")
    + VIEW.format(name="b_minutes", of="b")
    + "CREATE TABLE alone (k INT);"
    + "CREATE SINK a_out FROM a_minutes WITH (connector = 'console');"
)


def test_groups_are_families_that_have_something_to_do() -> None:
    catalog = load_catalog([("assets/all.sql", PROJECT)])
    a, b = Group("a", ("a", "a_minutes", "a_out")), Group("b", ("b", "b_minutes"))
    # A table alone gets its rows by INSERT: there is nothing to keep up to date.
    assert find_groups(catalog) == (a, b)
    assert find_groups(catalog, ["b_minutes"]) == (b,)
    assert find_groups(catalog, ["a_minutes"]) == (Group("a", ("a", "a_minutes")),)
    assert find_groups(catalog, ["a_out", "b"]) == (a, Group("b", ("b",)))
    assert find_groups(catalog, ["a$late"]) == (Group("a", ("a",)),)
    assert find_groups(catalog, ["alone"]) == ()
    with pytest.raises(TidegateError) as caught:
        find_groups(catalog, ["nobody"])
    assert caught.value.code == "TG201"


IDLE = events.TickFinished("a", 1, 0, False, 0.1, 0.0)
BUSY = events.TickFinished("a", 2, 5, False, 0.1, 0.0)


def test_a_record_says_when_how_bad_where_and_what() -> None:
    out = io.StringIO()
    log = JsonLog(out, now=lambda: NOW)
    log("a", IDLE)
    log("a", BUSY)
    log("a", events.MemberFailed("a", "a_minutes", "view", "TG507", "no", 1, 1.0))
    log("a", events.WorkerFailed("a", None, "boom", None, True))
    log("a", events.WorkerExited("a", 1, 2.0, "worker failed"))
    log("a", events.WorkerExited("a", 2, None, "given up"))
    log(None, events.LiveStopped(2, 3.0, ("a",)))
    log("a", "printed")
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(r["level"], r["group"], r["event"]) for r in records] == [
        ("info", "a", "tick_finished"),
        ("warning", "a", "member_failed"),
        ("error", "a", "worker_failed"),
        ("warning", "a", "worker_exited"),
        ("error", "a", "worker_exited"),
        ("info", None, "live_stopped"),
        ("info", "a", "worker_output"),
    ]
    assert records[0]["timestamp"] == "2026-01-01T12:00:00.250Z"
    assert (records[0]["rows"], records[-1]["text"]) == (5, "printed")


def test_everything_is_written_for_programs() -> None:
    out = io.StringIO()
    JsonLog(out, DEBUG)("a", IDLE)
    assert json.loads(out.getvalue())["level"] == "debug"


def test_a_name_that_is_not_utf8_is_written_as_its_bytes(tmp_path: Path) -> None:
    """A file's name, as Python has it, in an error's text."""
    event = events.MemberFailed("a", "a", "source", None, "can't read in/\udcff.json", 1, 1.0)
    with (tmp_path / "out").open("w", encoding="utf-8") as out:
        JsonLog(out)("a", event)
    log = FileLog(tmp_path / "log")
    log("a", event)
    log.close()
    for name in ("out", "log"):
        assert json.loads((tmp_path / name).read_text("utf-8"))["message"] == "can't read in/\udcff.json"
    with (tmp_path / "screen").open("w", encoding="utf-8") as out:
        screen = Screen(lambda: STATUS, lambda: {"groups": {}}, Console(file=out, width=160), seconds=60.0)
        screen("a", event)
        screen(None, "words of a process")
        screen("a", "words of a group")
    shown = (tmp_path / "screen").read_text("utf-8")
    assert "can't read in/\\udcff.json" in shown
    assert [line.split(" ", 1)[1] for line in shown.splitlines()[1:]] == [
        "words of a process",
        "a: words of a group",
    ]


def test_a_log_file_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "live.jsonl"
    log = FileLog(path, max_bytes=2_000, keep=2, now=lambda: NOW)
    for number in range(100):
        log("a", events.TickFinished("a", number, 5, False, 0.1, 0.0))
    log.close()
    assert sorted(p.name for p in path.parent.iterdir()) == ["live.jsonl", "live.jsonl.1", "live.jsonl.2"]
    assert all(p.stat().st_size <= 2_000 for p in path.parent.iterdir())
    assert json.loads(path.read_text().splitlines()[-1])["tick"] == 99


def test_of_a_hundred_groups_those_that_want_attention_are_seen_first() -> None:
    well = {
        "state": "running",
        "restarts": 0,
        "last_tick_age_seconds": 1.0,
        "failing": [],
        "last_error": None,
    }
    groups = {f"g{n:03}": dict(well) for n in range(100)}
    groups["g070"] |= {"state": "failed", "last_error": {"message": "no such folder"}}
    groups["g090"] |= {"failing": ["totals"]}
    clicks, view = STATUS.relations[0], STATUS.views[0]
    many = replace(
        STATUS,
        relations=tuple(
            replace(clicks, name=f"g{n:03}", broker_error="no answer" if n == 42 else None)
            for n in range(100)
        ),
        views=tuple(
            replace(view, name=f"v{n:03}", lost_totals=("n",) if n == 55 else ()) for n in range(100)
        ),
    )
    out = io.StringIO()
    console = Console(file=out, width=160, height=40, force_terminal=True, color_system=None)
    screen = Screen(lambda: many, lambda: {"groups": groups}, console, seconds=60.0)
    screen.start()
    screen.close()
    # (The last picture that was drawn.)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line).split() for line in out.getvalue().splitlines()]
    heads = {
        line[0]: n for n, line in enumerate(lines) if line[1:2] in (["partition"], ["final"], ["worker"])
    }
    assert len(lines) - heads["source"] <= 40
    assert lines[heads["source"] + 1][0] == "g042"
    assert lines[heads["view"] + 1][0] == "v055"
    groups_shown = lines[heads["group"] + 1 :]
    assert [line[0] for line in groups_shown[:3]] == ["g070", "g090", "g000"]
    assert groups_shown[0][-3:] == ["no", "such", "folder"]
    assert [line[0] for line in lines[heads["source"] :] if line[-1:] == ["more"]] == ["…"] * 3


def test_a_person_sees_partitions_views_and_workers_move() -> None:
    out = io.StringIO()
    console = Console(file=out, width=160, force_terminal=True, color_system=None)
    health = {
        "groups": {
            "clicks": {
                "state": "running",
                "restarts": 1,
                "last_tick_age_seconds": 1.2,
                "failing": ["per_minute"],
                "last_error": None,
            }
        }
    }
    screen = Screen(lambda: STATUS, lambda: health, console, seconds=60.0)
    screen.start()
    screen("clicks", events.BatchCommitted("clicks", 1, 50, 0, 0, 50, "", 0.5))
    screen("clicks", events.MemberFailed("clicks", "per_minute", "view", "TG507", "no", 1, 1.0))
    screen.close()
    shown = out.getvalue()
    assert "per_minute: view failed, next try in 1 s (try 2): TG507: no" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["clicks", "0", "warming", "(90", "of", "250)", "80", "9", "1", "10"] in lines
    assert ["clicks", "all", "100", "rows/s", "160", "18", "2"] in lines
    assert ["per_minute", "12", "0", "1", "minute"] in lines
    assert ["clicks", "running", "1", "1", "s", "ago", "per_minute"] in lines
