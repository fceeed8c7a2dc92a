"""`tidegate plan`: what becomes of every definition (E1), from stored metadata alone."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.evolve.test_apply import BY_SHOP, opened
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.evolve.planning import PlannedChange, planned
from tidegate.evolve.seen_by import readers_see, sinks_see
from tidegate.maintenance.upkeep import maintain
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.sql.options.in_place import changed_options

OLD_UNTIL_NEW = (
    "readers see the old rows until the new version has reached them, then the new ones, all at once; the old ones "
    'stay readable as "per_minute$v1"'
)
pytestmark = pytest.mark.runner("inprocess")

OVER_IT = """
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, sum(most) AS most FROM TUMBLE(largest, window_end,
INTERVAL '1 hour') GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK out FROM largest WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""
LARGEST = BY_SHOP.replace("per_minute", "largest").replace("sum(amount) AS total", "max(x) AS most")


def effects(session: Session) -> dict[str, tuple[str, str]]:
    return {one.name: (one.effect, "; ".join(one.what)) for one in objects(session)}


def objects(session: Session) -> list[PlannedChange]:
    return planned(session.project, session.project.catalog())


def call(monkeypatch: pytest.MonkeyPatch, session: Session, *arguments: str) -> Any:
    monkeypatch.setattr(Invocation, "project", lambda self: session.project)
    return CliRunner().invoke(app, ["plan", *arguments])


