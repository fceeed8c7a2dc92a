"""Sums and averages of whole numbers and decimals are the same in every order of the rows (C7): in the SQL of a slice,
in panes, in sessions and over windows; and over views that an earlier release left go on."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tidegate.store import read_status
from tidegate.views.over_sql import Partial

if TYPE_CHECKING:
    from tidegate.session.session import Session

BIG = 2**63 - 1
NINES = int("9" * 36)
#: What is added up in every order, and whether it fits.
NUMBERS = [(BIG, BIG, -BIG), (BIG, 1, -1), (-BIG - 1, -1, 1), (BIG, 1, 0), (BIG, -BIG, 1), (5, None, -7)]
TABLE = """
CREATE TABLE t (ts TIMESTAMP, k VARCHAR, v BIGINT, d DECIMAL(38, 2),
  WATERMARK FOR ts AS ts - INTERVAL '{delay} seconds') APPEND ONLY;
"""
GROUPS = """
CREATE MATERIALIZED VIEW {name} AS SELECT window_end, k, sum(v) AS s, avg(v) AS a, {more}
FROM {window} {where} GROUP BY window_end, k EMIT ON WINDOW CLOSE;
"""
TUMBLE, SESSION = (
    "TUMBLE(t, ts, INTERVAL '1 hour')",
    "SESSION(t, ts, k, INTERVAL '1 hour')",
)
MORE = (
    "sum(coalesce(v, 0)) AS c, sum(v) FILTER (WHERE v > 0) AS f, sum(DISTINCT v) AS u, sum(d) AS d, "
    "avg(v) FILTER (WHERE v > 0) AS g, max(abs(d)) AS h, min(-d) AS e"
)


def fitting(values: list[int]) -> int | None:
    total = sum(values)
    return total if values and -(2**63) <= total < 2**63 else None


def mean(values: list[int]) -> float | None:
    return float(Fraction(sum(values), len(values))) if values else None


def orders() -> dict[str, tuple[int | None, ...]]:
    """A key for each order of each triple."""
    return {f"{i}-{j}": row for i, one in enumerate(NUMBERS) for j, row in enumerate(permutations(one))}


def insert(session: Session, cases: dict[str, tuple[int | None, ...]]) -> None:
    """A row for each number, in two batches; `d` is near the ends of 38 digits where `v` is at the ends of BIGINT."""
    decimals = {BIG: str(NINES), -BIG: str(-NINES)}
    rows = [
        f"(TIMESTAMP '2026-01-01 00:00:0{second}', '{key}', {literal(v)}, {decimals.get(v, 0)})"
        for key, values in cases.items()
        for second, v in enumerate(values)
    ]
    for some in (rows[0::2], rows[1::2]):
        session.execute(f"INSERT INTO t VALUES {', '.join(some)}")


def literal(v: int | None) -> str:
    return "NULL" if v is None else f"{v + 1} - 1" if v == -BIG - 1 else str(v)


def test_C7_sums_of_windows_do_not_depend_on_the_order_of_rows(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        TABLE.format(delay=60)
        + GROUPS.format(name="panes", window=TUMBLE, where="", more="count(*) AS n")
        + GROUPS.format(name="visits", window=SESSION, where="", more="count(*) AS n")
        + GROUPS.format(name="by_sql", window=TUMBLE, where="WHERE k || '' = k", more=MORE)
    )
    cases = orders()
    insert(session, cases)
    session.execute("INSERT INTO t VALUES (TIMESTAMP '2026-01-02 00:00:00', 'end', 1, 1)")
    session.run()
    sums: dict[str, dict] = {}
    for view in ("panes", "visits", "by_sql"):
        found = {row["k"]: row for row in session.table(view).collect()}
        assert found.keys() == cases.keys()
        for key, row in found.items():
            known = [v for v in cases[key] if v is not None]
            assert row["s"] == fitting(known), (view, cases[key])
            assert row["a"] == pytest.approx(mean(known), rel=1e-15), (view, cases[key])
        sums[view] = found
    for key, row in sums["by_sql"].items():
        known = [v for v in cases[key] if v is not None]
        above = [v for v in known if v > 0]
        assert (row["c"], row["f"], row["u"]) == (fitting(known), fitting(above), fitting([*set(known)]))
        assert row["g"] == pytest.approx(mean(above), rel=1e-15)
        # Spark's own - and abs() of more than 34 digits throw.
        if BIG in known:
            assert (row["h"], row["e"]) == (NINES, -NINES)
    # Counted once for each group, by whom it is computed notwithstanding: panes leave such a slice to SQL.
    lost = {v.name: v.lost_totals for v in read_status(session.project).views}
    assert lost["panes"] == lost["visits"] == sum(row["s"] is None for row in sums["panes"].values())
    by_sql = [any(row[c] is None for c in "scfud") for row in sums["by_sql"].values()]
    assert sum(by_sql) >= lost["by_sql"] > lost["panes"]
    by_case: dict[str, set] = {}
    for key, row in sums["by_sql"].items():
        by_case.setdefault(key.split("-")[0], set()).add(row["d"])
    # A DECIMAL sum whose way may lead beyond 38 digits is NULL, whatever the order; others are exact.
    assert all(len(found) == 1 for found in by_case.values())
    assert by_case["0"] == {None}
    assert by_case["4"] == {0}


OVER = """
CREATE MATERIALIZED VIEW running AS SELECT ts, k, v, sum(v) OVER w AS s, avg(v) OVER w AS a,
  sum(v) OVER (w ROWS 2 PRECEDING) AS last3
FROM t WINDOW w AS (PARTITION BY k ORDER BY ts) EMIT ON WINDOW CLOSE;
"""


def carried_before(partial: Partial, part: str) -> str:
    kind = "BIGINT" if partial.function == "sum" else "DOUBLE"
    return f"named_struct('c', {part}.`c`, 's', TRY_CAST({part}.`s` AS {kind}))"


@pytest.mark.runner("inprocess")
@pytest.mark.parametrize("earlier", [pytest.param(False, marks=pytest.mark.long_run), True])
def test_C7_running_sums_are_exact_however_they_are_cut(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    """`earlier`: the view's table was begun by a release whose carried sums were BIGINT."""
    session = workbench.session()
    session.execute(TABLE.format(delay=1) + OVER)
    values = [BIG, BIG, -BIG, 5, -BIG, 1]
    if earlier:
        with monkeypatch.context() as release:
            release.setattr(Partial, "carried", carried_before)
            session.execute(f"INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:00', 'a', {values[0]}, 1)")
            session.execute("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:05', 'b', 1, 1)")
            session.run()
        stored = session.tables.rows(session.identifier("running")).schema["_carried"].dataType
        assert stored["_over_s0"].dataType.names == ["c", "s"]
        session = workbench.session()
    for i, v in [*enumerate(values)][earlier:]:
        session.execute(f"INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:{10 * i:02}', 'a', {v}, 1)")
        session.run()
    session.execute("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 01:00:00', 'b', 1, 1)")
    session.run()
    found = {row["ts"]: row for row in session.table("running").where("k = 'a'").collect()}
    rows = [found[ts] for ts in sorted(found)]
    assert [row["v"] for row in rows] == values
    for i, row in enumerate(rows):
        so_far = values[: i + 1]
        assert row["s"] == fitting(so_far), i
        # The total that an average had before is a floating-point number for ever.
        assert earlier or row["a"] == pytest.approx(mean(so_far), rel=1e-15, abs=0), i
        assert row["last3"] == fitting(so_far[-3:]), i
