"""jobs/maintenance.yaml: what is set, for which table, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.errors import TidegateError
from tidegate.project.jobs.jobs import Jobs, load_jobs
from tidegate.project.jobs.maintenance import Maintenance, Policy, load_maintenance
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.statements.analysis import analyse

SQL = """
CREATE TABLE clicks (page VARCHAR, at TIMESTAMP, WATERMARK FOR at AS at) APPEND ONLY;
CREATE TABLE ticks (n BIGINT, WATERMARK FOR n AS n) APPEND ONLY;
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, count(*) AS n FROM TUMBLE(clicks, at, INTERVAL '1 hour')
GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
GOOD = """\
defaults: {keep_snapshots: 2 hours, target_file_size: 64 MB}
tables:
  Clicks: {retention: 90 days, history: 2 weeks, compact_when_files: 7}
  hourly: {retention: 730 days, keep_snapshots: 1 day}
"""


def catalog() -> Catalog:
    found = Catalog()
    for statement in analyse(SQL, found):
        made = getattr(statement, "relation", None) or getattr(statement, "view", None)
        if made is not None and made.name not in found:
            found.add(made)
    return found


def maintenance(root: Path, text: str) -> Maintenance:
    (root / "jobs").mkdir(exist_ok=True)
    (root / "jobs" / "maintenance.yaml").write_text(text)
    return load_maintenance(root)


def test_policies_of_tables(tmp_path: Path) -> None:
    assert load_maintenance(tmp_path).of("clicks") == Policy()
    found = maintenance(tmp_path, GOOD)
    found.check(catalog())
    day = 86_400
    assert found.of("other") == Policy(keep_snapshots=7200, target_file_size=64 << 20)
    assert found.of("clicks") == Policy(7200, 1000, 7, 64 << 20, retention=90 * day, history=14 * day)
    assert found.of("HOURLY") == Policy(day, target_file_size=64 << 20, retention=730 * day)
    # It is none of the files with schedules.
    assert load_jobs(tmp_path) == Jobs()


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("defaults: {keep_snapshot: 1 day}", "TG604", 1, "keep_snapshots"),
        ("defaults:\n  keep_snapshots: 5 minutes", "TG605", 2, "at least 10 minutes"),
        ("defaults:\n  orphans_after: 1 hour", "TG605", 2, "at least a day"),
        ("defaults:\n  target_file_size: 128", "TG605", 2, "a size needs a unit"),
        ("tables:\n  clicks:\n    retention: 36 hours", "TG605", 3, "must be whole days"),
        ("tables:\n  hourly:\n    history: 3 days", "TG605", 3, "a view judges no rows"),
        ("tables:\n  ticks:\n    retention: 3 days", "TG605", 3, "a number has no unit"),
        (
            "tables:\n  clics: {retention: 3 days}",
            "TG609",
            2,
            'there is no source, table or view "clics"',
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, code: str, line: int, words: str) -> None:
    with pytest.raises(TidegateError) as refused:
        maintenance(tmp_path, text).check(catalog())
    error = refused.value
    assert (error.code, error.location.line) == (code, line)
    assert words in f"{error.message} {error.hint}"


def test_the_repositorys_own_file_states_the_defaults() -> None:
    assert load_maintenance(ROOT).of("flights") == Policy()
