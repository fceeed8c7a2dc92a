"""Windows over the preceding rows inside a strategy (W11): against plain lists, under any cut (W4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.watermark import PrecedingRows
from tidegate.watermark.preceding import Values, over, recall, remember

Number = int | float | None


def window(function: str, start: int, end: int = 0, type_: str = "bigint") -> PrecedingRows:
    return PrecedingRows(function, "v", start, end, type_, type_)


def values(numbers: list[Number], type_: str = "bigint") -> Values:
    dtype = np.float64 if type_ == "double" else np.int64
    return Values(
        np.array([0 if n is None else n for n in numbers], dtype=dtype),
        np.array([n is not None for n in numbers], bool),
    )


def plain(w: PrecedingRows, numbers: list[Number]) -> list[Number]:
    """What SQL says, one frame after the other."""
    out: list[Number] = []
    for row in range(len(numbers)):
        frame = numbers[max(row - w.start, 0) : max(row - w.end + 1, 0)]
        there: list[Any] = [n for n in frame if n is not None]
        if w.function == "lag":
            out.append(numbers[row - w.start] if row >= w.start else None)
        elif w.function == "first_value":
            out.append(frame[0] if frame else None)
        elif w.function == "count":
            out.append(len(there))
        elif not there:
            out.append(None)
        elif w.function == "avg":
            out.append(added([float(n) for n in there]) / len(there))
        elif w.function == "sum":
            total = added(there)
            fits = isinstance(total, float) or -(2**63) <= total < 2**63
            out.append(total if fits else None)
        else:
            # NaN is the largest number there is, as in Spark.
            pick = max if w.function == "max" else min
            out.append(pick(there, key=lambda n: (isinstance(n, float) and math.isnan(n), n)))
    return out


def added(numbers: list[Any]) -> Any:
    total = type(numbers[0])(0)
    for number in numbers:
        total += number
    return total


def run(
    windows: tuple[PrecedingRows, ...], columns: list[list[Number]], cuts: list[int]
) -> list[list[Number]]:
    """Each window's values, the rows cut into calls at these places."""
    memory, out = None, [[] for _ in windows]
    for start, end in zip([0, *cuts], [*cuts, len(columns[0])], strict=True):
        judged = [values(c[start:end], w.type) for w, c in zip(windows, columns, strict=True)]
        for i, (w, before) in enumerate(zip(windows, recall(windows, memory), strict=True)):
            found = over(w, before, judged[i])
            out[i] += [
                n if ok else None for n, ok in zip(found.numbers.tolist(), found.valid.tolist(), strict=True)
            ]
        memory = remember(windows, memory, judged)
    return out


def test_W11_the_largest_of_the_row_and_the_ten_before_it() -> None:
    numbers: list[Number] = [1, 50, 3, *range(4, 15)]
    found = run((window("max", 10),), [numbers], [])[0]
    assert found == [1, 50, 50, *[50] * 9, 13, 14]


@pytest.mark.parametrize(
    ("function", "start", "end", "expected"),
    [
        ("min", 2, 0, [5, 5, 5, 2, 2]),
        ("sum", 1, 0, [5, 12, 7, 2, 11]),
        ("count", 1, 0, [1, 2, 1, 1, 2]),
        ("avg", 1, 0, [5.0, 6.0, 7.0, 2.0, 5.5]),
        ("max", 2, 1, [None, 5, 7, 7, 2]),
        ("lag", 2, 2, [None, None, 5, 7, None]),
        ("first_value", 2, 0, [5, 5, 5, 7, None]),
    ],
)
def test_W11_each_function_by_hand(function: str, start: int, end: int, expected: list[Number]) -> None:
    numbers: list[Number] = [5, 7, None, 2, 9]
    w = window(function, start, end)
    for cuts in ([], [1, 2, 3, 4], [3]):
        assert run((w,), [numbers], cuts) == [expected]
    assert plain(w, numbers) == expected


@pytest.mark.parametrize(
    ("function", "expected"),
    [("max", [1.0, math.nan, math.nan, 2.0, -math.inf]), ("min", [1.0, 1.0, 2.0, -math.inf, -math.inf])],
)
def test_C7_nan_is_the_largest_number_there_is(function: str, expected: list[Number]) -> None:
    numbers: list[Number] = [1.0, math.nan, 2.0, -math.inf, None]
    w = window(function, 1, type_="double")
    assert repr(run((w,), [numbers], [2])) == repr([expected])
    assert repr(plain(w, numbers)) == repr(expected)


def test_W11_a_sum_that_does_not_fit_is_null() -> None:
    big = 2**62
    assert run((window("sum", 2),), [[big, big - 1, 1, -5]], []) == [[big, 2 * big - 1, None, big - 5]]


def test_R1_the_memory_is_only_as_long_as_the_longest_look_back() -> None:
    windows = (window("max", 3), window("lag", 1, 1))
    memory = remember(windows, None, [values(list(range(1000)))] * 2)
    assert [v.numbers.tolist() for v in recall(windows, memory)] == [[997, 998, 999], [999]]
    # What another strategy left is not taken for this one's.
    assert [len(v.numbers) for v in recall((window("min", 3),), memory)] == [0]


integers = st.none() | st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1, 2**62])
floats = (
    st.none() | st.floats(-10, 10).map(lambda f: f + 0.0) | st.sampled_from([math.nan, math.inf, -math.inf])
)
functions = st.sampled_from(["max", "min", "sum", "count", "avg", "lag", "first_value"])


@pytest.mark.medium
@given(functions, st.booleans(), st.integers(0, 9), st.integers(0, 9), st.data())
def test_W4_any_window_under_any_cut_is_what_sql_says(
    function: str, double: bool, a: int, b: int, data: st.DataObject
) -> None:
    start, end = (a, a) if function == "lag" else (max(a, b), min(a, b))
    w = window(function, start, end, "double" if double else "bigint")
    numbers = data.draw(st.lists(floats if double else integers, max_size=30))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=5)))
    assert repr(run((w,), [numbers], cuts)[0]) == repr(plain(w, numbers))