def test_E1_a_plan_says_per_object_what_a_run_makes_of_it(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = BY_SHOP + LARGEST + OVER_IT
    session = opened(workbench, "shop VARCHAR, amount INT, x INT", views)
    assert {effect for effect, _ in effects(session).values()} == {"new"}
    assert call(monkeypatch, session).exit_code == 2
    session.execute(
        "INSERT INTO orders VALUES ('a', 1, 5, '2026-01-01 12:00:01'), ('a', 1, 6, '2026-01-01 12:05:00')"
    )
    session.run()
    assert {effect for effect, _ in effects(session).values()} == {"unchanged"}
    done = call(monkeypatch, session)
    assert (done.exit_code, done.stdout) == (0, "nothing to do: 5 unchanged\n")
    # A column that one view names is widened, another one comes: this view is a new version, and so is what reads it.
    session = opened(workbench, "shop VARCHAR, amount INT, x BIGINT, note VARCHAR", views)
    text = 'column "x" is widened from INT to BIGINT; column "note" VARCHAR is added'
    before = effects(session)
    assert before == {
        "orders": ("in place", text),
        "per_minute": ("unchanged", ""),
        "largest": (
            "new version",
            'its results are of before a change: of "orders", which it reads, column "x" is widened from INT to '
            "BIGINT; until then, its current version continues with the columns of before",
        ),
        "hourly": ("new version", "it reads largest, which is a new version"),
        "out": ("refused", 'it has delivered rows of "largest", whose results are replaced (TG542)'),
    }
    (largest,) = [one for one in objects(session) if one.name == "largest"]
    assert (largest.rows, largest.readers, largest.command) == (
        2,
        ("hourly", "out"),
        "tidegate apply largest",
    )
    assert (largest.bytes or 0) > 0
    # What it says is what happens.
    failed = session.run(fail_fast=False)
    assert [one.name for one in failed.failed] == ["largest"]
    after = effects(session)
    assert (after["orders"], after["per_minute"], after["largest"][0]) == (("unchanged", ""),) * 2 + (
        "new version",
    )
    done = call(monkeypatch, session, "--json")
    found = {one["name"]: one["effect"] for one in json.loads(done.stdout)["objects"]}
    assert (done.exit_code, found["hourly"], found["out"]) == (1, "new version", "refused")
    drawn = call(monkeypatch, session, "largest").stdout
    assert "largest (view): new version" in drawn
    assert "reads 2 stored rows" in drawn
    assert "→ tidegate apply largest" in drawn
    # What reads it is a part of that, and so is the sink that refuses.
    assert call(monkeypatch, session, "largest").exit_code == 1
    assert [name in drawn for name in ("hourly (view)", "out (sink)", "per_minute")] == [True, True, False]
    with pytest.raises(TidegateError, match="out: it has delivered rows of") as caught:
        apply(session, ["largest"])
    assert caught.value.code == "TG534"
    markdown = call(monkeypatch, session, "--markdown").stdout.splitlines()
    assert markdown[0].startswith("| name | kind | effect |")
    assert len(markdown) == 2 + 5


def test_E1_a_plan_counts_what_there_is_and_says_what_is_seen(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = "CREATE SINK out FROM per_minute WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"
    days = ", ".join(f"('a', 1, '2026-01-0{day} 12:00:01')" for day in range(1, 7))
    session = opened(workbench, "shop VARCHAR, amount INT", BY_SHOP + sink)
    session.execute(f"INSERT INTO orders VALUES {days}")
    session.run()
    assert maintain(session, "orders", Policy(retention=86_400, keep_snapshots=0, settle=0)).tables[0].retired
    views = BY_SHOP.replace("sum(amount)", "sum(amount + 1)") + sink
    session = opened(workbench, "shop VARCHAR, amount INT", views)
    left = session.execute("SELECT count(*) FROM orders").rows()[0][0]
    (view,) = [one for one in objects(session) if one.kind == "view"]
    assert (view.effect, view.rows) == ("new version", left)
    assert left < 6
    # From its own history, and what is seen of it.
    drawn = call(monkeypatch, session, "per_minute").stdout
    assert " s at the pace of its largest tick\n" in drawn
    assert f"  {OLD_UNTIL_NEW}\n  out: it has delivered rows of" in drawn
    (said, *_) = json.loads(call(monkeypatch, session, "per_minute", "--json").stdout)["objects"]
    assert (said["readers_see"], said["seconds"] > 0) == (OLD_UNTIL_NEW, True)
    assert f"| {OLD_UNTIL_NEW}; out: it has" in call(monkeypatch, session, "--markdown").stdout


def test_E5_E6_a_plan_says_what_readers_and_sinks_see() -> None:
    assert readers_see("v", "view", "unchanged", 1) is None
    assert '"v$v3"' in (readers_see("v", "view", "new version", 3) or "")
    assert readers_see("v", "view", "in place", 1) == "readers see the current version continue"
    assert sinks_see("new version", {"a": ("it waits",), "b": ()}) == (
        "a: it waits; b: it has delivered nothing yet, and begins with the new version"
    )
    assert sinks_see("in place", {"a": ()}) == "a: what was delivered stands, and the next rows follow"
    assert sinks_see("refused", {}) is None


def test_E1_a_plan_changes_nothing_and_names_what_is_refused(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(workbench, "shop VARCHAR, amount INT, x INT")
    session.execute("INSERT INTO orders VALUES ('a', 1, 5, '2026-01-01 12:00:01')")
    stood = session.tables.open(session.identifier("orders")).current()
    session = opened(workbench, "shop VARCHAR, amount INT, y INT")
    effect, why = effects(session)["orders"]
    assert (effect, "y INT RENAMED FROM x" in why) == ("refused", True)
    assert call(monkeypatch, session).exit_code == 1
    assert session.tables.open(session.identifier("orders")).current() == stood
    # A file that can't be read is no change: 2 would say that there is one.
    workbench.assets(orders="CREATE TABLE orders (")
    session.project.__dict__.pop("_catalog", None)
    assert CliRunner().invoke(app, ["plan", "--project", str(workbench.root)]).exit_code in (1,)


def test_E1_a_view_whose_query_has_changed_is_not_brought_along_by_who_reads_it(workbench: Workbench) -> None:
    """Its sink delivers another version because of the query, and not because of what both stand on."""
    sink = OVER_IT.replace("path = 'out'", "path = 'out', on_change = 'replay'")
    session = opened(workbench, "shop VARCHAR, amount INT, x INT", BY_SHOP + LARGEST + sink)
    session.execute(
        "INSERT INTO orders VALUES ('a', 1, 5, '2026-01-01 12:00:01'), ('a', 1, 6, '2026-01-01 15:05:00')"
    )
    session.run()
    session = opened(
        workbench, "shop VARCHAR, amount BIGINT, x INT", BY_SHOP + LARGEST.replace("max(x)", "min(x)") + sink
    )

    def changed(*names: str) -> set[str]:
        found = planned(session.project, session.project.catalog(), names)
        return {one.name for one in found if one.effect != "unchanged"}

    assert changed("orders") == changed("per_minute") == {"orders", "per_minute"}
    assert changed("largest") == changed("out") == {"orders", "per_minute", "largest", "hourly", "out"}


def test_W13_another_strategy_is_in_place(workbench: Workbench) -> None:
    session = opened(workbench, "shop VARCHAR, amount INT")
    session.execute("INSERT INTO orders VALUES ('a', 1, '2026-01-01 12:00:01')")
    session.run()
    text = (workbench.root / "assets" / "orders.sql").read_text().replace("10 seconds", "20 seconds")
    workbench.assets(orders=text)
    effect, what = effects(workbench.session())["orders"]
    assert (effect, what) == (
        "in place",
        "from the next row on, the watermark is ts - INTERVAL '20 seconds' (W13)",
    )


SOURCE = """CREATE SOURCE s (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'filesystem', path = 'in'{})
FORMAT PLAIN ENCODE PARQUET;
CREATE MATERIALIZED VIEW v AS SELECT ts, k FROM s EMIT ON WINDOW CLOSE;
CREATE SINK out FROM v WITH (connector = 'filesystem', path = 'out'{}) FORMAT PLAIN ENCODE {};
"""


def test_E1_options_that_change_in_place_are_in_the_plan_until_they_are_in_force(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def batch(number: int) -> None:
        at = datetime(2026, 1, 1, 12, number)
        (workbench.root / "in").mkdir(exist_ok=True)
        pq.write_table(pa.table({"k": [number], "ts": [at]}), workbench.root / "in" / f"{number}.parquet")

    batch(1)
    session = workbench.assets(s=SOURCE.format("", "", "JSON")).session()
    session.run()
    assert {effect for effect, _ in effects(session).values()} == {"unchanged"}
    given = (", schema.evolution = 'add', max_files_per_batch = 7", ", on_change = 'replay'", "CSV")
    session = workbench.assets(s=SOURCE.format(*given)).session()
    others = "these options are other ones"
    assert effects(session) == {
        "s": ("in place", f"from the next batch on, {others}: max_files_per_batch, schema.evolution"),
        "v": ("unchanged", ""),
        "out": ("in place", f"from the next delivery on, {others}: FORMAT, on_change"),
    }
    assert call(monkeypatch, session).exit_code == 2
    batch(2)
    session.run()
    assert {effect for effect, _ in effects(session).values()} == {"unchanged"}
    # Defaults that are written are none, and what a release before has committed says nothing.
    session = workbench.assets(
        s=SOURCE.format(*given).replace("'replay')", "'replay', amendments = 'ignore')")
    ).session()
    assert effects(session)["out"] == ("unchanged", "")
    assert changed_options(None, {"a": "1"}) == []


def test_E1_a_plan_names_tables_whose_definitions_are_gone(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(workbench, "shop VARCHAR, amount INT")
    session.execute(
        "INSERT INTO orders VALUES ('a', 1, '2026-01-01 12:00:01'), ('a', 1, '2026-01-02 12:00:01')"
    )
    session.run()
    workbench.assets(view="")
    session = workbench.session()
    done = call(monkeypatch, session)
    assert done.exit_code == 2
    assert "per_minute (view): removed\n  removed from the files: its table stays until DROP" in done.stdout
    # Whoever asks for a part of the plan asks for what is defined.
    assert call(monkeypatch, session, "orders").exit_code == 0
    session = opened(workbench, "shop VARCHAR, amount INT")
    assert call(monkeypatch, session).exit_code == 0
