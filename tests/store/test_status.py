"""Status: what is said about sources and views of every kind of time, run or not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.store.tables import HadoopTable, progress_row, write_progress
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store import ProjectStatus, read_status
from tidegate.store.holding import holding_back
from tidegate.store.metadata import ProgressRow

SQL = """
CREATE TABLE epochs (seq BIGINT, WATERMARK FOR seq AS seq - 5) APPEND ONLY;
CREATE TABLE days (d DATE, WATERMARK FOR d AS d - INTERVAL '1 day') APPEND ONLY;
CREATE TABLE zoned (at TIMESTAMPTZ, WATERMARK FOR at AS at) APPEND ONLY;
CREATE TABLE plain (a INT) APPEND ONLY;
CREATE MATERIALIZED VIEW tens AS
  SELECT window_start, count(*) AS n FROM TUMBLE(epochs, seq, 10) GROUP BY window_start EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW early AS
  SELECT window_start, count(*) AS n FROM TUMBLE(epochs, seq, 10) GROUP BY window_start;
"""
NOON = datetime(2020, 1, 10, 12, tzinfo=UTC)


class Stored:
    """A project with these definitions, and tables made by hand."""

    def __init__(self, root: Path) -> None:
        (root / "assets").mkdir()
        (root / "assets" / "all.sql").write_text(SQL)
        self.project = Project.load(root)
        self._warehouse = root / ".tidegate" / "warehouse" / "main"

    def commit(self, name: str, **summary: object) -> None:
        """A commit of tidegate with this summary."""
        keys = {f"tidegate.{k}": v for k, v in summary.items()}
        HadoopTable(self._warehouse / name).commit(keys, at_ms=1_577_836_800_000)

    def progress(self, name: str, *rows: dict) -> Path:
        """A progress file of a table."""
        return write_progress(self._warehouse / name / "data" / "progress.parquet", list(rows))

    def status(self, *names: str) -> ProjectStatus:
        """Status at noon of 2020-01-10."""
        return read_status(self.project, names, NOON)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def test_before_the_first_run_everything_is_zero_and_nothing_fails(stored: Stored) -> None:
    found = stored.status()
    assert [r.name for r in found.relations] == ["epochs", "days", "zoned", "plain"]
    assert {r.ran for r in found.relations} == {v.ran for v in found.views} == {False}
    assert [r.watermark_text for r in found.relations] == ["none yet", "none yet", "none yet", "none"]
    assert not stored.project.state_dir.exists()


@pytest.mark.parametrize(
    ("name", "watermark", "newest", "text", "lag", "behind"),
    [
        ("epochs", 95, 100, "95", None, None),
        ("days", 18_270, 18_271, "2020-01-09", 1.5 * 86_400, 86_400.0),
        ("zoned", 1_578_657_600_000_000, 1_578_657_600_500_000, "2020-01-10 12:00:00+00:00", 0.0, 0.5),
    ],
)
def test_lag_in_seconds_for_every_kind_of_time(
    stored: Stored, name: str, watermark: int, newest: int, text: str, lag: float | None, behind: float | None
) -> None:
    path = stored.progress(name, progress_row("", watermark=watermark, max_event_time=newest, on_time=3))
    stored.commit(name, epoch=1, watermark=watermark, progress=path, on_time=3, late=1, rejected=2)
    (found,) = stored.status(name).relations
    assert (found.watermark_text, found.lag, found.behind_newest) == (text, lag, behind)
    assert (found.raw, found.on_time, found.late, found.rejected) == (6, 3, 1, 2)
    assert (found.ran, found.committed_at) == (True, "2020-01-01T00:00:00+00:00")


def test_a_view_is_current_unless_a_window_waits_to_be_closed(stored: Stored) -> None:
    stored.commit("epochs", epoch=3, watermark=27)
    before = '{"epochs": {"snapshot": 90, "commit": 90}}'
    stored.commit("tens", inputs=before, frontier=25, groups=2, open=0)
    stored.commit("early", inputs=before, frontier=25, groups=2, open=1)
    views = {v.name: v for v in stored.status().views}
    assert (views["tens"].current, views["early"].current) == (True, False)
    stored.commit("epochs", epoch=4, watermark=30)
    assert not stored.status("tens").views[0].current
    assert stored.status("tens").relations == ()


def test_a_system_table_is_its_source(stored: Stored) -> None:
    assert [r.name for r in stored.status("epochs$late").relations] == ["epochs"]
    with pytest.raises(TidegateError, match="epohcs"):
        stored.status("epohcs")


def part(name: str, watermark: int | None, state: str = "active") -> ProgressRow:
    return ProgressRow(name, watermark, None, state, 0, 0, 0, 0, None)


@pytest.mark.parametrize(
    ("published", "partitions", "holding"),
    [
        (None, [], ()),
        (None, [part("a", 5), part("b", None, "empty")], ("b",)),
        (None, [part("a", 5), part("(unknown)", None)], ()),
        (3, [part("a", 5), part("b", 3), part("c", 3)], ("b", "c")),
        (3, [part("a", 3), part("b", 3)], ()),
        (3, [part("a", 3)], ()),
        (5, [part("a", 5), part("b", 3, "idle")], ()),
    ],
)
def test_W6_who_holds_the_watermark_back(
    published: int | None, partitions: list[ProgressRow], holding: tuple[str, ...]
) -> None:
    assert holding_back(published, partitions) == holding


CHAIN = """
CREATE TABLE one (t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;
CREATE TABLE two (t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;
CREATE MATERIALIZED VIEW both_ AS SELECT t FROM one UNION ALL SELECT t FROM two EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW visits AS SELECT window_start, window_end, count(*) AS n
  FROM SESSION(both_, t, INTERVAL '1 minute') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW daily AS SELECT window_start, count(*) AS n
  FROM TUMBLE(visits, window_start, INTERVAL '1 day') GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
HOUR = 3_600_000_000


def test_D2_D3_a_view_stands_where_its_inputs_let_it_and_says_which_holds_it_back(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "all.sql").write_text(CHAIN)
    stored = Stored.__new__(Stored)
    stored.project, stored._warehouse = Project.load(tmp_path), tmp_path / ".tidegate" / "warehouse" / "main"
    stored.commit("one", epoch=1, watermark=30 * HOUR)
    both, visits, daily = stored.status("both_", "visits", "daily").views
    assert (both.clock_text, both.holds_back, both.ran) == ("none yet", ("two",), False)
    stored.commit("two", epoch=1, watermark=28 * HOUR)
    stored.commit("both_", frontier=25 * HOUR, groups=3, open=0)
    # An open session began an hour before the frontier: no day is over before it is.
    stored.commit("visits", **{"frontier": 25 * HOUR, "earliest-open": 23 * HOUR, "groups": 2, "open": 0})
    stored.commit("daily", frontier=23 * HOUR, groups=0, open=0)
    both, visits, daily = stored.status("both_", "visits", "daily").views
    assert (both.clock_text, both.holds_back, both.behind) == ("1970-01-02 04:00:00", ("two",), 3 * 3600)
    assert (both.current, visits.current, daily.current) == (False, True, True)
    assert (daily.reads, daily.clock, daily.behind) == (("visits",), 23 * HOUR, 0)
