"""C7: which columns of a view a recount must not compare, because equal rows can fill them differently."""

from __future__ import annotations

import pytest

from tidegate.sql import load_catalog
from tidegate.sql.views.repeatable import order_dependent

TABLE = "CREATE TABLE r (k VARCHAR, x DOUBLE, t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;"
FROM = "FROM TUMBLE(r, t, INTERVAL '1 hour') GROUP BY window_start"


@pytest.mark.parametrize(
    ("items", "columns"),
    [
        ("count(*) AS n, sum(x) AS s, max(k) AS m", set()),
        ("any_value(k) AS a, count(*) AS n", {"a"}),
        ("upper(first(k)) AS a, min(k) AS first_of_all", {"a"}),
        ("histogram_numeric(x, 5) AS h, hll_sketch_agg(k) AS s, count(*) AS n", {"h", "s"}),
        ("array_agg(k) AS ks, min(k) || 'any_value' AS plain", {"ks"}),
    ],
)
def test_C7_columns_that_depend_on_the_order_of_rows(items: str, columns: set[str]) -> None:
    sql = f"{TABLE} CREATE MATERIALIZED VIEW v AS SELECT window_start, {items} {FROM};"
    assert order_dependent(load_catalog([("v.sql", sql)]).views[0]) == columns


def test_C7_what_comes_from_such_a_column_is_one() -> None:
    sql = f"""{TABLE} CREATE MATERIALIZED VIEW v AS SELECT window_start, some, n FROM (
        SELECT window_start, any_value(k) || '!' AS some, count(*) AS n {FROM});"""
    assert order_dependent(load_catalog([("v.sql", sql)]).views[0]) == {"some"}
