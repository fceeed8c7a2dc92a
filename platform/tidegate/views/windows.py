"""Windows of rows whatever became of them, for audits (A1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.iceberg.layout import quote
from tidegate.runtime.queries import run_query
from tidegate.sql.dialect.dialect import Read
from tidegate.sql.dialect.inner_names import inner
from tidegate.sql.dialect.query import everything, own, with_column
from tidegate.sql.views.window_sql import shift_sql, window_sql
from tidegate.views.inputs import bound_type
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sql.catalog.objects import Accounts

_ROWS, _TIME = "rows", inner("time")


def assign_windows(rows: DataFrame, accounts: Accounts, kind: TimeKind) -> DataFrame:
    """Each row of a view's input once for every window it falls into (C1), with `_window_start` and `_window_end` of
    the type that the view's table gives them. Rows without a time fall into none.

    The windows come from the same SQL as the view's: what an audit recounts is the rows, and tests/sql hold the
    windows against plain Python.
    """
    type_ = rows.schema[accounts.time_column].dataType.simpleString()
    # A column of the user's may be called window_start.
    plain = [f"c{n}" for n in range(len(rows.columns))]
    time = shift_sql(plain[rows.columns.index(accounts.time_column)], accounts.shift, kind, type_)
    timed = with_column(Read(this=_ROWS), _TIME, own(time))
    query = everything(window_sql(timed, plain, quote(_TIME), accounts.window, kind, type_))
    found = run_query(rows.sparkSession, "assign_windows", query, {_ROWS: rows.toDF(*plain)})
    placed = found.toDF(*rows.columns, "_window_start", "_window_end")
    bound = bound_type(kind)
    return placed.withColumns({name: placed[name].cast(bound) for name in ("_window_start", "_window_end")})
