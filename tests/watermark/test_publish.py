"""W6 and R3: the watermark of a source, and where a new partition starts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.watermark import publish, start_watermark

marks = st.none() | st.integers(-5, 5)


def test_W6_g_is_the_minimum_of_the_partitions() -> None:
    assert publish([30, 10, 20], None) == 10


def test_W6_g_waits_until_every_partition_has_a_watermark() -> None:
    assert publish([30, None], None) is None
    assert publish([30, None], 5) == 5


def test_W6_without_partitions_g_holds() -> None:
    assert publish([], None) is None
    assert publish([], 5) == 5


def test_W6_g_never_goes_back() -> None:
    assert publish([4, 9], 5) == 5


@given(st.lists(marks), marks)
def test_W6_g_is_a_mark_of_a_partition_or_stays(watermarks: list[int | None], previous: int | None) -> None:
    g = publish(iter(watermarks), previous)
    assert g == previous or g == min(m for m in watermarks if m is not None)
    assert previous is None or (g is not None and g >= previous)


def test_R3_a_new_partition_starts_at_g() -> None:
    assert start_watermark(7) == 7
    assert start_watermark(None) is None
