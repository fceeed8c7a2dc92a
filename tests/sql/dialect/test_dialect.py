"""The dialect: nothing opaque, nothing dropped, light to import, quick."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tests.sql.cases import CASES
from tests.sql.support import HERE, prelude
from tidegate.errors import TidegateError
from tidegate.sql import Catalog, CatalogColumn, FilesystemOptions, analyse, load_catalog
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.catalog.system_tables import SYSTEM_TABLES
from tidegate.sql.dialect.dialect import EMIT, Tidegate, to_text, tokenize
from tidegate.sql.dialect.functions import kind_of
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.types import display, parse_ddl

STATEMENTS = [
    statement.strip()
    for name in ("views", "relations", "statements")
    for statement in (CASES / f"{name}.sql").read_text("utf-8").split(";\n")
    if statement.strip()
]
PRELUDE = (HERE / "prelude.sql").read_text("utf-8")


def parse(sql: str) -> exp.Expr:
    text = Text(sql)
    return parse_query(text, tokenize(text))


def test_emit_on_window_close_is_one_token_and_no_alias() -> None:
    tokens = tokenize(Text("GROUP BY a Emit  on\n window CLOSE"))
    assert [t.token_type for t in tokens][-1] is EMIT
    assert (
        EMIT
        not in Tidegate.Parser.TABLE_ALIAS_TOKENS
        | Tidegate.Parser.ALIAS_TOKENS
        | Tidegate.Parser.ID_VAR_TOKENS
    )


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("SELECT \"a\", `b`, 'it''s'", 'SELECT "a", "b", \'it\\\'s\''),
        ("SELECT x::timestamptz, x::timestamp", "SELECT CAST(x AS TIMESTAMPTZ), CAST(x AS TIMESTAMP)"),
        (
            "SELECT INTERVAL '5 seconds', INTERVAL '5' SECOND, INTERVAL 5 SECONDS",
            "SELECT INTERVAL '5' SECONDS, INTERVAL '5' SECOND, INTERVAL '5' SECONDS",
        ),
        (
            "SELECT nvl2(a, b, c), to_date(d), date_add(e, 1)",
            "SELECT nvl2(a, b, c), to_date(d), date_add(e, 1)",
        ),
        (
            "SELECT count(*) FILTER (WHERE a), sum(DISTINCT b)",
            "SELECT count(*) FILTER(WHERE a), sum(DISTINCT b)",
        ),
        ("SELECT filter(a, x -> x > 1), (detail).b.c", "SELECT filter(a, x -> x > 1), (detail).b.c"),
    ],
)
def test_queries_come_back_as_written(sql: str, written: str) -> None:
    assert to_text(parse(sql)) == written


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t, u WHERE t.a = u.a(+)",
        "SELECT a, FROM t",
        "SELECT CAST(a AS TIMESTAMP(3)) FROM t",
        "SELECT a -> b FROM t",
        "SELECT :a",
        "SELECT a FROM t |> WHERE a",
        "DROP TABLE t",
    ],
)
def test_nothing_is_silently_ignored(sql: str) -> None:
    with pytest.raises(TidegateError) as refused:
        parse(sql)
    assert refused.value.code in ("TG102", "TG105", "TG106")


def test_an_open_comment_is_shown_where_it_opens() -> None:
    with pytest.raises(TidegateError) as refused:
        tokenize(Text("SELECT 1 /* a */, /* b /* c */ 2"))
    assert refused.value.location is not None
    assert (refused.value.message, refused.value.location.column) == ("this comment is never closed", 19)


def test_a_name_is_not_taken_for_a_misspelt_clause() -> None:
    for sql in ("SELECT count(*) orders x FROM t", "SELECT f(orders x) FROM t", "SELECT * FROM orders$late"):
        with pytest.raises(TidegateError) as refused:
            parse(sql)
        assert refused.value.code == "TG102"


def test_no_statement_becomes_an_opaque_command() -> None:
    for path in CASES.glob("*.sql"):
        for token in tokenize(Text(path.read_text("utf-8").replace("/* never", "--"))):
            assert "\n" not in token.text or token.token_type is EMIT


@pytest.mark.parametrize(
    ("ddl", "shown"),
    [
        ("timestamp_ntz", "TIMESTAMP"),
        ("timestamp", "TIMESTAMPTZ"),
        ("decimal(28,10)", "DECIMAL(28, 10)"),
        ("array<array<string>>", "VARCHAR[][]"),
        ("struct<a:int,`b c`:map<string,double>>", "STRUCT<a INT, b c MAP<VARCHAR, DOUBLE>>"),
        ("interval day to second", "INTERVAL DAY TO SECOND"),
        ("unknown", "unknown"),
    ],
)
def test_types_round_trip_and_display(ddl: str, shown: str) -> None:
    assert str(parse_ddl(ddl)) == ddl
    assert display(ddl) == shown


def test_kinds_of_functions() -> None:
    kinds = {name: kind_of(name) for name in ("SUM", "upper", "explode", "lag", "nope")}
    assert kinds == {"SUM": "aggregate", "upper": "scalar", "explode": "table", "lag": "window", "nope": None}


def test_load_catalog_takes_definitions_in_any_order() -> None:
    view, relations = (
        PRELUDE[PRELUDE.index("CREATE MATERIALIZED") :],
        PRELUDE[: PRELUDE.index("CREATE MATERIALIZED")],
    )
    catalog = load_catalog([("views.sql", view), ("relations.sql", relations)])
    assert catalog.order()[-1].name == "hourly"
    assert catalog.readers("orders") == catalog.views
    assert catalog.get("HOURLY").location.file == "views.sql"
    with pytest.raises(TidegateError, match="exists already"):
        load_catalog([("a.sql", relations), ("b.sql", "CREATE TABLE Plain (x INT)")])


def test_D3_views_over_views_stand_in_any_order_but_not_in_a_circle() -> None:
    source = ("s.sql", PRELUDE[: PRELUDE.index("CREATE MATERIALIZED")])
    daily = "CREATE MATERIALIZED VIEW daily AS SELECT window_start, sum(n) AS n FROM "
    daily += "TUMBLE(by_hour, window_start, INTERVAL '1 day') GROUP BY window_start EMIT ON WINDOW CLOSE"
    hourly = "CREATE MATERIALIZED VIEW by_hour AS SELECT window_start, count(*) AS n FROM "
    hourly += "TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY window_start EMIT ON WINDOW CLOSE"
    catalog = load_catalog([("a.sql", daily), ("b.sql", hourly), source])
    assert [o.name for o in catalog.order()][-2:] == ["by_hour", "daily"]
    circle = hourly.replace("orders, ts", "daily, window_start")
    with pytest.raises(
        TidegateError, match=r'these views read each other in a circle: "(daily|by_hour)" reads "'
    ) as caught:
        load_catalog([("a.sql", daily), ("b.sql", circle), source])
    assert caught.value.location is not None


def test_analyse_adds_nothing_and_stops_before_the_wrong_statement() -> None:
    catalog = Catalog()
    statements = analyse("CREATE TABLE t (a INT); SELECT b FROM t", catalog)
    created = next(statements)
    assert catalog.names() == []
    catalog.add(created.relation)
    with pytest.raises(TidegateError, match='"b"'):
        next(statements)
    catalog.drop("T")
    assert "t" not in catalog


def test_system_tables_have_columns() -> None:
    catalog = prelude()
    for suffix in SYSTEM_TABLES:
        table = catalog.get(f"orders${suffix}")
        assert len(table.columns) >= 10
    late = catalog.get("ORDERS$Late")
    assert late.column("watermark") == CatalogColumn("watermark", "timestamp_ntz")
    assert catalog.find("hourly$late") is None


def test_options_have_types_and_defaults() -> None:
    orders = prelude().get("orders")
    assert isinstance(orders, Relation)
    assert isinstance(orders.connector, FilesystemOptions)
    assert orders.connector.max_bytes_per_batch == 2**30
    assert orders.time_column.name == "ts"
    assert orders.gate.strategy.ticks == 5_000_000
    assert prelude().get("plain").gate is None


@pytest.mark.medium
def test_importing_loads_neither_spark_nor_pandas_nor_arrow() -> None:
    heavy = ("pyspark", "pandas", "pyarrow", "dagster")
    code = f"import sys, tidegate.sql; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_parsing_is_quick() -> None:
    text = PRELUDE + (CASES / "relations.sql").read_text("utf-8").replace("plain (id", "plain2 (id")
    # A ratio of CPU of this thread alone: others of this process and the machine's speed are not in it.
    assert cpu_of(lambda: load_catalog([("assets.sql", text)])) < 40 * cpu_of(lambda: sqlglot.tokenize(text))


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of the quickest of a few runs."""
    taken = []
    for _ in range(4):
        started = time.thread_time()
        work()
        taken.append(time.thread_time() - started)
    return min(taken)


