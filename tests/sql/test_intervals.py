"""C1: lengths as they are written, and the windows that they make."""

from __future__ import annotations

import pytest

from tidegate.sql.dialect import parse_expression, tokenize
from tidegate.sql.intervals import Span, constant_span, make_window
from tidegate.sql.text import Text
from tidegate.watermark import CalendarHop, CalendarTumble, Cumulate, Hop, TimeKind, Tumble, Window

DAY = 86_400_000_000
NTZ, DATE, EPOCH = TimeKind.TIMESTAMP, TimeKind.DATE, TimeKind.EPOCH


def span(sql: str, kind: TimeKind = NTZ) -> Span | None:
    text = Text(sql, "<sql>")
    return constant_span(text, parse_expression(text, tokenize(text)), kind)


@pytest.mark.parametrize(
    ("sql", "kind", "expected"),
    [
        ("INTERVAL '1 month'", NTZ, Span(1)),
        ("INTERVAL 2 YEARS", DATE, Span(24)),
        ("INTERVAL '1' QUARTER", NTZ, Span(3)),
        ("INTERVAL '1 month 3 days'", NTZ, Span(1, 3 * DAY)),
        ("INTERVAL '1 month 3 days'", DATE, Span(1, 3)),
        ("-INTERVAL '1 month'", NTZ, Span(-1)),
        ("INTERVAL '3 months' + INTERVAL '5 days'", DATE, Span(3, 5)),
        ("INTERVAL '3 months' - INTERVAL '5 days'", DATE, Span(3, -5)),
        ("INTERVAL '90 minutes'", NTZ, Span(0, 90 * 60_000_000)),
        ("60", EPOCH, Span(0, 60)),
        ("ts", NTZ, None),
    ],
)
def test_C1_a_length_is_months_and_ticks(sql: str, kind: TimeKind, expected: Span | None) -> None:
    assert span(sql, kind) == expected


@pytest.mark.parametrize(
    ("sql", "kind"), [("INTERVAL '1 month'", EPOCH), ("60", NTZ), ("INTERVAL '1 month 1 hour'", DATE)]
)
def test_C1_a_length_that_the_column_can_not_count_is_refused(sql: str, kind: TimeKind) -> None:
    with pytest.raises(ValueError):
        span(sql, kind)


@pytest.mark.parametrize(
    ("function", "lengths", "kind", "window"),
    [
        ("TUMBLE", (Span(0, 60), Span(0, 70)), EPOCH, Tumble(60, 10)),
        ("HOP", (Span(0, 15), Span(0, 60), Span(0, -5)), EPOCH, Hop(15, 60, 10)),
        ("CUMULATE", (Span(0, 15), Span(0, 60), Span(0, -5)), EPOCH, Cumulate(15, 60, 55)),
        ("TUMBLE", (Span(12), Span(15, 5)), DATE, CalendarTumble(DATE, 12, 3, 5)),
        ("HOP", (Span(1), Span(3), Span()), NTZ, CalendarHop(NTZ, 1, 3)),
    ],
)
def test_C1_lengths_make_a_window(
    function: str, lengths: tuple[Span, ...], kind: TimeKind, window: Window
) -> None:
    assert make_window(function, lengths, kind) == window


@pytest.mark.parametrize(
    ("function", "lengths", "says"),
    [
        ("TUMBLE", (Span(1, 3 * DAY), Span()), "1 month 3 days"),
        ("HOP", (Span(0, DAY), Span(1), Span()), "28 to 31 days"),
        ("HOP", (Span(2), Span(3), Span()), "multiple"),
        ("TUMBLE", (Span(0, DAY), Span(1)), "offset in months"),
        ("CUMULATE", (Span(1), Span(12), Span()), "CUMULATE"),
        ("TUMBLE", (Span(), Span()), "positive"),
        ("TUMBLE", (Span(-1), Span()), "positive"),
        ("CUMULATE", (Span(0, 7), Span(0, 10), Span()), "multiple"),
    ],
)
def test_C1_lengths_that_make_no_window_are_refused_with_a_reason(
    function: str, lengths: tuple[Span, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        make_window(function, lengths, NTZ)
