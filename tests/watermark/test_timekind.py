"""W10: the four kinds of event time, each an integer inside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.watermark import TimeKind, micros_of

HOUR = 3_600_000_000
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (TimeKind.TIMESTAMP, 1_357_016_400_000_000, "2013-01-01 05:00:00"),
        (TimeKind.TIMESTAMP, 1_357_016_400_500_000, "2013-01-01 05:00:00.5"),
        (TimeKind.TIMESTAMP, -1, "1969-12-31 23:59:59.999999"),
        (TimeKind.TIMESTAMPTZ, 1_357_016_400_000_000, "2013-01-01 05:00:00+00:00"),
        (TimeKind.DATE, 15_706, "2013-01-01"),
        (TimeKind.DATE, -1, "1969-12-31"),
        (TimeKind.EPOCH, -42, "-42"),
    ],
)
def test_W10_a_time_is_printed_as_iso_and_read_back(kind: TimeKind, value: int, text: str) -> None:
    assert kind.format(value) == text
    assert kind.parse(text) == value


@pytest.mark.medium
@given(st.sampled_from(TimeKind), st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_W10_every_time_of_years_1_to_9999_survives_format_and_parse(kind: TimeKind, value: int) -> None:
    value = value // DAY if kind is TimeKind.DATE else value
    assert kind.parse(kind.format(value)) == value


@pytest.mark.parametrize("kind", TimeKind)
def test_W1_an_undefined_time_says_so(kind: TimeKind) -> None:
    assert kind.format(None) == "none yet"


def test_W10_years_beyond_pythons_calendar_are_printed_too() -> None:
    assert TimeKind.TIMESTAMP.format(2**63 - 1) == "+294247-01-10 04:00:54.775807"
    assert TimeKind.TIMESTAMP.format(-(2**63)) == "-290308-12-21 19:59:05.224192"
    assert TimeKind.DATE.format(3_000_000) == "+10183-09-21"


@pytest.mark.parametrize("text", ["2013-01-01 07:00:00+02", "2013-01-01T05:00Z", "2013-01-01 05:00:00"])
def test_W10_timestamptz_is_kept_in_utc(text: str) -> None:
    assert TimeKind.TIMESTAMPTZ.parse(text) == 1_357_016_400_000_000


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TimeKind.TIMESTAMP, "2013-01-01 05:00:00+02"),
        (TimeKind.TIMESTAMP, "yesterday"),
        (TimeKind.TIMESTAMP, "2013-02-30 05:00:00"),
        (TimeKind.TIMESTAMP, "2013-01-01 05:00:00.1234567"),
        (TimeKind.TIMESTAMP, ""),
        (TimeKind.DATE, "2013-01-01 05:00:00"),
        (TimeKind.EPOCH, "1.5"),
        (TimeKind.EPOCH, "9223372036854775808"),
    ],
)
def test_W5_what_is_no_time_is_never_read_as_one(kind: TimeKind, text: str) -> None:
    with pytest.raises(ValueError):
        kind.parse(text)


def test_W10_only_times_and_integers_can_carry_a_watermark() -> None:
    kinds = {"timestamp_ntz": TimeKind.TIMESTAMP, "timestamp": TimeKind.TIMESTAMPTZ, "date": TimeKind.DATE}
    kinds |= dict.fromkeys(["bigint", "int", "smallint", " BIGINT "], TimeKind.EPOCH)
    for ddl, kind in kinds.items():
        assert TimeKind.from_spark_type(ddl) is kind
    for ddl in ["string", "double", "decimal(28,10)", "struct<a:int>", "boolean"]:
        assert TimeKind.from_spark_type(ddl) is None


def test_W10_a_literal_has_the_type_of_the_column() -> None:
    assert TimeKind.TIMESTAMP.spark_literal(0) == "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
    assert TimeKind.TIMESTAMPTZ.spark_literal(0) == "TIMESTAMP_LTZ '1970-01-01 00:00:00+00:00'"
    assert TimeKind.DATE.spark_literal(1) == "DATE '1970-01-02'"
    assert TimeKind.EPOCH.spark_literal(-7) == "-7"


def test_W11_an_interval_is_counted_in_the_columns_unit() -> None:
    assert TimeKind.TIMESTAMP.ticks(days=1, micros=HOUR) == 25 * HOUR
    assert TimeKind.TIMESTAMPTZ.ticks(micros=5_000_000) == 5_000_000
    assert TimeKind.DATE.ticks(days=2) == 2
    assert TimeKind.DATE.ticks(micros=48 * HOUR) == 2


@pytest.mark.parametrize(
    ("kind", "interval"),
    [
        (TimeKind.TIMESTAMP, {"months": 1}),
        (TimeKind.DATE, {"months": 12}),
        (TimeKind.DATE, {"micros": HOUR}),
        (TimeKind.EPOCH, {"micros": 1}),
        (TimeKind.EPOCH, {}),
    ],
)
def test_W11_an_interval_without_a_fixed_length_in_that_unit_is_refused(
    kind: TimeKind, interval: dict[str, int]
) -> None:
    with pytest.raises(ValueError):
        kind.ticks(**interval)


@pytest.mark.parametrize(
    ("kind", "ticks", "text"),
    [
        (TimeKind.TIMESTAMP, 90 * 60_000_000, "90 minutes"),
        (TimeKind.TIMESTAMP, HOUR, "1 hour"),
        (TimeKind.TIMESTAMP, 48 * HOUR, "2 days"),
        (TimeKind.TIMESTAMP, 1_500_000, "1500 milliseconds"),
        (TimeKind.TIMESTAMP, 0, "0 seconds"),
        (TimeKind.DATE, 1, "1 day"),
        (TimeKind.DATE, 0, "0 days"),
        (TimeKind.EPOCH, 90, "90"),
    ],
)
def test_W11_a_length_is_printed_in_its_largest_unit(kind: TimeKind, ticks: int, text: str) -> None:
    assert kind.format_duration(ticks) == text


@given(st.integers(-(2**40), 2**53))
def test_W10_an_instant_is_its_microseconds_exactly(micros: int) -> None:
    """A double of seconds rounds some of them from 2038 on."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    assert micros_of(at) == micros
    assert micros_of(datetime(2039, 1, 1, 12, 47, 10, 525417, UTC)) == 2177498830525417
