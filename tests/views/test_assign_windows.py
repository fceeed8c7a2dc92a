"""A1, C1: an audit's windows are the view's, for rows of any name and shift."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegate.sql.catalog.objects import Accounts
from tidegate.sql.dialect.dialect import Read
from tidegate.sql.dialect.query import everything
from tidegate.views.windows import assign_windows
from tidegate.watermark import CalendarTumble, Cumulate, TimeKind, Tumble

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOTHING = everything(Read(this="nothing"))


def test_A1_rows_keep_their_columns_and_one_without_a_time_is_in_no_window(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES (1, 'x'), (12, 'y'), (NULL, 'z') AS v(t, window_start)")
    found = assign_windows(rows, Accounts(Cumulate(5, 10), "t", 3, NOTHING), TimeKind.EPOCH)
    assert found.dtypes == [
        ("t", "int"),
        ("window_start", "string"),
        ("_window_start", "bigint"),
        ("_window_end", "bigint"),
    ]
    assert sorted(tuple(row) for row in found.collect()) == [
        (1, "x", 0, 5),
        (1, "x", 0, 10),
        (12, "y", 10, 20),
    ]


def test_A1_windows_are_over_the_time_plus_the_shift(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP_NTZ '2024-01-31 23:30:00' AS `the time`, DATE '2024-01-31' AS d")
    hour = 3_600_000_000
    texts = ["CAST(_window_start AS STRING)", "CAST(_window_end AS STRING)"]

    def bounds(accounts: Accounts, kind: TimeKind) -> tuple:
        return tuple(assign_windows(rows, accounts, kind).selectExpr(*texts).first())

    hourly = Accounts(Tumble(hour), "the time", -hour, NOTHING)
    monthly = Accounts(CalendarTumble(TimeKind.TIMESTAMP, 1), "the time", hour, NOTHING)
    assert bounds(hourly, TimeKind.TIMESTAMP) == ("2024-01-31 22:00:00", "2024-01-31 23:00:00")
    assert bounds(monthly, TimeKind.TIMESTAMP) == ("2024-02-01 00:00:00", "2024-03-01 00:00:00")
    daily = Accounts(Tumble(7, 4), "d", 1, NOTHING)
    assert bounds(daily, TimeKind.DATE) == ("2024-01-29", "2024-02-05")
