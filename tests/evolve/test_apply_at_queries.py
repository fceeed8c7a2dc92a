"""E5: `apply --at` of queries of every kind, at times at which no window of theirs ends."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply_at import waiting
from tests.views.test_version_lives import view_of
from tidegate.plan.versions import kept_versions
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.views.versions.build import VersionBuild

pytestmark = pytest.mark.runner("inprocess")

TABLE = "CREATE TABLE t (k VARCHAR, n INT, ts {kind}, WATERMARK FOR ts AS ts) APPEND ONLY;"
EMIT = " EMIT ON WINDOW CLOSE;"
#: With two versions of each: of the second one, x is greater by 1000.
QUERIES = {
    "tumble": "SELECT window_end, count(*) + {plus} AS x FROM TUMBLE(t, ts, INTERVAL '1 hour') GROUP BY window_end",
    "hop": "SELECT window_end, count(*) + {plus} AS x FROM HOP(t, ts, INTERVAL '20 minutes', INTERVAL '1 hour') "
    "GROUP BY window_end",
    "session": "SELECT window_end, count(*) + {plus} AS x FROM SESSION(t, ts, INTERVAL '15 minutes') "
    "GROUP BY window_start, window_end",
    "sorted": "SELECT ts AS window_end, n + {plus} AS x FROM t",
    "over": "SELECT ts AS window_end, sum(n) OVER (PARTITION BY k ORDER BY ts) + {plus} AS x FROM t",
}
AT = "2026-01-01 03:30:00"


def opened(workbench: Workbench, query: str, plus: int, kind: str) -> Session:
    view = f"CREATE MATERIALIZED VIEW v AS {QUERIES[query].format(plus=plus)}{EMIT}"
    workbench.assets(t=TABLE.format(kind=kind), v=view)
    return workbench.session()


def shown(session: Session) -> list[tuple[datetime, int]]:
    found: list[Any] = session.table("v").collect()
    return sorted((row[0].replace(tzinfo=None), row[1]) for row in found)


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.parametrize("query", sorted(QUERIES))
def test_E5_what_ends_up_to_the_time_is_of_the_earlier_version(
    workbench: Workbench, query: str, kind: str
) -> None:
    changes_at_the_time(workbench, query, kind)


@pytest.mark.runner("spark")
def test_E5_on_spark_what_ends_up_to_the_time_is_of_the_earlier_version(workbench: Workbench) -> None:
    changes_at_the_time(workbench, "hop", "TIMESTAMP")


def changes_at_the_time(workbench: Workbench, query: str, kind: str) -> None:
    session = opened(workbench, query, 0, kind)
    session.execute(
        "INSERT INTO t VALUES "
        + ", ".join(
            f"('a', {i}, {kind} '2026-01-01 {i // 3:02}:{20 * (i % 3):02}:00')"
            for i in range(15)
            if i not in (7, 9)
        )
    )
    # Without a view that has seen a part of it: everything at once is beyond the time.
    everything = opened(workbench, query, 0, kind)
    everything.execute(f"CREATE MATERIALIZED VIEW e AS {QUERIES[query].format(plus=0)}{EMIT}")
    everything.run(["e"])
    whole = sorted((row[0].replace(tzinfo=None), row[1]) for row in everything.table("e").collect())
    time = datetime.fromisoformat(AT)
    first = opened(workbench, query, 0, kind)
    first.view_table(view_of(first, "v")).tick(view_of(first, "v").kind.parse("2026-01-01 03:10:00"))
    session = opened(workbench, query, 1000, kind)
    assert waiting(session) == []
    apply(session, at=AT)
    assert shown(session) == [(end, x + 1000) for end, x in whole if end <= time]
    (kept,) = kept_versions(session.tables.open(session.identifier("v")).properties())
    assert kept.frontier.removesuffix("+00:00") == AT
    earlier = session.tables.rows(
        session.identifier("v"), session.tables.open(session.identifier("v")).at("generation_1").id
    )
    old = earlier.where("NOT _open").select("window_end", "x").collect()
    assert sorted((row[0].replace(tzinfo=None), row[1]) for row in old) == [
        one for one in whole if one[0] <= time
    ]
    session.run()
    assert shown(session) == [(end, x + 1000) for end, x in whole]


def test_E5_a_version_takes_its_place_only_where_the_current_one_stands_at_the_time(
    workbench: Workbench,
) -> None:
    old = opened(workbench, "tumble", 0, "TIMESTAMP")
    old.execute("INSERT INTO t VALUES ('a', 1, '2026-01-01 00:10:00'), ('a', 1, '2026-01-01 02:10:00')")
    old.run()
    old.execute("INSERT INTO t VALUES ('a', 1, '2026-01-01 06:10:00')")
    session = opened(workbench, "tumble", 1000, "TIMESTAMP")
    view = view_of(session, "v")
    version = VersionBuild(session, view, at=view.kind.parse(AT))
    while version.advance():
        pass
    # It is further than the current one, of which results up to the time are missing.
    assert view.kind.format(version.frontier()) == AT
    assert not version.swapped()
    old.view_table(view_of(old, "v")).tick(view.kind.parse("2026-01-01 05:00:00"))
    # Nor where the current one is beyond it.
    assert not version.swapped()
    assert [x for _, x in shown(session)] == [1, 1]
