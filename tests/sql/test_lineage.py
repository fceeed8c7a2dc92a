"""What comes from what: the order of computation, who reads whom, and what runs together."""

from __future__ import annotations

import pytest

from tidegate.sql import Catalog, load_catalog
from tidegate.sql.catalog.lineage import computed, families, readers_of, reads_of, sources_of

SQL = """
CREATE MATERIALIZED VIEW late_view AS SELECT window_start, sum(n) AS n
  FROM TUMBLE(hourly, window_start, INTERVAL '1 day') GROUP BY window_start;
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, count(*) AS n
  FROM TUMBLE(a, t, INTERVAL '1 hour') GROUP BY window_start;
CREATE MATERIALIZED VIEW ab AS SELECT t FROM a UNION ALL SELECT t FROM b;
CREATE MATERIALIZED VIEW of_c AS SELECT t FROM c;
CREATE MATERIALIZED VIEW gated AS SELECT window_start, count(*) AS n
  FROM TUMBLE(WATERMARK(d, t, t), t, INTERVAL '1 hour') GROUP BY window_start;
CREATE TABLE a (t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;
CREATE TABLE b (t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;
CREATE TABLE c (t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;
CREATE TABLE d (t TIMESTAMP) APPEND ONLY;
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog([("all.sql", SQL)])


def names(objects: tuple) -> list[str]:
    return [o.name for o in objects]


def test_D3_everything_stands_after_what_it_reads(catalog: Catalog) -> None:
    order = names(tuple(catalog.order()))
    for obj in catalog.order():
        assert all(order.index(s.name) < order.index(obj.name) for s in sources_of(catalog, obj))
    assert names(sources_of(catalog, catalog.get("late_view"))) == ["a", "hourly"]


def test_what_runs_together(catalog: Catalog) -> None:
    assert sorted(sorted(names(f)) for f in families(catalog)) == [
        ["a", "ab", "b", "hourly", "late_view"],
        ["c", "of_c"],
        ["d", "gated"],
    ]


def test_sinks_run_with_what_they_deliver_over_implicit_views_too() -> None:
    sinks = """
    CREATE SINK from_view FROM of_c WITH (connector = 'console');
    CREATE SINK from_query AS SELECT t FROM b UNION ALL SELECT t FROM c EMIT ON WINDOW CLOSE
      WITH (connector = 'console');
    CREATE SINK from_gate AS SELECT t FROM WATERMARK(d, t, t) EMIT ON WINDOW CLOSE WITH (connector = 'console');
    """
    catalog = load_catalog([("all.sql", SQL), ("sinks.sql", sinks)])
    delivered = {s.name: names(reads_of(catalog, s)) for s in catalog.sinks}
    assert delivered == {"from_view": ["of_c"], "from_query": ["b", "c"], "from_gate": ["d"]}
    assert names(computed(catalog))[-3:] == ["from_view", "from_query", "from_gate"]
    assert sorted(sorted(names(f)) for f in families(catalog)) == [
        ["a", "ab", "b", "c", "from_query", "from_view", "hourly", "late_view", "of_c"],
        ["d", "from_gate", "gated"],
    ]


def test_W14_an_implicit_relation_is_nobody_s_lineage(catalog: Catalog) -> None:
    assert names(reads_of(catalog, catalog.get("gated"))) == ["d"]
    assert names(readers_of(catalog, "d")) == ["gated"]
    assert names(sources_of(catalog, catalog.get("gated")))[0] == "d"
