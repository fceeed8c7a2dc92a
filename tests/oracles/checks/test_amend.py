"""The oracle of amendments against examples worked out by hand (B1-B3)."""

from __future__ import annotations

from tests.oracles.amend import Amended
from tests.oracles.oracle import Oracle, Row, View


def played() -> Oracle:
    oracle = Oracle(
        strategy=lambda row: row.event_time, views=[View("v", 10, aggregates={"n": ("count", None)})]
    )
    oracle.enumerate(["0"])
    for offset, time in enumerate([1, 12, 25, 3, 14, 21]):
        oracle.read(Row("0", offset, time))
    oracle.flush()
    return oracle


def test_B3_only_closed_windows_that_late_rows_hit() -> None:
    amended = Amended(played(), "v")
    # 3 and 14 are late in closed windows; 21 is late in [20, 30), which is open.
    assert amended.amend() == [0, 10]
    assert [(g["window_start"], g["n"]) for g in amended.shows()] == [(0, 2), (10, 2)]
    assert amended.amend() == []


def test_B3_what_was_late_in_an_open_window_is_found_when_it_has_closed() -> None:
    oracle = played()
    amended = Amended(oracle, "v")
    amended.amend()
    oracle.read(Row("0", 6, 30))
    oracle.flush()
    assert amended.amend() == [20]
    assert [r.number for r in amended.revisions[20]] == [1, 2]


def test_B2_every_revision_stays() -> None:
    oracle = played()
    amended = Amended(oracle, "v")
    amended.amend()
    oracle.read(Row("0", 6, 5))
    oracle.flush()
    assert amended.amend() == [0]
    assert [(r.number, r.late, r.groups[0]["n"]) for r in amended.revisions[0]] == [
        (1, 0, 1),
        (2, 1, 2),
        (3, 1, 3),
    ]
