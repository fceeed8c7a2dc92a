"""Small worlds side by side on the whole engine: windows, sessions, sorted rows, amendments, tables WITH TTL. Each test
plays some of the crashes; `make worlds` plays all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.inprocess.session import without_a_jvm
from tests.small import groups, tables
from tests.small.groups import Group
from tests.small.histories import histories
from tests.small.tables import TableGroup
from tests.small.walk import WrongError
from tidegate.tables import table
from tidegate.tasks import panes
from tidegate.views import ways
from tidegate.views.amend import amend
from tidegate.watermark import Hop, Tumble, gate

pytestmark = pytest.mark.medium


@pytest.fixture(autouse=True)
def _no_jvm() -> Iterator[None]:
    with without_a_jvm():
        yield


def group(*published: int | None) -> Group:
    """The worlds of as many rows as batches that publish this, batch by batch."""
    found = groups.groups(histories(groups.SECONDS, len(published)), len(published))
    return next(one for one in found if one.published == published and not one.backlog)


def table_group(*published: int | None) -> TableGroup:
    found = tables.groups(histories(tables.SECONDS, len(published)), len(published))
    return next(one for one in found if one.published == published)


@pytest.mark.parametrize("published", [(15, 15), (10, 10)], ids=str)
def test_C2_C3_C4_R2_windows_sessions_and_sorted_rows_close_once(published: tuple[int, ...]) -> None:
    worlds = group(*published)
    counted = groups.walked(worlds, ("tumbling", "hopping", "visits", "sorted"), most=3)
    assert counted.moves == 4
    assert counted.cases > 100


def test_B1_B2_B3_R2_amendments_absorb_each_late_row_once() -> None:
    worlds = group(30, 30)
    assert groups.walked(worlds, ("tumbling",), amends=True, most=2).cases > 100


def test_T1_T2_T4_R2_a_table_holds_the_last_change_of_each_life() -> None:
    assert tables.walked(table_group(0, 15, 15), most=3).cases > 200


# -- a defect each ---------------------------------------------------------------------------------------------

Held = Callable[[], Any]


def _expects(play: Held, rule: str) -> None:
    with pytest.raises(WrongError, match=rule):
        play()


@pytest.mark.parametrize(("view", "window"), [("tumbling", Tumble), ("hopping", Hop)])
def test_C2_a_window_that_waits_for_more_than_its_end_is_noticed(
    monkeypatch: pytest.MonkeyPatch, view: str, window: Any
) -> None:
    real = window.watermark_start
    monkeypatch.setattr(window, "watermark_start", lambda self, mark: real(self, mark - 1))
    _expects(lambda: groups.held(groups.script(group(10, 10), (view,))), "C2")


def test_C3_a_session_that_waits_for_more_than_its_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        panes, "window_is_closed", lambda end, mark: end < end if mark is None else end < mark
    )
    _expects(lambda: groups.held(groups.script(group(15, 15), ("visits",))), "C2: visits")


def test_C4_a_row_at_the_watermark_that_is_released_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F

    monkeypatch.setattr(
        ways, "window_is_closed", lambda end, mark: end - F.expr("INTERVAL '1' MICROSECOND") <= mark
    )
    _expects(lambda: groups.held(groups.script(group(10, 30, 30), ("sorted",))), "C2: sorted")


def test_B3_a_window_that_an_amendment_does_not_find_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = amend.candidates
    monkeypatch.setattr(amend, "candidates", lambda *given: (real(*given) or [])[1:])
    _expects(lambda: groups.held(groups.script(group(30, 30), ("tumbling",), amends=True)), "B1")


def test_T1_a_change_at_the_watermark_that_counts_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gate.is_late
    monkeypatch.setattr(
        gate, "is_late", lambda time, own, published, expires=False: real(time, own, published)
    )
    _expects(lambda: tables.walked(table_group(-5, -5, -5), most=0), "T2, T4")


def test_T2_a_row_at_the_watermark_that_goes_on_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F

    real = table.lives

    def lives(relation: Any, changes: Any, resets: Any = ()) -> Any:
        earlier = F.col("_wm") - F.expr("INTERVAL '1' MICROSECOND")
        return real(relation, changes.withColumn("_wm", earlier), resets)

    monkeypatch.setattr(table, "lives", lives)
    _expects(lambda: tables.walked(table_group(15, 15, 15), most=0), "T2, T4")
