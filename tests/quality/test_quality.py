"""A1, W5: what somebody does to a log or a view behind our back is found by the checks, with the windows named; and the
team's own expectations, on what is new."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.support.by_hand import by_hand
from tidegate.project import Project
from tidegate.quality.model import ExpectationOutcome, SuiteResult, WindowSpan
from tidegate.quality.run import Request, check_quality
from tidegate.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = ", ".join(
    f"('{k}', 1, '2026-01-01 00:0{minute}:0{second}')"
    for minute in range(5)
    for second, k in ((1, "a"), (2, "b"), (3, "a"))
)
# Five closed minutes of a, b, a; in the last one a row that is late, one that the view filters, one without a time.
SETUP = f"""
CREATE TABLE t (k VARCHAR, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW v AS SELECT window_start, window_end, k, count(*) AS c
FROM TUMBLE(t, ts, INTERVAL '1 minute') WHERE n > 0 GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW s AS SELECT ts, k FROM t WHERE k = 'b' EMIT ON WINDOW CLOSE;
INSERT INTO t VALUES {MINUTES}, ('b', 1, '2026-01-01 00:04:00'), ('c', 0, '2026-01-01 00:04:30'), ('a', 1, NULL),
  ('a', 1, '2026-01-01 05:00:00'), ('z', 1, '2026-01-01 06:00:00');
FLUSH;
"""


def check(session: Session, *names: str, **asked: object) -> dict[tuple[str, str], SuiteResult]:
    results = check_quality(session, names, Request(**asked))  # type: ignore[arg-type]
    return {(r.asset, r.suite): r for r in results}


def quality(workbench: Workbench, **files: str) -> None:
    (workbench.root / "quality").mkdir(exist_ok=True)
    for name, text in files.items():
        (workbench.root / "quality" / f"{name}.yaml").write_text(f"asset: {name}\n{text}")


def failing(result: SuiteResult) -> dict[str, list[str | None]]:
    """By expectation: which lines fail it, windows by their end."""
    return {o.text: keys(o) for o in result.failed}


def keys(outcome: ExpectationOutcome) -> list[str | None]:
    name = next(c for c in ("window_end", "partition", "day") if c in outcome.columns)
    return [line[outcome.columns.index(name)] for line in outcome.failing]


def ends(*minutes: int) -> list[str]:
    return [f"2026-01-01 00:0{minute}:00" for minute in minutes]


@pytest.mark.runner("inprocess")
def test_A1_corrupted_windows_are_named(
    workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    limits = "reconciliation: {least_rows: 1, late_rate: 10 %, longest_gap: 5 hours}\n"
    quality(workbench, v=limits)
    session = workbench.session()
    session.execute(SETUP)

    healthy = check(session, "v", "s", docs=tmp_path / "docs")
    assert list(healthy) == [("v", "reconciliation"), ("v", "late_rate"), ("s", "reconciliation")]
    assert [failing(r) for r in healthy.values()] == [{}, {}, {}]
    assert healthy["v", "reconciliation"].scope == "6 windows up to 2026-01-01 05:01:00"
    assert {o.checked for o in healthy["v", "reconciliation"].outcomes[:4]} == {6}
    # One page for each asset; nothing in the user's home, nothing else in the project.
    assert healthy["v", "late_rate"].docs == str(tmp_path / "docs" / "v" / "index.html")
    assert (tmp_path / "docs" / "s" / "index.html").is_file()
    assert list(home.iterdir()) == []
    assert not list(workbench.root.glob("gx*"))

    corrupt(session)
    quality(workbench, v=limits.replace("10 %", "3 %").replace("5 hours", "4 hours"))

    found = check(session, "v", "s", "t", docs=None)
    reconciled = found["v", "reconciliation"]
    assert reconciled.critical
    # A window that is gone makes no quiet time longer than there was: 4 h 55 min, which are more than 4 hours.
    assert failing(reconciled) == {
        "A1: raw = counted + filtered + late + rejected in every closed window": ends(1, 2, 4, 5),
        "A1: every group of a window counts the rows that the log has for it": ends(1, 2, 3, 4, 5),
        "no gap in windows: what the log has rows for is in the view": ends(4),
        "no gap in windows: none of more than 4 hours between two of them": ["2026-01-01"],
        "no window twice: each was emitted once, by one commit (C2)": ends(2),
        "W5: the log has every row that was committed": ["0"],
        "W5: no offset is missing from the log": ["0"],
    }
    missing = next(o for o in reconciled.failed if "offset is missing" in o.text)
    assert missing.failing[0][missing.columns.index("offsets_missing")] == "12-13"
    late = found["v", "late_rate"]
    assert (late.passed, late.critical) == (False, False)
    assert keys(late.failed[0]) == ["2026-01-01"]
    # A sorted view has no accounts: its rows are compared with what the query gives now.
    texts = {o.text.partition(":")[0]: o.failing[0][1][:16] for o in found["s", "reconciliation"].failed}
    assert texts["no gap in windows"] == "2026-01-01 00:01"
    assert texts["every row in the view is one that the query gives now"] == "2026-01-01 00:04"
    assert found["t", "log"].critical

    # Only what is asked for: windows 2 and 3.
    low, high = (microseconds(end) for end in ends(2, 4))
    part = check(session, "v", suites=["reconciliation"], spans={"v": WindowSpan(low, high)}, sources=False)
    found = failing(part["v", "reconciliation"])
    assert found["A1: every group of a window counts the rows that the log has for it"] == ends(2, 3)


def corrupt(session: Session) -> None:
    """Rows of windows and of the log are removed, repeated and changed."""
    view, log = session.identifier("v"), session.identifier("t")
    minute = "hour(_window_end) = 0 AND minute(_window_end)"
    for statement in (
        f"DELETE FROM {view} WHERE {minute} = 1 AND k = 'b'",
        f"INSERT INTO {view} SELECT * FROM {view} WHERE {minute} = 2",
        f"UPDATE {view} SET _rows = 3 - _rows WHERE {minute} = 3",
        f"DELETE FROM {view} WHERE {minute} = 4",
        # A file's rows: the last minute's first two.
        f"DELETE FROM {log} WHERE _offset IN (12, 13)",
        f"DELETE FROM {session.identifier('s')} WHERE minute(_window_end) = 1",
    ):
        by_hand(session, statement)


def microseconds(text: str) -> int:
    from tidegate.watermark import TimeKind

    return TimeKind.TIMESTAMP.parse(text)


OWN = """\
expectations:
  - expect_column_values_to_be_between: {column: C, max_value: 1, description: few}
  - unexpected_rows_expectation: {unexpected_rows_query: "SELECT * FROM {batch} WHERE c > 100"}
"""
OF_THE_LOG = """\
expectations:
  - expect_column_values_to_be_in_set: {column: k, value_set: [a, b], severity: warning, row_condition: "n < 2"}
  - expect_column_mean_to_be_between: {column: n, max_value: 3, row_condition: "nn > 1"}
"""


def test_a_branch_s_views_are_checked_against_the_log_that_they_read(
    workbench: Workbench, spark: SparkSession
) -> None:
    workbench.assets(
        all="CREATE TABLE t (k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;\n"
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, count(*) AS c FROM TUMBLE(t, ts, INTERVAL '1 minute')\n"
        "GROUP BY window_end EMIT ON WINDOW CLOSE;"
    )
    (workbench.root / "resources").mkdir()
    (workbench.root / "resources" / "dev.yaml").write_text("reads: local\nwarehouse: {namespace: dev}\n")
    workbench.session().execute(
        "INSERT INTO t VALUES ('a', '2026-01-01 00:00:01'), ('a', '2026-01-01 00:01:00'), ('b', '2026-01-01 00:02:00')"
    )
    dev = Session.open(project=Project.load(workbench.root, "dev"), spark=spark)
    dev.run()
    found = {(r.asset, r.suite): r for r in check_quality(dev)}
    # The log itself is checked where it is written: here nobody may open it for that (TG515).
    assert set(found) == {("v", "reconciliation"), ("v", "late_rate")}
    assert found["v", "reconciliation"].scope == "2 windows up to 2026-01-01 00:02:00"
    assert [failing(r) for r in found.values()] == [{}, {}]


@pytest.mark.runner("inprocess")
def test_own_expectations_look_at_what_is_new(workbench: Workbench) -> None:
    quality(workbench, v=OWN, t=OF_THE_LOG)
    session = workbench.session()
    session.execute(SETUP)
    first = check(session, "v", "t", suites=["expectations"])
    view = first["v", "expectations"]
    assert view.scope == "all final windows up to 2026-01-01 06:00:00"
    assert (view.outcomes[0].text, view.outcomes[0].passed) == ("few", False)
    assert view.outcomes[0].found == "5 of 11 fail"
    assert keys_of_rows(view.outcomes[0], "_window_end") == [f"2026-01-01T00:0{m}:00" for m in range(1, 6)]
    assert view.outcomes[1].passed
    log = first["t", "expectations"]
    assert log.scope == "all on-time rows, up to commit 1"
    assert (log.outcomes[0].severity, keys_of_rows(log.outcomes[0], "_offset")) == ("warning", ["16", "19"])
    assert "nn" in (log.outcomes[1].error or "")
    assert log.critical

    session.execute(
        "INSERT INTO t VALUES ('a', 1, '2026-01-01 06:00:01'), ('a', 1, '2026-01-01 07:00:00'); FLUSH;"
    )
    second = check(session, "v", "t", suites=["expectations"])
    view = second["v", "expectations"]
    assert view.scope == "windows that ended after 2026-01-01 06:00:00 up to 2026-01-01 07:00:00"
    assert view.passed
    assert view.outcomes[0].checked == 2
    assert second["t", "expectations"].scope == "on-time rows of commits 2 to 2"
    # Nothing new: the same rows again, not an empty pass.
    again = check(session, "v", suites=["expectations"])["v", "expectations"]
    assert (again.scope, again.outcomes[0].checked) == (view.scope, 2)
    assert not check(session, "v", suites=["expectations"], everything=True)["v", "expectations"].passed
    # Another suite begins at the beginning.
    quality(workbench, v=OWN.replace("max_value: 1,", "max_value: 2,"))
    assert check(session, "v", suites=["expectations"])["v", "expectations"].outcomes[0].checked == 13


def keys_of_rows(outcome: ExpectationOutcome, column: str) -> list[str | None]:
    return [line[outcome.columns.index(column)] for line in outcome.failing]
