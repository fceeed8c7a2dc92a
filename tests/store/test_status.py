"""Status: what is said about sources and views of every kind of time, run or not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.store.tables import HadoopTable, progress_row, write_progress
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.store import ProjectStatus, read_status
from tidegate.store.metadata import Progress
from tidegate.store.status import holding_back

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
        """A commit of tidegate with this summary; dashes for underscores where Iceberg has them."""
        keys = {f"tidegate.{k.replace('upstream_', 'upstream-')}": v for k, v in summary.items()}
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
    stored.commit("tens", upstream_epoch=2, frontier=25, groups=2, open=0)
    stored.commit("early", upstream_epoch=2, frontier=25, groups=2, open=1)
    views = {v.name: v for v in stored.status().views}
    assert (views["tens"].current, views["early"].current) == (True, False)
    stored.commit("epochs", epoch=4, watermark=30)
    assert not stored.status("tens").views[0].current
    assert stored.status("tens").relations == ()


def test_a_system_table_is_its_source(stored: Stored) -> None:
    assert [r.name for r in stored.status("epochs$late").relations] == ["epochs"]
    with pytest.raises(TidegateError, match="epohcs"):
        stored.status("epohcs")


def part(name: str, watermark: int | None, state: str = "active") -> Progress:
    return Progress(name, watermark, None, state, 0, 0, 0, 0, None)


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
    published: int | None, partitions: list[Progress], holding: tuple[str, ...]
) -> None:
    assert holding_back(published, partitions) == holding
