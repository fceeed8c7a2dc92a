"""What Tab offers, by where the cursor (`|`) stands."""

from __future__ import annotations

import pytest

from tests.sql.support import prelude
from tidegate.cli.shell.completion import Suggestion, candidates
from tidegate.sql import load_catalog


def offered(text: str) -> list[Suggestion]:
    cursor = text.index("|")
    return candidates(text.replace("|", ""), cursor, prelude())


def texts(text: str) -> list[str]:
    return [c.text for c in offered(text)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM ord|", "orders"),
        ("SELECT * FROM |", "orders"),
        ("SELECT * FROM orders$l|", '"orders$late"'),
        ('SELECT * FROM "orders$l|', '"orders$late"'),
        ("SELECT count(*) FROM TUMBLE(or|", "orders"),
        ("INSERT INTO pl|", "plain"),
        ("DROP TABLE pl|", "plain"),
        ("EXPLAIN hou|", "hourly"),
        ("SELECT cust| FROM orders", "customer"),
        ("SELECT | FROM orders", "customer"),
        ("SELECT o.cust| FROM orders AS o", "customer"),
        ("SELECT w.cust| FROM TUMBLE(orders, ts, INTERVAL '1 hour') w", "customer"),
        ("SELECT orders.cust| FROM orders", "customer"),
        ("SELECT window_s| FROM TUMBLE(orders, ts, INTERVAL '1 hour')", "window_start"),
        ("SELECT date_tr|", "date_trunc"),
        ("SELECT * FROM orders GRO|", "GROUP BY"),
        ("SELECT * FROM orders gro|", "group by"),
        ("sel|", "select"),
        ("CREATE|", "CREATE MATERIALIZED VIEW"),
        ("CREATE MAT|", "MATERIALIZED VIEW"),
        ("drop so|", "source"),
        ("SET impl|", "implicit_flush"),
        ("SHOW MATER|", "MATERIALIZED VIEWS"),
        ("SELECT 1; SELECT * FROM ord|; SELECT 2", "orders"),
        ("\\ti|", "\\timing"),
        ("\\d ord|", "orders"),
        ("\\d |", "orders"),
    ],
)
def test_offered(text: str, wanted: str) -> None:
    assert wanted in texts(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'ord|",
        "SELECT 1 -- ord|",
        "SELECT /* ord|",
        'SELECT "orders"|',
        "SELECT 12|",
        "SELECT |",
        "\\z|",
    ],
)
def test_nothing_is_offered(text: str) -> None:
    assert offered(text) == []


SINK = """
CREATE TABLE t (ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE SINK "to files" FROM t WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
CREATE SINK shown AS SELECT ts FROM t EMIT ON WINDOW CLOSE WITH (connector = 'console');
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("DESCRIBE ", ["t", '"to files"', "shown"]),
        ("EXPLAIN sh", ["shown"]),
        ("DROP SINK ", ['"to files"', "shown"]),
        ("\\d ", ["t", "to files", "shown"]),
        ("\\e to", ["to files"]),
        # It has no rows that could be read.
        ("SELECT * FROM sh", []),
    ],
)
def test_sinks_are_offered_where_one_can_stand(text: str, wanted: list[str]) -> None:
    found = candidates(text, len(text), load_catalog([("all.sql", SINK)]))
    assert [c.text for c in found] == wanted


def test_only_relations_where_one_is_expected() -> None:
    assert {c.kind for c in offered("DESCRIBE |")} == {"source", "table", "view"}
    assert all(c.kind == "column" for c in offered("SELECT o.| FROM orders o"))


def test_a_candidate_replaces_what_was_typed() -> None:
    found = next(c for c in offered('SELECT * FROM "orders$l|'))
    assert found == Suggestion('"orders$late"', len('"orders$l'), "system table")


def test_columns_come_before_functions() -> None:
    assert texts("SELECT c| FROM orders")[0] == "customer"
