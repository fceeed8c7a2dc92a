"""What several changes of columns come to in all (E2, E3)."""

from __future__ import annotations

import pytest

from tidegate.plan.columns.changes import ColumnChange, described, in_all

A = ColumnChange("rename", "a", "b")
BACK = ColumnChange("rename", "b", "a")
GONE, NEW = ColumnChange("drop", "a"), ColumnChange("add", "a", "int")


ORDER = ColumnChange("reorder", "b, a", was="a, b")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([A, BACK], ""),
        ([A, ColumnChange("rename", "b", "c")], 'column "a" is renamed to "c"'),
        ([NEW, GONE], ""),
        ([GONE, NEW], 'column "a" is dropped; column "a" INT is added'),
        ([A, NEW], 'column "a" is renamed to "b"; column "a" INT is added'),
        ([A, NEW, GONE, BACK], ""),
        (
            [ColumnChange("widen", "a", "bigint", "int"), A],
            'column "a" is renamed to "b"; column "b" is widened',
        ),
        ([NEW, ColumnChange("widen", "a", "bigint", "int")], 'column "a" BIGINT is added'),
        ([ColumnChange("relax", "a")], ""),
        # What takes columns by their place sees it (O1, R4).
        ([ORDER], "the order of the columns is b, a"),
        ([ORDER, ColumnChange("reorder", "a, b", was="b, a")], ""),
        # A log of an earlier release does not say what it was.
        ([ColumnChange("reorder", "b, a")], ""),
    ],
)
def test_E2_E3_changes_that_cancel_out_are_none(changes: list[ColumnChange], said: str) -> None:
    found = described(in_all(changes))
    assert found == said if not said.endswith("widened") else found.startswith(said)
