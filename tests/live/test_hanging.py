"""Work that hangs (`plan/hanging.py`): what the supervisor does, on a clock that the test moves; and a view whose
regular expression never ends for one value, in the real live mode."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.test_end_to_end import ASSET, Live
from tests.support.supervised import A, B, Bench, C
from tidegate.live.groups import Group
from tidegate.live.happenings import Redefined
from tidegate.plan import events

# Java's regular expressions try all ways to divide the text, of which there are more than can be tried.
NEVER_ENDS = "(.*a){25}b"
MATCHES = f"""
CREATE MATERIALIZED VIEW matches AS
SELECT window_start, window_end, count(*) AS n
FROM TUMBLE(clicks, ts, INTERVAL '1 minute') WHERE regexp_like(page, '{NEVER_ENDS}')
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;

CREATE SOURCE others (page VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH (connector = 'filesystem', path = 'others') FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW others_per_minute AS
SELECT window_start, window_end, count(*) AS n
FROM TUMBLE(others, ts, INTERVAL '1 minute') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""


def hangs(name: str, member: str, kind: str = "view") -> events.WorkHangs:
    return events.WorkHangs(name, member, kind, 301.0, "TG519", "it hangs")


def test_a_group_that_hangs_gets_a_process_of_its_own_when_the_others_have_left_the_old_one() -> None:
    bench = Bench(A, B, C, one_process=True)
    for name in "abc":
        bench.ticks(name)
    bench.shared = 8
    bench.hears("a", hangs("a", "a_hourly"))
    a, b, c = bench.workers
    assert bench.renewed == [100]
    assert (a.told, b.told, c.told) == ([], ["stop"], ["stop"])
    assert bench.supervisor.health()["groups"]["a"]["last_error"] == {"code": "TG519", "message": "it hangs"}
    # Another one of them hangs, too.
    bench.hears("c", hangs("c", "c", "group"))
    assert (a.told, c.told) == ([], ["stop"])
    bench.dies("b", 0)
    assert [worker.pid for worker in bench.workers[3:]] == [8]
    assert (a.told, c.told) == (["kill"], ["stop", "kill"])
    bench.process_dies(a=True, c=True)
    assert [(e.group, e.restart_seconds) for e in bench.exits()] == [("b", None), ("a", 1), ("c", None)]
    assert bench.exits()[1].why == "worker 100 was killed because the work of the group hung"
    # What it is restarted for stays what is said of it.
    assert bench.supervisor.health()["groups"]["a"]["last_error"]["code"] == "TG519"
    bench.passes(1)
    assert list(zip(bench.alone[3:], bench.hung[3:], strict=True)) == [
        (False, {}),
        (True, {"": 1}),
        (True, {"a_hourly": 1}),
    ]
    assert len({worker.pid for worker in bench.workers[3:]}) == 3


def test_few_groups_that_hang_get_processes_of_their_own_and_all_others_the_common_one_again() -> None:
    groups = [Group(name, (name,)) for name in "abcdefg"]
    bench = Bench(*groups, one_process=True)
    for one in groups:
        bench.ticks(one.name)
    bench.shared = 8
    for one in groups[:-1]:
        bench.hears(one.name, hangs(one.name, one.name))
    bench.dies("g", 0)
    bench.process_dies(**{one.name: True for one in groups[:-1]})
    bench.passes(1)
    watched = {one.group.name: one for one in bench.supervisor.schedule.watched}
    assert [name for name, one in watched.items() if one.alone] == list("abcd")
    assert {watched[name].pid for name in "efg"} == {8}
    assert {watched[name].hung for name in "ef"} == {(("e", 1),), (("f", 1),)}
    # In a process of its own a group stays there.
    bench.hears("a", hangs("a", "a"))
    bench.process_dies(a=True)
    bench.passes(8)
    assert bench.supervisor.schedule.of("a").alone
    # Definitions that change have not hung yet.
    bench.supervisor.redefine(lambda: Redefined(tuple(groups), frozenset("a")), lambda loaded: None)
    bench.supervisor.handle(*bench.supervisor._queue.get_nowait())
    bench.process_dies(a=True)
    assert (watched["a"].alone, bench.supervisor.schedule.of("a").alone) == (True, False)


@pytest.mark.parametrize("changed", [False, True])
def test_a_reload_while_others_make_room_keeps_what_is_known_of_a_group_that_stays_the_same(
    changed: bool,
) -> None:
    bench = Bench(A, B, C, one_process=True)
    for group in (B, C):
        bench.supervisor.schedule = bench.supervisor.schedule._with(
            replace(bench.supervisor.schedule.of(group.name), hung=(("x", 2),))
        )
    bench.hears("a", hangs("a", "a"))
    names = frozenset("b") if changed else frozenset()
    bench.supervisor.redefine(lambda: Redefined((A, B, C), names), lambda loaded: None)
    bench.supervisor.handle(*bench.supervisor._queue.get_nowait())
    bench.dies("b", 0)
    bench.dies("c", 0)
    assert bench.hung[3:] == [{} if changed else {"x": 2}, {"x": 2}]


def test_with_once_idle_a_group_that_was_only_slow_begins_again_and_one_that_hangs_thrice_is_given_up() -> (
    None
):
    bench = Bench(A, B, one_process=True, until_idle=True)
    bench.hears("a", hangs("a", "a_hourly"))
    bench.dies("a", 0)
    assert bench.state("a") == "backing_off"
    bench.passes(1)
    bench.hears("a", events.WorkerFailed("a", "TG519", "it hangs", None, True))
    bench.dies("a", 2)
    assert bench.state("a") == "failed"


def test_a_group_of_its_own_that_hangs_again_is_killed_alone_and_told_how_often_it_has_hung() -> None:
    bench = Bench(A, B, alone=["a"])
    bench.ticks("b")
    for times in (1, 2, 3):
        bench.ticks("a")
        bench.hears("a", hangs("a", "a_hourly"))
        assert bench.workers[-1 if times > 1 else 0].told == ["kill"]
        bench.process_dies(a=True)
        bench.passes(8)
        assert bench.hung[-1] == {"a_hourly": times}
    assert bench.workers[1].told == []
    bench.hears("a", events.MemberRecovered("a", "a_hourly", "view", 3))
    bench.hears("a", hangs("a", "a", "group"))
    bench.process_dies(a=True)
    bench.passes(8)
    assert bench.hung[-1] == {"": 1}
    bench.ticks("a")
    bench.hears("a", hangs("a", "a", "source"))
    bench.process_dies(a=True)
    bench.passes(8)
    assert bench.hung[-1] == {"a": 1}


def test_groups_that_do_not_leave_in_time_are_killed_with_the_one_that_hangs() -> None:
    bench = Bench(A, B, one_process=True, grace=30.0)
    bench.hears("a", hangs("a", "a"))
    bench.passes(29)
    assert bench.workers[0].told == []
    bench.passes(1)
    assert bench.workers[0].told == ["kill"]
    bench.process_dies(a=True, b=True)
    bench.passes(1)
    assert (bench.alone, bench.state("a"), bench.state("b")) == (
        [False, False, False, True],
        *["starting"] * 2,
    )


def test_a_group_that_hangs_while_all_are_to_end_has_its_grace() -> None:
    bench = Bench(A, B, one_process=True, grace=30.0)
    bench.supervisor.handle(None, ("stop", "asked to"))
    bench.hears("a", hangs("a", "a"))
    assert bench.renewed == []
    assert [worker.told for worker in bench.workers] == [["stop"], ["stop"]]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    root = tmp_path / "project"
    (root / "others").mkdir(parents=True)
    # (Where a view can be replaced while live mode writes it.)
    catalog = {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}
    found = Live(root, asset=ASSET + MATCHES, further=("--hangs-after=10s",), warehouse={"catalog": catalog})
    yield found
    if found.process.poll() is None:
        found.process.send_signal(signal.SIGTERM)
        found.process.wait(60)


def drop(live: Live, folder: str, name: str, *rows: tuple[str, str]) -> None:
    hidden = live.root / folder / f".{name}"
    lines = [json.dumps({"page": page, "ts": f"2026-01-01 {time}"}) for page, time in rows]
    hidden.write_text("\n".join(lines) + "\n")
    hidden.rename(live.root / folder / f"{name}.json")


def groups(live: Live, *views: str) -> list[int]:
    """How many rows each view has."""
    found = {one["name"]: one["groups"] for one in json.loads(live.get("/status"))["views"]}
    return [found[view] for view in views]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long_run
def test_R2_a_view_that_never_ends_moves_its_group_out_and_stops_nothing_else(live: Live) -> None:
    live.until("worker_started", 2)
    common = live.told("worker_spawned")[0]["pid"]
    drop(live, "others", "1", ("x", "12:00:10"), ("x", "12:01:10"))
    live.wait(lambda: len([e for e in live.told("slice_committed") if e["view"] == "others_per_minute"]) == 1)
    drop(live, "in", "1", ("a" * 60 + "!", "12:00:10"), ("b", "12:01:10"))
    hung = live.until("work_hangs")
    assert (hung["name"], hung["kind"], hung["code"]) == ("matches", "view", "TG519")
    # It is tried once at once, alone, with twice the time.
    again = live.until("work_hangs", 2)
    assert again["seconds"] >= 20
    spawned = {e["group"]: e["pid"] for e in live.told("worker_spawned")}
    assert len({common, *spawned.values()}) == 3
    with pytest.raises(ProcessLookupError):
        os.kill(common, 0)
    # Then it waits, and everything else goes on: rows of its source, the other view of its group, and the other group.
    waits = live.until("member_failed", 2)
    assert (waits["name"], waits["attempt"]) == ("matches", 2)
    assert waits["retry_seconds"] > 1000
    drop(live, "in", "2", ("b", "12:02:10"))
    drop(live, "others", "2", ("x", "12:02:10"))
    live.wait(lambda: groups(live, "per_minute", "others_per_minute", "matches") == [2, 2, 0])
    health = json.loads(live.get("/healthz"))
    assert (health["status"], health["groups"]["clicks"]["failing"]) == ("degraded", ["matches"])
    # A definition that ends is tried at once when it is taken up, in the common process.
    live.assets.write_text(live.assets.read_text().replace(NEVER_ENDS, "^a+!$"))
    apply = [sys.executable, "-m", "tidegate.cli.main", "apply", "matches", "--yes"]
    subprocess.run(apply, cwd=live.root, check=True, timeout=300)
    live.say("reload", "--json")
    live.wait(lambda: groups(live, "matches") == [1])
    spawned = {e["group"]: e["pid"] for e in live.told("worker_spawned")}
    assert spawned["clicks"] == spawned["others"]
    drop(live, "in", "3", ("aa!", "12:03:10"), ("b", "12:04:10"))
    live.wait(lambda: groups(live, "matches") == [2])
    assert live.told("work_hangs") == [hung, again]
