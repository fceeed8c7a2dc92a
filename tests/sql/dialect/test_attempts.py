"""C7: what may fail on a row is asked so that it is NULL there; identities of tables do not know of it (R4)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sql.dialect.failing import BY_ITSELF, FAILING, MUCH, TODAY, TYPES
from tests.sql.support import prelude
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import relation_identity, strategy_identity
from tidegate.sql import analyse, load_catalog
from tidegate.sql.dialect import rewrite
from tidegate.sql.dialect.attempts import ATTEMPT, without_attempts
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.functions import reach_of, spark_functions
from tidegate.sql.dialect.parsing import parse_expression
from tidegate.sql.dialect.rewrite import safe_sql
from tidegate.sql.dialect.text import Text
from tidegate.watermark.preceding import Values, recall, remember


def written(sql: str) -> str:
    """What Spark is given for an expression over the columns of `TYPES`."""
    text = Text(sql)
    return safe_sql(parse_expression(text, tokenize(text)), lambda column: TYPES.get(column.name))


def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, expressions are written as they were before there was `ATTEMPT`."""
    monkeypatch.setattr(rewrite, "attempt", lambda node, *_: node)
    monkeypatch.setattr(rewrite, "how_much", lambda *_: None)
    monkeypatch.setattr(rewrite, "_substring", lambda call: call)
    monkeypatch.setattr(rewrite, "_LOWEST", {})
    monkeypatch.setattr(rewrite, "_dated", lambda made, *_: made)
    monkeypatch.setattr(rewrite, "dated", lambda made, *_: made)
    monkeypatch.setattr(rewrite, "date_operands", lambda *_: None)


def test_C7_every_function_that_may_fail_is_tried() -> None:
    assert {*FAILING} == {name for name in spark_functions() if reach_of(name) == "failing"}


@pytest.mark.parametrize(
    "sql", [*FAILING.values(), *MUCH, *TODAY, "s RLIKE bad", "s LIKE bad ESCAPE 's'", "ts - ts"]
)
def test_C7_what_may_fail_is_asked_whether_it_does(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = written(f"upper({sql})")
    assert found.startswith(f"upper({ATTEMPT}(")
    as_before(monkeypatch)
    assert without_attempts(found) == written(f"upper({sql})")


@pytest.mark.parametrize("sql", BY_ITSELF)
def test_W4_a_text_that_spark_takes_as_a_time_by_itself_is_asked_for_its_date(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = written(sql)
    assert f"{ATTEMPT}(if(NOT " in found
    as_before(monkeypatch)
    assert without_attempts(found) == without_attempts(written(sql))
    assert f"{ATTEMPT}(if(NOT " not in written(sql)


def test_R4_logs_of_before_there_were_attempts_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their definitions and strategies are the same ones, and what W11 remembers of their last rows counts (R1)."""
    source = """CREATE SOURCE s (k VARCHAR, part VARCHAR AS regexp_substr(k, k), ts TIMESTAMP, WATERMARK FOR ts AS
        CASE WHEN count(regexp_extract(k, k)) OVER (ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) > 1 THEN ts END)
        WITH (connector = 'filesystem', path = 'x') FORMAT PLAIN ENCODE JSON"""
    now = load_catalog([("s.sql", source)]).relations[0]
    as_before(monkeypatch)
    before = load_catalog([("s.sql", source)]).relations[0]
    assert (relation_identity(now), strategy_identity(now)) == (
        relation_identity(before),
        strategy_identity(before),
    )
    windows = [relation.watermark.strategy.preceding for relation in (before, now)]
    one = Values(np.array([1]), np.array([True]))
    assert len(recall(windows[1], remember(windows[0], None, [one]))[0].numbers) == 1
    assert [ATTEMPT in window.sql for (window,) in windows] == [False, True]


@pytest.mark.parametrize(
    "sql",
    [
        "upper(s)",
        "s LIKE 'a%'",
        "zero + 1",
        "round(zero)",
        "sum(zero)",
        "repeat(s, 3)",
        "ts + INTERVAL '1' DAY",
    ],
)
def test_what_can_not_fail_is_not(sql: str) -> None:
    assert ATTEMPT not in written(sql)


def test_C7_an_integer_that_is_rounded_to_tens_may_overflow() -> None:
    assert written("round(zero, -1)").startswith(f"{ATTEMPT}(")


@pytest.mark.parametrize("call", ["raise_error('x')", "assert_true(id > 0)"])
def test_C7_what_fails_on_purpose_is_in_no_definition(call: str) -> None:
    with pytest.raises(TidegateError) as refused:
        list(
            analyse(
                f"CREATE MATERIALIZED VIEW v AS SELECT {call} AS x, ts FROM orders EMIT ON WINDOW CLOSE",
                prelude(),
            )
        )
    assert refused.value.code == "TG222"
