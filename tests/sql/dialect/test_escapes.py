"""Texts mean what they mean in Spark, whatever backslashes are in them; and whoever loses one is told (TG908)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tidegate.errors import TidegateError
from tidegate.sql.dialect.dialect import to_spark, tokenize
from tidegate.sql.dialect.parsing import parse_expression
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.warnings import collecting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = [
    "\\",
    "'",
    "''",
    "n",
    "b",
    "f",
    "v",
    "a",
    "Z",
    "0",
    "1",
    "7",
    "8",
    "%",
    "_",
    "u",
    "U",
    "x",
    "$",
    ".",
    "d",
]
PARTS += ["u0041", "U0001F600", "012", "101", "201", "\n", "\t", "é", "😀", '"', "N"]


def read(written: str) -> tuple[str, list[str]]:
    """As Spark is given it, and the warnings."""
    text = Text(written)
    with collecting() as warnings:
        return to_spark(parse_expression(text, tokenize(text))), [one.message for one in warnings]


@pytest.mark.parametrize(
    ("written", "lost"),
    [
        (r"regexp_like('aa', '^(a)\1$')", [r"\1 in a text is only 1"]),
        (r"regexp_replace(x, '\d+', '\$1')", [r"\d in a text is only d", r"\$ in a text is only $"]),
        (r"split(x, '\.')", [r"\. in a text is only ."]),
        (r"x RLIKE '\\d' OR x RLIKE r'\d' OR x LIKE 'a\_b\%' OR x = 'a\nb\'c\\'", []),
        (r"concat('\u0041\101\0', '\"', r'\1')", []),
    ],
)
def test_a_backslash_that_is_lost_is_told(written: str, lost: list[str]) -> None:
    found = read(written)[1]
    assert len(found) == len(lost)
    for message, beginning in zip(found, lost, strict=True):
        assert message.startswith(f"{beginning}, as in Spark")


@pytest.mark.spark
@pytest.mark.medium
def test_texts_are_those_that_spark_reads(spark: SparkSession) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()

    def truth(written: str) -> str | None:
        try:
            value = parser.parseExpression(written)
        except Exception:
            return None
        return str(value.eval(None).toString()) if value.foldable() else None

    compared = told = 0
    for parts in itertools.chain(*(itertools.product(PARTS, repeat=length) for length in (1, 2, 3))):
        if len(parts) > 2 and parts[0] != "\\":
            continue
        written = f"'{''.join(parts)}'"
        meant = truth(written)
        try:
            again, warnings = read(written)
        except TidegateError:
            assert meant is None, written
            continue
        assert truth(again) == meant, written
        compared += meant is not None
        told += bool(warnings)
        if len(parts) == 2 and parts[0] == "\\":
            assert bool(warnings) == (meant == parts[1] and parts[1] not in "\\'\""), written
    assert (compared > 500, told > 100) == (True, True), (compared, told)
