"""Values as a PostgreSQL client shows them, and rows against expected lines."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from tidegate.errors import TidegateError
from tidegate.testing.comparing import ResultRows, differences, expected_lines, hashed
from tidegate.testing.rendering import render
from tidegate.testing.substitution import substitute


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, None, "NULL"),
        (True, None, "t"),
        (False, None, "f"),
        (3, None, "3"),
        (300.0, None, "300"),
        (0.1, None, "0.1"),
        (float("nan"), None, "NaN"),
        (float("-inf"), None, "-Infinity"),
        (1e20, None, "1e+20"),
        (Decimal("300.00"), None, "300.00"),
        ("", None, "(empty)"),
        ("a b", None, "a b"),
        ("a\nb", None, "a\\nb"),
        (datetime(2026, 1, 1, 10), "timestamp_ntz", "2026-01-01 10:00:00"),
        (datetime(2026, 1, 1, 10, 0, 0, 120_000), "timestamp_ntz", "2026-01-01 10:00:00.12"),
        (datetime(2026, 1, 1, 10, tzinfo=UTC), "timestamp", "2026-01-01 10:00:00+00:00"),
        (date(2026, 1, 1), "date", "2026-01-01"),
        (timedelta(minutes=1), None, "00:01:00"),
        (timedelta(days=1, hours=2), None, "1 day 02:00:00"),
        (timedelta(days=7), None, "7 days"),
        (timedelta(0), None, "00:00:00"),
        (timedelta(seconds=-90.5), None, "-00:01:30.5"),
        (timedelta(days=-1, hours=-2), None, "-1 days -02:00:00"),
        (bytearray(b"\x00\xff"), None, "\\x00ff"),
        ([1, 2], None, "{1,2}"),
        ([None, "a b", "", 'q"', [True]], None, '{NULL,"a b","","q\\"",{t}}'),
        ((1, "a"), None, "(1,a)"),
        ((None, "a b", "", 'q"'), None, '(,"a b","","q""")'),
        ({"k": 1.0}, None, "{k:1}"),
        (
            [(datetime(2026, 1, 1, 10),)],
            {"elementType": {"fields": [{"type": "timestamp_ntz"}]}},
            '{"(\\"2026-01-01 10:00:00\\")"}',
        ),
    ],
)
def test_rendering(value: object, kind: object, text: str) -> None:
    assert render(value, kind) == text


def rows(*values: tuple[str, ...], kinds: str = "") -> ResultRows:
    """Rows of text, or of n(umbers) and f(loats)."""
    names = {"n": "exact", "f": "float", "t": "text"}
    width = len(values[0]) if values else len(kinds)
    return ResultRows(values, tuple(names[k] for k in kinds) or ("text",) * width)


@pytest.mark.parametrize(
    ("actual", "expected", "sort"),
    [
        (rows(("1", "a")), ["1 a"], "nosort"),
        (rows(("1", "a")), ["1\ta"], "nosort"),
        (rows(("1", "a")), ["1    a  "], "nosort"),
        (rows(("2026-01-01 10:00:00", "3")), ["2026-01-01 10:00:00 3"], "nosort"),
        (rows(("a b", "c")), ["a b\tc"], "nosort"),
        (rows(("300.00", "7"), kinds="nn"), ["300 7.0"], "nosort"),
        (rows(("0.30000000000000004",), kinds="f"), ["0.3"], "nosort"),
        (rows(("2",), ("1",)), ["1", "2"], "rowsort"),
        (rows(("10.0",), ("9",), kinds="n"), ["9", "10"], "rowsort"),
        (rows(("b", "2"), ("a", "1")), ["1", "2", "a", "b"], "valuesort"),
        (rows(), [], "nosort"),
        (rows(("1",), ("2",), ("3",)), ["3 values hashing to c0710d6b4f15dfa88f600b0e6b624077"], "nosort"),
    ],
)
def test_equal(actual: ResultRows, expected: list[str], sort: str) -> None:
    assert differences(actual, expected, sort) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("actual", "expected", "sort"),
    [
        (rows(("1", "a")), ["1 b"], "nosort"),
        (rows(("1", "a")), ["1"], "nosort"),
        (rows(("1",)), ["1 a"], "nosort"),
        (rows(("300.01",), kinds="n"), ["300"], "nosort"),
        (rows(("300.0",), kinds="t"), ["300"], "nosort"),
        (rows(("1.00000001",), kinds="f"), ["1"], "nosort"),
        (rows(("2",), ("1",)), ["1", "2"], "nosort"),
        (rows(("1",), ("1",)), ["1"], "rowsort"),
        (rows(("NULL",), kinds="n"), ["0"], "nosort"),
        (rows(("a",)), [], "nosort"),
        (rows(), ["a"], "nosort"),
        (rows(("1",), ("2",)), ["2 values hashing to 00000000000000000000000000000000"], "nosort"),
        (rows(("1",)), ["1", "2"], "valuesort"),
    ],
)
def test_different(actual: ResultRows, expected: list[str], sort: str) -> None:
    assert differences(actual, expected, sort) is not None  # type: ignore[arg-type]


def test_the_diff_shows_only_what_differs() -> None:
    actual = rows(("1", "10.00"), ("2", "20.50"), kinds="nn")
    assert differences(actual, ["1 10", "2 20"], "nosort") == (
        "--- expected\n+++ actual\n 1 10.00\n-2 20\n+2 20.50"
    )


def test_values_one_below_the_other() -> None:
    assert differences(rows(("1", "a"), ("2", "b")), ["1", "a", "2", "b"], "nosort", valuewise=True) is None


def test_lines_to_be_written_are_lines_that_agree() -> None:
    actual = rows(("b", "2026-01-01 10:00:00", "(empty)"), ("a", "NULL", "x y"))
    for sort in ("nosort", "rowsort", "valuesort"):
        assert differences(actual, expected_lines(actual, sort), sort) is None  # type: ignore[arg-type]
        assert differences(actual, [hashed(actual, sort)], sort) is None  # type: ignore[arg-type]


VARIABLES = {"a": "1", "long_name": "x"}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SELECT $a, ${a}, '$long_name'", "SELECT 1, 1, 'x'"),
        ("${b:none} ${b:$a} ${a:none} ${b:} ${b:${c:deep}}", "none 1 1  deep"),
        (r'"t\$late" \\ \{', r'"t$late" \ {'),
        (r"regexp '\d'", r"regexp '\d'"),
    ],
)
def test_substitution(text: str, result: str) -> None:
    assert substitute(text, VARIABLES.get) == result


@pytest.mark.parametrize("text", ["$b", "${b}", "$", '"t$"', "${a", "$1"])
def test_variables_without_a_value(text: str) -> None:
    with pytest.raises(TidegateError) as caught:
        substitute(text, VARIABLES.get)
    assert caught.value.code == "TG805"
