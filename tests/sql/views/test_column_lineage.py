"""Column lineage: from which columns of its inputs a view's column is computed."""

from __future__ import annotations

import pytest

from tidegate.sql import load_catalog
from tidegate.sql.views.column_lineage import column_lineage

BASE = """
CREATE TABLE orders (id BIGINT, amount DECIMAL, at TIMESTAMP, shop VARCHAR, WATERMARK FOR at AS at) APPEND ONLY;
CREATE TABLE returns (at TIMESTAMP, id BIGINT, why VARCHAR, WATERMARK FOR at AS at) APPEND ONLY;
"""


def lineage(sql: str, name: str = "v") -> dict[str, str]:
    catalog = load_catalog([("a.sql", BASE + sql)])
    item = catalog.sinks.find(name) or catalog.get(name)
    found = column_lineage(catalog, item)  # type: ignore[arg-type]
    return {c: " ".join(f"{o.relation}.{o.column}" for o in origins) for c, origins in found.items()}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT window_end, shop, count(*) AS n, sum(amount * id) AS s, 1 AS one "
            "FROM TUMBLE(orders, at, INTERVAL '1 hour') GROUP BY window_end, shop",
            {
                "window_end": "orders.at",
                "shop": "orders.shop",
                "n": "",
                "s": "orders.amount orders.id",
                "one": "",
            },
        ),
        (
            "WITH big AS (SELECT at, amount AS much FROM orders WHERE id > 1) SELECT at, much + 1 AS more FROM big",
            {"at": "orders.at", "more": "orders.amount"},
        ),
        (
            "SELECT * FROM (SELECT at, upper(shop) AS s FROM orders) AS x",
            {"at": "orders.at", "s": "orders.shop"},
        ),
        (
            "SELECT o.at, r.why, o.id + r.id AS both FROM orders AS o JOIN returns AS r ON o.id = r.id AND o.at = r.at",
            {"at": "orders.at", "why": "returns.why", "both": "orders.id returns.id"},
        ),
        (
            "SELECT at, id FROM orders UNION ALL SELECT at, id FROM returns",
            {"at": "orders.at returns.at", "id": "orders.id returns.id"},
        ),
        (
            "SELECT at, lag(amount) OVER (PARTITION BY shop ORDER BY at) AS before FROM orders",
            {"at": "orders.at", "before": "orders.amount orders.at orders.shop"},
        ),
        (
            "SELECT window_start, window_end, shop, count(*) AS n "
            "FROM SESSION(orders, at, upper(shop), INTERVAL '1 hour') GROUP BY window_start, window_end, shop",
            {"window_start": "orders.at", "window_end": "orders.at", "shop": "orders.shop", "n": ""},
        ),
        (
            "SELECT at, id, row_number() OVER (PARTITION BY at ORDER BY why) AS place FROM returns",
            {"at": "returns.at", "id": "returns.id", "place": "returns.at returns.why"},
        ),
        (
            "SELECT id, at, o.amount, r.why FROM orders AS o FULL JOIN returns AS r USING (id, at)",
            {
                "id": "orders.id returns.id",
                "at": "orders.at returns.at",
                "amount": "orders.amount",
                "why": "returns.why",
            },
        ),
        (
            'SELECT at, "$rowtime" AS came, "$offset" AS place FROM orders',
            {"at": "orders.at", "came": "orders.$rowtime", "place": "orders.$offset"},
        ),
        (
            "SELECT w.at, w.id FROM WATERMARK(orders, at, INTERVAL '1 minute') AS w",
            {"at": "orders.at", "id": "orders.id"},
        ),
        (
            "SELECT at, CURRENT_WATERMARK(at) AS mark FROM orders",
            {"at": "orders.at", "mark": "orders.at"},
        ),
        (
            "SELECT time, CURRENT_WATERMARK(time) AS mark "
            "FROM WATERMARK((SELECT at AS time FROM orders), time, INTERVAL '1 minute')",
            {"time": "orders.at", "mark": "orders.at"},
        ),
    ],
)
def test_where_columns_come_from(query: str, expected: dict[str, str]) -> None:
    assert lineage(f"CREATE MATERIALIZED VIEW v AS {query} EMIT ON WINDOW CLOSE;") == expected


def test_sinks_deliver_columns_or_compute_them() -> None:
    files = "WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON"
    assert lineage(f"CREATE SINK s FROM returns {files};", "s")["why"] == "returns.why"
    query = f"CREATE SINK s AS SELECT at, id + 1 AS next FROM orders EMIT ON WINDOW CLOSE {files};"
    assert lineage(query, "s") == {"at": "orders.at", "next": "orders.id"}
