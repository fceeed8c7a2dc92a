"""R1, R2: an upkeep that is ended at any point at which it leaves something behind, and the next one after it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess.session import open_session, without_a_jvm
from tests.inprocess.stored.files import forget_files, path_of
from tests.inprocess.stored.upkeep import files_known
from tests.runtime.undisturbed import Undisturbed, recorded
from tidegate.audit.source import audit_source
from tidegate.iceberg.retire import ROWS
from tidegate.maintenance import upkeep
from tidegate.project.jobs.maintenance import Policy
from tidegate.session.session import Session

SQL = """
CREATE SOURCE clicks (page VARCHAR, id INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '5 minutes')
WITH (connector = 'filesystem', path = 'input', max_files_per_batch = 1) FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW hourly AS SELECT window_start, page, count(*) AS n
FROM TUMBLE(clicks, at, INTERVAL '1 hour') GROUP BY window_start, page EMIT ON WINDOW CLOSE;
"""
#: Nothing old is kept, and every file that nobody knows goes.
POLICY = Policy(retention=2 * 86_400, keep_snapshots=0, compact_when_files=2, settle=0, orphans_after=0)
LATER = time.time() + 7200
TABLES = ("clicks", "hourly")
#: The rows that retention takes: two of the first and two of the second day, and those of the first that are late.
RETIRED = 2 + 2 + 6
#: In CI the first of many files that are deleted one after the other; in `make property` all.
THOROUGH = os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough"


@pytest.fixture(autouse=True)
def _no_jvm() -> Iterator[None]:
    with without_a_jvm():
        yield


def filled(root: Path) -> Session:
    """A log with many files, some of them beyond their retention, and a view of it."""
    (root / "assets").mkdir(parents=True)
    (root / "assets" / "all.sql").write_text(SQL)
    (root / "input").mkdir()
    session = open_session(root)
    for number, (day, hour) in enumerate([(1, 9), (2, 9), *((6, hour) for hour in range(9, 15))]):
        times = [f"2026-01-{day:02} {hour:02}:00:00", f"2026-01-{day:02} {hour:02}:30:00"]
        times += ["2026-01-01 00:00:00"] if day == 6 else []
        lines = [{"page": "home", "id": 10 * number + n, "at": at} for n, at in enumerate([*times, None])]
        (root / "input" / f"{number}.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        if number in (1, 4, 7):
            session.run()
    return session


def keep_up(session: Session) -> list[upkeep.TableUpkeep]:
    reports = [upkeep.maintain(session, name, POLICY, now=LATER, guard=0, orphans=True) for name in TABLES]
    return [table for report in reports for table in report.tables]


def rows(session: Session) -> dict[str, list[tuple[str, ...]]]:
    """Of each table everything that is stored."""
    found = {name: session.tables.rows(session.identifier(name)).toArrow().to_pylist() for name in TABLES}
    return {name: sorted(tuple(map(str, row.values())) for row in table) for name, table in found.items()}


def facts(session: Session) -> dict[str, Any]:
    """Everything that must not depend on what happened to an upkeep."""
    found: dict[str, Any] = {"rows": rows(session)}
    audit = audit_source(session, "clicks")
    found["audit"] = (audit.ok, audit.raw, audit.retired)
    for name in TABLES:
        shape = session.tables.upkeep(session.identifier(name)).shape()
        found[name] = (shape.files, len(shape.snapshots), shape.properties.get(ROWS))
    return found


def unknown(session: Session) -> set[str]:
    """Files that no snapshot that is kept knows; and every snapshot finds its own."""
    found = set()
    for name in TABLES:
        table = session.tables.open(session.identifier(name))
        root = Path(table.location.removeprefix("file:"))
        there = {
            str(file) for part in ("data", "metadata") for file in (root / part).rglob("*") if file.is_file()
        }
        stored = table._table  # type: ignore[attr-defined]  # as pyiceberg has it
        held = set(map(path_of, files_known(stored)))
        missing = {path for path in held if path.endswith((".parquet", ".avro"))} - there
        assert not missing, missing
        found |= there - held
    return found


@dataclass(frozen=True)
class Kept:
    """An upkeep that nothing ended: the rows before it, what its run passed and left (`Undisturbed`)."""

    before: dict[str, list[tuple[str, ...]]]
    run: Undisturbed


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    root = tmp_path_factory.mktemp("undisturbed") / "project"
    with without_a_jvm(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "MANY_MANIFESTS", 2)
        session = filled(root)
        before = rows(session)
        with recorded(root) as run:
            keep_up(session)
        run.facts.update(facts(session))
        yield Kept(before, run)


@pytest.mark.medium
def test_the_upkeep_does_all_there_is_to_be_broken(kept: Kept) -> None:
    before, after = kept.before, kept.run.facts["rows"]
    assert [len(before[name]) - len(after[name]) for name in TABLES] == [RETIRED, 2]
    assert all(set(after[name]) < set(before[name]) for name in TABLES)
    assert kept.run.facts["audit"][0]
    assert (kept.run.facts["clicks"][0], kept.run.facts["clicks"][2]) == (3, str(RETIRED))
    points = ("InProcessUpkeep._write", "InProcessUpkeep._commit", "InProcessUpkeep._delete", "retire._write")
    for name in points:
        assert any(passed.endswith(name) for passed in kept.run.passed), name
    assert len(kept.run.distinct(THOROUGH)) > 20


@pytest.mark.parametrize("share", [0, pytest.param(1, marks=pytest.mark.long_run)])
@pytest.mark.medium
def test_R1_R2_an_upkeep_is_killed_at_every_point_and_the_next_one_ends_it(share: int, kept: Kept) -> None:
    """What is left is whole: every row that is not retired is there once, no file is gone that a snapshot knows. The
    next upkeep gets to where one that nothing ended gets, and leaves no file that nobody knows."""
    for number in kept.run.distinct(THOROUGH)[share::2]:
        session, point = kept.run.back_to(number), kept.run.passed[number]
        forget_files()
        unknown(session)
        found, after = rows(session), kept.run.facts["rows"]
        assert all(found[name] in (kept.before[name], after[name]) for name in TABLES), point
        assert audit_source(session, "clicks").ok, point
        keep_up(session)
        assert facts(session) == kept.run.facts, point
        assert unknown(session) == set(), point
