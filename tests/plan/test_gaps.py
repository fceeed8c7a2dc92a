"""R5: what is missing for a view's next tick because rows went before it came to them."""

from __future__ import annotations

from tests.plan.test_resets import MINUTE, views
from tidegate.plan.gaps import edge_of, gaps, hole, with_gap
from tidegate.watermark import TimeKind

KIND = TimeKind.TIMESTAMP


def at(minutes: int, **more: int) -> dict[str, str]:
    return {"tidegate.frontier": str(minutes * MINUTE)} | {
        f"tidegate.{k.replace('_', '-')}": str(v * MINUTE) for k, v in more.items()
    }


def test_R5_windows_that_retention_has_cut_are_skipped_and_others_are_not() -> None:
    w = views()["w"]
    found = hole(w, at(100), {"a": (KIND, 125 * MINUTE)})
    assert found is not None
    # The window that ends at 130 has lost rows before 125.
    assert (found.input, found.upto) == ("a", 134 * MINUTE + MINUTE - found_low(w))
    assert "before 1970-01-01 02:05:00" in found.describe()
    # All rows of the next window are there, or no window ends before they are.
    assert hole(w, at(100), {"a": (KIND, 100 * MINUTE)}) is None
    assert hole(w, at(100), {"a": (KIND, None)}) is None
    assert hole(w, {}, {"a": (KIND, 125 * MINUTE)}) is None


def found_low(view: object) -> int:
    """What lies between an edge and the first window end that is whole."""
    low = view.inputs[0].low  # type: ignore[attr-defined]
    return 10 * MINUTE + low


def test_R5_what_reaches_back_can_t_go_on_over_a_hole() -> None:
    s = views()["s"]
    found = hole(s, at(100), {"a": (KIND, 125 * MINUTE)})
    assert found is not None
    assert found.upto is None
    # An open session began before the edge.
    assert hole(s, at(130, earliest_open=120), {"a": (KIND, 125 * MINUTE)}) is not None
    assert hole(s, at(130, earliest_open=126), {"a": (KIND, 125 * MINUTE)}) is None
    # Rows from the edge on are there; one tick before it nobody knows.
    low = s.inputs[0].low
    assert low is not None
    for lacking, is_whole in ((0, True), (1, False)):
        own = {"tidegate.frontier": str(125 * MINUTE - low - lacking)}
        assert (hole(s, own, {"a": (KIND, 125 * MINUTE)}) is None) == is_whole


def test_R5_what_a_view_has_skipped_its_readers_skip() -> None:
    summary = with_gap({}, 1, 5)
    for i in range(2, 40):
        summary = with_gap(summary, 10 * i, 10 * i + 5)
    assert len(gaps(summary)) == 20
    assert gaps(summary)[0][0] == 1
    assert gaps(summary)[-1] == (390, 395)
    assert edge_of(summary, 200) == 396
    assert edge_of({}, None) is None
