"""New fields inside of STRUCTs of a log, and fields there that are widened (E1, E2, E3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tidegate.audit.source import audit_source
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.plan.columns.changes import holds, inside
from tidegate.plan.events import DefinitionChanged
from tidegate.views.amend.rebuild import rebuild

VIEW = """
CREATE MATERIALIZED VIEW per_minute AS SELECT window_end, shop, count(*) AS n, max(at.x) AS x
FROM TUMBLE(orders, ts, INTERVAL '1 minute') GROUP BY window_end, shop EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW shops AS SELECT window_end, count(*) AS n
FROM TUMBLE(orders, ts, INTERVAL '1 minute') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


def definition(columns: str) -> str:
    return (
        f"CREATE SOURCE orders ({columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') "
        "WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;"
    )


def source(workbench: Workbench, columns: str) -> Any:
    workbench.assets(orders=definition(columns), view=VIEW)
    return workbench.session()


@pytest.mark.runner("inprocess", "spark")
def test_E2_E3_structs_get_fields_and_rows_from_before_have_NULL_in_them(workbench: Workbench) -> None:
    workbench.json_lines(
        "in/1.json",
        [
            {"shop": "a", "at": {"x": 1}, "lines": [{"k": "p"}], "ts": "2026-01-01 12:00:01"},
            {"shop": "a", "at": None, "lines": [], "ts": "2026-01-01 12:00:02"},
        ],
    )
    source(workbench, "shop VARCHAR, at STRUCT<x INT>, lines STRUCT<k VARCHAR>[]").run()
    wider = "lines STRUCT<k VARCHAR, v INT>[], at STRUCT<x BIGINT, y STRUCT<z INT>>, shop VARCHAR"
    session = source(workbench, wider)
    plan = {one.name: one for one in planned(session.project, session.catalog)}
    assert plan["orders"].effect == "in place"
    assert (
        'column "at" is widened from STRUCT<x INT> to STRUCT<x BIGINT, y STRUCT<z INT>>'
        in plan["orders"].what[0]
    )
    # A view that does not name them goes on; the other one has results of before.
    assert (plan["shops"].effect, plan["per_minute"].effect) == ("unchanged", "new version")
    workbench.json_lines(
        "in/2.json",
        [
            {
                "shop": "b",
                "at": {"x": 2**40, "y": {"z": 3}},
                "lines": [{"k": "q", "v": 4}, None],
                "ts": "2026-01-01 12:02:00",
            }
        ],
    )
    told: list[Any] = []
    with pytest.raises(TidegateError, match="TG506"):
        session.run(on_event=told.append)
    assert [type(e) for e in told if isinstance(e, DefinitionChanged)] == [DefinitionChanged]
    rebuild(session, ["per_minute"])
    session.run()
    assert shown(session, "SELECT shop, at.x, at.y.z, lines FROM orders ORDER BY ts") == [
        ("a", 1, None, [("p", None)]),
        ("a", None, None, []),
        ("b", 2**40, 3, [("q", 4), None]),
    ]
    assert shown(session, "SELECT n, x FROM per_minute") == [(2, 1)]
    assert shown(session, "SELECT n FROM shops") == [(2,)]
    assert audit_source(session, "orders").ok


@pytest.mark.runner("inprocess")
def test_E3_a_view_goes_on_where_new_columns_and_fields_only_have_names_that_it_has(
    workbench: Workbench,
) -> None:
    rows = [{"shop": "a", "at": {"x": 1}, "ts": "2026-01-01 12:00:01"}]
    workbench.json_lines("in/1.json", rows)
    source(workbench, "shop VARCHAR, at STRUCT<x INT>").run()
    # `n` is a name that the views give themselves, `minute` a word, and `y` a field that none of them reads.
    session = source(workbench, "shop VARCHAR, at STRUCT<x INT, y INT>, n INT, minute INT")
    assert {one.name: one.effect for one in planned(session.project, session.catalog)} == {
        "orders": "in place",
        "per_minute": "unchanged",
        "shops": "unchanged",
    }
    workbench.json_lines("in/2.json", [{**rows[0], "at": {"x": 3, "y": 4}, "ts": "2026-01-01 12:02:00"}])
    session.run()
    assert shown(session, "SELECT n, x FROM per_minute") == [(1, 1)]


