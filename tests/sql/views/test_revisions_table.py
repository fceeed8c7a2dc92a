"""`<view>$revisions` in the catalog (B2): the view's columns, then those of revisions; taken names give way."""

from __future__ import annotations

import pytest

from tidegate.errors import TidegateError
from tidegate.sql.catalog.objects import SystemTable
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.statements.analysis import analyse, load_catalog

SQL = """
CREATE TABLE t (k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW m AS SELECT window_end, k, count(*) AS revision FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW s AS SELECT k, ts FROM t EMIT ON WINDOW CLOSE;
"""
OWN = ["amended_at", "late_rows", "is_current", "is_tombstone"]


def test_B2_columns_of_revisions() -> None:
    catalog = load_catalog([("a.sql", SQL)])
    m, s = catalog.get("m$REVISIONS"), catalog.get("s$revisions")
    assert isinstance(m, SystemTable)
    assert [c.name for c in m.columns] == ["window_end", "k", "revision", "_revision", *OWN]
    assert m.stored[3] == inner("number")
    assert [c.name for c in s.columns] == ["k", "ts", "window_end", "revision", *OWN]
    assert catalog.find("t$revisions") is None
    assert catalog.find("m$late") is None


def test_TG106_no_view_over_revisions_and_no_sink_from_them() -> None:
    catalog = load_catalog([("a.sql", SQL)])
    for statement, code in (
        ('CREATE MATERIALIZED VIEW x AS SELECT * FROM "m$revisions"', "TG106"),
        ("CREATE SINK x FROM \"m$revisions\" WITH (connector = 'console')", "TG215"),
        ('DROP MATERIALIZED VIEW "m$revisions"', "TG215"),
        ("CREATE TABLE u (_revision INT) APPEND ONLY", "TG205"),
    ):
        with pytest.raises(TidegateError) as caught:
            list(analyse(statement, catalog))
        assert caught.value.code == code, statement