@pytest.mark.medium
@settings(max_examples=150)
@given(st.data())
def test_broken_statements_are_refused_never_crash(data: st.DataObject) -> None:
    """Words taken out, doubled or swapped: an error with a place, or a statement; nothing else ever escapes."""
    statement = data.draw(st.sampled_from(STATEMENTS))
    words = statement.split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        i, j = (data.draw(st.integers(0, len(words) - 1)) for _ in range(2))
        change = data.draw(st.sampled_from(["drop", "double", "swap"]))
        if change == "drop" and len(words) > 1:
            del words[i]
        elif change == "double":
            words.insert(j, words[i])
        else:
            words[i], words[j] = words[j], words[i]
    text = " ".join(words)
    refused = _refusal(text)
    if refused is not None:
        assert refused.location is not None, text
        assert refused.location.column <= len(refused.location.text) + 1, text


def _refusal(text: str) -> TidegateError | None:
    try:
        list(analyse(text, prelude()))
    except TidegateError as refused:
        return refused
    return None


@pytest.mark.parametrize("column", ['"all"', "`ALL`", "t.all", "'all'", "all + 1"])
def test_only_the_bare_word_of_order_by_all_means_all_columns(column: str) -> None:
    text = Text(f"SELECT id FROM t ORDER BY {column}")
    (ordered,) = parse_query(text, tokenize(text)).args["order"].expressions
    assert not isinstance(ordered.this, exp.Var)
    text = Text("SELECT id FROM t ORDER BY all")
    (ordered,) = parse_query(text, tokenize(text)).args["order"].expressions
    assert isinstance(ordered.this, exp.Var)
