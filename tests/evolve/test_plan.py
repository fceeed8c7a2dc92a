"""`tidegate plan`: what becomes of every definition (E1), from stored metadata alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.evolve.test_apply import BY_SHOP, opened
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.evolve.planning import PlannedChange, planned
from tidegate.session.apply import apply
from tidegate.session.session import Session

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
            'its results are of before a change: of "orders", which it reads, column "x" is widened from INT to BIGINT',
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
