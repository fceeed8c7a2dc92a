"""One failure leaves alone what does not depend on it (`run`, live mode), and is told with what was not done."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tests.session.test_live import live, rows
from tidegate.errors import TidegateError
from tidegate.plan import events
from tidegate.plan.events import Event
from tidegate.runtime.result import RunReport

pytestmark = pytest.mark.runner("inprocess")


def source(name: str) -> str:
    return f"""CREATE SOURCE {name} (page VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH (connector = 'filesystem', path = 'in/{name}') FORMAT PLAIN ENCODE JSON;
"""


def view(name: str, of: str, time: str = "ts", minutes: int = 1, what: str = "count(*)") -> str:
    return f"""CREATE MATERIALIZED VIEW {name} AS SELECT window_start, window_end, {what} AS n
FROM TUMBLE({of}, {time}, INTERVAL '{minutes} minutes') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""


def sink(name: str, of: str) -> str:
    return f"""CREATE SINK {name} FROM {of} WITH (connector = 'filesystem', path = 'out/{name}')
FORMAT PLAIN ENCODE JSON;
"""


def told(report: RunReport) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    failed = [(one.name, one.kind, one.error["code"]) for one in report.failed]
    return failed, [(one.name, one.why) for one in report.skipped]


def break_some(workbench: Workbench) -> None:
    """Four sources with views and sinks that have run, of which some can't go on."""
    workbench.assets(
        a=source("a") + view("va", "a") + view("vva", "va", "window_end", 5) + sink("sa", "va"),
        b=source("b") + view("vb", "b") + sink("sb", "vb"),
        c=source("c") + view("vc", "c") + sink("sc", "vc"),
        d=source("d"),
    )
    for name in ("a", "b", "c", "d"):
        workbench.json_lines(f"in/{name}/1.json", rows("12:00:10", "12:01:30"))
    workbench.session().run()

    # A query that has changed, with a view and a sink that read it; a file that has; an input that is gone; and a new
    # view that Spark refuses, with one that reads it.
    workbench.assets(
        a=source("a") + view("va", "a", minutes=2) + view("vva", "va", "window_end", 5) + sink("sa", "va")
    )
    workbench.assets(e=view("ve", "c", what="sum(map(page, 1))") + view("vve", "ve", "window_end", 5))
    workbench.json_lines("in/b/1.json", rows("12:00:10"))
    for name in ("a", "b", "c"):
        workbench.json_lines(f"in/{name}/2.json", rows("12:02:10"))
    (workbench.root / "in" / "d").rename(workbench.root / "elsewhere")


def test_one_failure_leaves_alone_what_does_not_depend_on_it(workbench: Workbench) -> None:
    break_some(workbench)

    heard: list[Event] = []
    report = workbench.session().run(on_event=heard.append, fail_fast=False)
    failed, skipped = told(report)
    assert failed == [
        ("ve", "view", "TG507"),
        ("b", "source", "TG505"),
        ("d", "source", "TG503"),
        ("va", "view", "TG506"),
    ]
    assert skipped == [("vve", "it reads ve"), ("vva", "it reads va"), ("sa", "it reads va")]
    assert "1.json had" in report.failed[1].error["message"]
    assert report.failed[3].error["location"]["file"] == "assets/a.sql"
    # The new files of the source with the changed one are read, and what they close is delivered; so is all of c.
    done = {one.name: one.on_time for one in report.sources}
    assert done == {"a": 1, "b": 1, "c": 1, "d": 0}
    assert [(one.name, one.groups) for one in report.views] == [("vb", 1), ("vc", 1)]
    assert [(one.name, one.rows) for one in report.sinks] == [("sb", 1), ("sc", 1)]
    kinds = [
        (e.name, type(e).__name__) for e in heard if isinstance(e, events.StepFailed | events.StepSkipped)
    ]
    assert sorted(kinds) == sorted(
        [(name, "StepFailed") for name, *_ in failed] + [(name, "StepSkipped") for name, _ in skipped]
    )
    assert heard[-1] == events.RunFinished(report.seconds, ("ve", "b", "d", "va"), ("vve", "vva", "sa"))

    # FLUSH ends with an error, after all that can be done: the first failure, and what else there is to say.
    workbench.json_lines("in/c/3.json", rows("12:03:10"))
    session = workbench.session()
    session.run(["c"])
    with pytest.raises(TidegateError) as caught:
        session.execute("FLUSH")
    first, *lines = caught.value.message.splitlines()
    assert (caught.value.code, first) == ("TG506", report.failed[3].error["message"])
    assert [line.split(" (")[0] for line in lines[:-1]] == [
        "  failed    ve",
        "  failed    vve",
        "  skipped  vva",
        "  skipped  sa",
    ]
    assert lines[-1] == "  done      flushed 2 views: 1 row closed; sc: 1 delivered"
    # The other way, and what a program gets that does not ask: the first failure ends it all.
    with pytest.raises(TidegateError) as caught:
        workbench.session().run(["a", "b", "c", "va"])
    assert caught.value.code == "TG505"
    # In order again, everything goes on.
    workbench.assets(
        e="", a=source("a") + view("va", "a") + view("vva", "va", "window_end", 5) + sink("sa", "va")
    )
    workbench.json_lines("in/b/1.json", rows("12:00:10", "12:01:30"))
    (workbench.root / "elsewhere").rename(workbench.root / "in" / "d")
    report = workbench.session().run(fail_fast=False)
    assert told(report) == ([], [])
    assert {one.name: one.groups for one in report.views} == {"va": 1, "vva": 0, "vb": 0, "vc": 0}
    assert {one.name: one.rows for one in report.sinks} == {"sa": 1, "sb": 0, "sc": 0}


def test_live_goes_on_with_the_other_files_of_a_source_and_says_so_once(workbench: Workbench) -> None:
    workbench.assets(a=source("clicks").replace("in/clicks", "in"))
    with live(workbench) as bench:
        bench.drop("1", "12:00:10", "12:00:20")
        bench.tick()
        bench.drop("1", "12:00:10")
        bench.drop("2", "12:01:10")
        bench.tick()
        assert bench.kinds() == ["batch_committed", "member_failed", "tick_finished"]
        failed = bench.told[1]
        assert isinstance(failed, events.MemberFailed)
        assert (failed.code, failed.retry_seconds, bench.group.failing) == ("TG505", 0.0, ("clicks",))
        bench.drop("3", "12:02:10")
        bench.tick()
        assert bench.kinds() == ["batch_committed", "tick_finished"]
        bench.drop("1", "12:00:10", "12:00:20")
        bench.tick()
        assert (bench.kinds(), bench.group.failing) == (["member_recovered", "tick_finished"], ())