def test_E2_a_struct_is_renamed_and_gets_a_field_in_one_step(workbench: Workbench) -> None:
    workbench.json_lines("in/1.json", [{"shop": "a", "at": {"x": 1}, "ts": "2026-01-01 12:00:01"}])
    source(workbench, "shop VARCHAR, at STRUCT<x INT>").run()
    workbench.assets(view="")
    text = "shop VARCHAR, place STRUCT<x BIGINT, y STRUCT<z INT, w INT>> RENAMED FROM at"
    workbench.assets(orders=definition(text))
    session = workbench.session()
    session.run()
    assert shown(session, "SELECT place.x, place.y.w FROM orders") == [(1, None)]


@pytest.mark.runner("inprocess")
@pytest.mark.parametrize(
    "kind",
    [
        "STRUCT<y INT, x INT>",
        "STRUCT<y INT>",
        "STRUCT<x VARCHAR>",
        "STRUCT<x INT>[]",
        "INT",
        "MAP<VARCHAR, INT>",
    ],
)
def test_E3_a_struct_that_loses_or_moves_fields_is_another_column(workbench: Workbench, kind: str) -> None:
    workbench.json_lines("in/1.json", [{"shop": "a", "at": {"x": 1}, "ts": "2026-01-01 12:00:01"}])
    source(workbench, "shop VARCHAR, at STRUCT<x INT>").run()
    workbench.assets(orders=definition(f"shop VARCHAR, at {kind}"), view="")
    with pytest.raises(TidegateError, match="which can't hold all of it"):
        workbench.session().run()


@pytest.mark.runner("inprocess")
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("MAP<INT, INT>", "MAP<BIGINT, INT>"),
        ("MAP<STRUCT<a INT>, INT>", "MAP<STRUCT<a INT, b INT>, INT>"),
        ("STRUCT<m MAP<INT, INT>[]>", "STRUCT<m MAP<BIGINT, INT>[]>"),
    ],
)
def test_E1_E3_the_keys_of_a_map_are_not_changed_in_place(workbench: Workbench, was: str, now: str) -> None:
    table = "CREATE TABLE t (m {}, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
    session = workbench.assets(t=table.format(was)).session()
    session.execute("INSERT INTO t VALUES (NULL, '2026-01-01 12:00:00')")
    session = workbench.assets(t=table.format(now)).session()
    (plan,) = planned(session.project, session.catalog)
    assert (plan.effect, "the keys of a MAP can't be changed" in plan.what[0]) == ("refused", True)
    with pytest.raises(TidegateError, match="TG506"):
        session.execute("INSERT INTO t VALUES (NULL, '2026-01-01 12:00:01')")
    # Nothing was changed: with its earlier definition it goes on.
    session = workbench.assets(t=table.format(was)).session()
    session.execute("INSERT INTO t VALUES (NULL, '2026-01-01 12:00:01')")
    assert shown(session, "SELECT count(*) FROM t") == [(2,)]


@pytest.mark.runner("inprocess")
def test_E1_E3_a_statement_that_changes_the_keys_of_a_map_stores_nothing(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute("CREATE TABLE t (m MAP<INT, INT>, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY")
    session.execute("INSERT INTO t VALUES (NULL, '2026-01-01 12:00:00')")
    with pytest.raises(TidegateError, match=r"(?s)TG506.*keys of a MAP"):
        session.execute("ALTER TABLE t ALTER COLUMN m TYPE MAP<BIGINT, INT>")
    session.execute("ALTER TABLE t ALTER COLUMN m TYPE MAP<INT, BIGINT>")
    session = workbench.session()
    session.execute("INSERT INTO t VALUES (NULL, '2026-01-01 12:00:01')")
    assert shown(session, "SELECT count(*) FROM t") == [(2,)]


@pytest.mark.runner("inprocess")
def test_what_changes_inside_of_a_type() -> None:
    was, now = "map<string,array<struct<a:int>>>", "map<string,array<struct<a:bigint,b:struct<c:int>>>>"
    assert holds(was, now)
    assert not holds(now, was)
    assert not holds("map<int,int>", "map<bigint,int>")
    place = ("m", "value", "element")
    assert inside("m", was, now) == ([((*place, "a"), "bigint")], [((*place, "b"), "struct<c:int>")])
    assert inside("n", "int", "bigint") == ([(("n",), "bigint")], [])
    assert inside("n", was, was) == ([], [])
