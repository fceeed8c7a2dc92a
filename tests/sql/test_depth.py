"""What is nested more deeply than Python can walk through is an error with a place, before anything runs."""

from __future__ import annotations

import pytest

from tidegate.errors import Problems, TidegateError
from tidegate.sql import Catalog, View, analyse, load_catalog
from tidegate.sql.statements.statements import CreateView
from tidegate.sql.statements.stored_definition import stored_relation, stored_view

SOURCE = (
    "CREATE SOURCE s (ts TIMESTAMP, k INT, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') "
    "WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;\n"
)
DEEP = {
    "or": lambda count: " OR ".join(f"k = {number}" for number in range(count)),
    "plus": lambda count: " + ".join(["k"] * count) + " > 0",
    "brackets": lambda count: "(" * count + "k" + ")" * count + " > 0",
    "calls": lambda count: "abs(" * count + "k" + ")" * count + " > 0",
    "case": lambda count: "CASE WHEN k = 1 THEN 1 ELSE " * count + "0" + " END" * count + " > 0",
    # Spark gets these with their arguments two or three times.
    "small": lambda count: "abs(" * count + "CAST(k AS SMALLINT)" + ")" * count + " > 0",
    "decimal": lambda count: "abs(" * count + "CAST(k AS DECIMAL(38, 2))" + ")" * count + " > 0",
    "texts": lambda count: "repeat(" * count + "'x'" + ", k)" * count + " = 'x'",
}
TWICE = ("calls", "small", "decimal", "texts")


def view(condition: str) -> str:
    return f"CREATE MATERIALIZED VIEW deep AS SELECT ts, k FROM s\nWHERE {condition};"


def written(found: View, calls: int) -> str:
    """The query, from as deep in calls as a tick of a run in Dagster is."""
    return written(found, calls - 1) if calls else found.query_sql.spark_sql({"input_0": "read"})


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("count", [3, *range(20, 320, 50), 345, 600, 3000])
def test_what_is_taken_can_be_written_and_the_rest_is_an_error_with_a_place(kind: str, count: int) -> None:
    problems = Problems()
    found = load_catalog([("s.sql", SOURCE), ("deep.sql", view(DEEP[kind](count)))], problems=problems).find(
        "deep"
    )
    if isinstance(found, View):
        assert "read" in written(found, 100)
    else:
        (refused,) = problems.errors
        assert str(refused).startswith("error TG102: this is nested too deeply\n --> deep.sql:")
        assert count > (3 if kind in TWICE else 60)


def test_what_is_stored_and_nested_too_deeply_is_what_this_release_can_t_read() -> None:
    """An earlier release may have taken it (R4)."""
    catalog = load_catalog([("s.sql", SOURCE)])
    assert stored_view(view(DEEP["plus"](20)), catalog) is not None
    column = SOURCE.replace("k INT,", f"k INT, g BOOLEAN AS {DEEP['texts'](20)},")
    for kind in ("plus", "calls", "decimal"):
        assert stored_view(view(DEEP[kind](250 if kind == "plus" else 20)), catalog) is None
    assert stored_relation(SOURCE) is not None
    assert stored_relation(column) is None


def test_a_statement_of_a_session_that_is_nested_too_deeply_is_the_same_error() -> None:
    catalog: Catalog = load_catalog([("s.sql", SOURCE)])
    for text in (view(DEEP["plus"](250)), view(DEEP["texts"](20)), f"SELECT {DEEP['brackets'](900)} FROM s"):
        with pytest.raises(TidegateError, match=r"TG102: this is nested too deeply"):
            [*analyse(text, catalog)]
    (made,) = analyse(view("k IN (" + ", ".join(map(str, range(3000))) + ")"), catalog)
    assert isinstance(made, CreateView)
    assert "2999" in written(made.view, 100)
