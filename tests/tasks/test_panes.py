"""Windows put together from panes (`panes.py`), beside plain Python over the same rows (C1, C2)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Workbench
from tests.tasks.pane_tasks import report_of
from tidegate.tasks.pane_parts import part_name, says_unread
from tidegate.tasks.panes import UNREAD, LogFile, PaneTask, WindowTask
from tidegate.tasks.writer import WriteTarget
from tidegate.views import ways
from tidegate.views.pane_slices import dealt
from tidegate.watermark import Aggregate, Hop, PaneWindows, Sessions, TimeKind, Tumble, Value

pytestmark = pytest.mark.runner("inprocess")

KEY, V = Value("k", "string"), Value("v", "bigint")
STORED = pa.schema(
    [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate(
            {"ts": pa.timestamp("us"), "k": pa.string(), "v": pa.int64()}.items(), 1
        )
    ]
)
OUTPUTS = [("window_start", None), ("window_end", None), ("key", KEY), ("count", None), ("count", V)] + [
    (function, V) for function in ("sum", "avg", "min", "max")
]
TYPES = [pa.timestamp("us")] * 2 + [pa.string()] + [pa.int64()] * 3 + [pa.float64()] + [pa.int64()] * 2
SYSTEM = {
    "_window_start": pa.timestamp("us"),
    "_window_end": pa.timestamp("us"),
    "_rows": pa.int64(),
    "_open": pa.bool_(),
    "_tick": pa.int64(),
}


def pane_windows(window: Tumble | Hop | Sessions) -> PaneWindows:
    outputs = tuple(Aggregate(f"c{i}", function, column) for i, (function, column) in enumerate(OUTPUTS))
    return PaneWindows(window, TimeKind.TIMESTAMP, "ts", (KEY,), outputs)


def target(folder: Path) -> WriteTarget:
    (folder / "out").mkdir()
    kinds = {f"c{i}": kind for i, kind in enumerate(TYPES)} | SYSTEM
    fields = [pa.field(n, k, metadata={"PARQUET:field_id": str(i)}) for i, (n, k) in enumerate(kinds.items())]
    out = str(folder / "out")
    return WriteTarget(
        pafs.LocalFileSystem(), out, out, pa.schema(fields), "_open", "_window_end", ("_window_end",)
    )


def run(
    folder: Path,
    files: list[list[tuple]],
    window: Tumble | Hop | Sessions,
    frontier: int | None,
    reached: int | None,
    only_closed: bool,
    tasks: int,
) -> Any:
    """The result rows of the rows in files, over some tasks for panes and one for windows, and where the first session
    is open; or UNREAD."""
    found = []
    for number, rows in enumerate(files):
        table = pa.table({n: [r[i] for r in rows] for i, n in enumerate(STORED.names)}, STORED)
        pq.write_table(table, folder / f"{number}.parquet")
        found.append(LogFile(str(folder / f"{number}.parquet"), len(rows)))
    what = pane_windows(window)
    panes = PaneTask(pafs.LocalFileSystem(), STORED, what, dealt(found, tasks), None, None)
    windows = WindowTask(what, target(folder), frontier, reached, only_closed, 7)

    report = report_of(panes, windows, tasks)
    if report == UNREAD:
        return UNREAD
    rows = [
        row
        for file in report["files"]
        for row in pq.read_table(file["uri"]).cast(windows.target.schema).to_pylist()
    ]
    assert all(row["_tick"] == 7 for row in rows)
    assert [r["_rows"] for r in rows] == [r["c3"] for r in rows]
    return rows, report["open_since"]


def aggregates(values: list[int | None]) -> tuple:
    """Of the outputs from count on."""
    known = [v for v in values if v is not None]
    numbers = (sum(known), sum(known) / len(known), min(known), max(known)) if known else (None,) * 4
    return (len(values), len(known), *numbers)


def expected(
    rows: list[tuple], window: Tumble | Hop, frontier: int | None, reached: int | None, only_closed: bool
) -> dict[tuple, tuple]:
    groups = defaultdict(list)
    for ts, key, value in rows:
        for start, end in window.bounds(ts):
            if (frontier is None or end > frontier) and (not only_closed or end <= reached):
                groups[start, end, key].append(value)
    return {
        group: (*aggregates(values), reached is None or group[1] > reached)
        for group, values in groups.items()
    }


def expected_sessions(
    rows: list[tuple], gap: int, frontier: int | None, reached: int
) -> tuple[dict[tuple, tuple], int | None]:
    """C3, row by row: what becomes final, and where the first session begins that does not."""
    sessions: list[tuple] = []
    for ts, key, value in sorted(rows, key=lambda row: (row[1] or "", row[0])):
        if sessions and sessions[-1][2] == key and ts - sessions[-1][1] < gap:
            start, _, _, values = sessions.pop()
            sessions.append((start, ts, key, [*values, value]))
        else:
            sessions.append((ts, ts, key, [value]))
    found, since = {}, []
    for start, last, key, values in sessions:
        end = last + gap
        if end > reached:
            since.append(start)
        elif frontier is None or end > frontier:
            found[start, end, key] = (*aggregates(values), False)
    return found, min(since, default=None)


times = st.integers(-50, 200)
some_rows = st.lists(
    st.tuples(times, st.sampled_from(["a", "b", None]), st.none() | st.integers(-5, 5)), max_size=30
)
some_windows = st.one_of(
    st.builds(Tumble, st.integers(1, 40), st.integers(-5, 50)),
    st.builds(lambda s, n, o: Hop(s, s * n, o), st.integers(1, 15), st.integers(1, 5), st.integers(-5, 20)),
)


@pytest.mark.medium
@given(
    files=st.lists(some_rows, max_size=4),
    window=some_windows,
    frontier=st.none() | times,
    ahead=st.integers(0, 120),
    only_closed=st.booleans(),
    tasks=st.integers(1, 3),
)
def test_C1_C2_windows_of_panes_are_windows_of_rows(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple]],
    window: Tumble | Hop,
    frontier: int | None,
    ahead: int,
    only_closed: bool,
    tasks: int,
) -> None:
    reached = (frontier or 0) + ahead
    rows, _ = run(tmp_path_factory.mktemp("panes"), files, window, frontier, reached, only_closed, tasks)
    found = by_group(rows)
    assert found == expected([row for file in files for row in file], window, frontier, reached, only_closed)


def test_C2_a_pane_has_the_rows_from_its_lower_bound_on_and_before_its_upper(tmp_path: Path) -> None:
    """Also of a file whose rows lie on both sides of a bound."""
    rows = {"ts": [9, 10, 15, 20, 21], "k": ["a"] * 5, "v": [1] * 5}
    pq.write_table(pa.table(rows, STORED), tmp_path / "0.parquet")
    files = ((LogFile(str(tmp_path / "0.parquet"), 5),),)
    task = PaneTask(pafs.LocalFileSystem(), STORED, pane_windows(Tumble(1)), files, 10, 20)
    (panes,) = task(iter([pa.RecordBatch.from_pydict({"task": [0]})]))
    assert sorted(panes.column(0).to_pylist()) == [10, 15]


def test_E2_columns_are_found_by_their_ids_whatever_they_were_called(tmp_path: Path) -> None:
    """A file of before: `v` was called `k` and narrower, another `v` was dropped, and `k` was not there."""
    kinds = {"ts": (1, pa.timestamp("us")), "k": (3, pa.int32()), "v": (9, pa.string())}
    old = pa.schema([pa.field(n, k, metadata={"PARQUET:field_id": str(i)}) for n, (i, k) in kinds.items()])
    rows = [{"ts": [10], "k": [4], "v": ["dropped"]}, {"ts": [11], "k": ["a"], "v": [5]}]
    for number, (found, schema) in enumerate(zip(rows, (old, STORED), strict=True)):
        pq.write_table(pa.table(found, schema), tmp_path / f"{number}.parquet")
    files = (tuple(LogFile(str(tmp_path / f"{number}.parquet"), 1) for number in range(2)),)
    task = PaneTask(pafs.LocalFileSystem(), STORED, pane_windows(Tumble(100)), files, None, None)
    (panes,) = task(iter([pa.RecordBatch.from_pydict({"task": [0]})]))
    sums = {row["_key_c1"]: row[part_name("sum", "c2")] for row in panes.to_pylist()}
    assert sums == {None: 4, "a": 5}
    # A file that says no ids is Spark's to read.
    pq.write_table(
        pa.table(rows[1], pa.schema([f.remove_metadata() for f in STORED])), tmp_path / "1.parquet"
    )
    (unread,) = task(iter([pa.RecordBatch.from_pydict({"task": [0]})]))
    assert says_unread(unread)


def by_group(rows: list[dict]) -> dict[tuple, tuple]:
    """Aggregates and whether it is open, by start, end and key."""

    def ticks(value: Any) -> int:
        return int(pa.scalar(value, pa.timestamp("us")).cast(pa.int64()).as_py())

    found = {
        (ticks(r["c0"]), ticks(r["c1"]), r["c2"]): (*(r[f"c{i}"] for i in range(3, 9)), r["_open"])
        for r in rows
    }
    assert len(found) == len(rows)
    assert all((r["c0"], r["c1"]) == (r["_window_start"], r["_window_end"]) for r in rows)
    return found


@pytest.mark.medium
@given(
    files=st.lists(some_rows, max_size=4),
    gap=st.integers(1, 40),
    frontier=st.none() | times,
    ahead=st.integers(0, 120),
    tasks=st.integers(1, 3),
    chunk=st.sampled_from([1, 3, 1 << 20]),
)
def test_C3_sessions_of_sessions_are_sessions_of_rows(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[tuple]],
    gap: int,
    frontier: int | None,
    ahead: int,
    tasks: int,
    chunk: int,
) -> None:
    """However rows are cut into tasks, and into chunks within them."""
    reached = (frontier or 0) + ahead
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.tasks.panes._CHUNK", chunk)
        folder = tmp_path_factory.mktemp("sessions")
        rows, since = run(folder, files, Sessions(gap), frontier, reached, True, tasks)
    found = by_group(rows), since
    assert found == expected_sessions([row for file in files for row in file], gap, frontier, reached)


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("window", [Tumble(10), Sessions(10)])
def test_sums_that_might_leave_64_bits_are_left_to_spark(
    tmp_path: Path, tasks: int, window: Tumble | Sessions
) -> None:
    rows = [[(1, "a", 2**62), (2, "a", 2**62)], [(3, "a", -(2**62))]]
    assert run(tmp_path, rows, window, None, 100, True, tasks) == UNREAD
    assert list((tmp_path / "out").iterdir()) == []


TABLE = """
CREATE TABLE t (ts TIMESTAMP, k VARCHAR, v BIGINT, f DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') APPEND ONLY;
"""
VIEWS = """
CREATE MATERIALIZED VIEW plain AS SELECT window_end, k, count(*) AS n, sum(v) AS s, avg(f) AS f
FROM HOP(t, ts, INTERVAL '10 seconds', INTERVAL '30 seconds') GROUP BY window_start, window_end, k
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW by_sql AS SELECT window_end, k, count(*) AS n, sum(v + 0) AS s, avg(f + 0) AS f
FROM HOP(t, ts, INTERVAL '10 seconds', INTERVAL '30 seconds') GROUP BY window_start, window_end, k
EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW plain_some AS SELECT window_end, count(*) AS n, sum(v) AS s
FROM HOP(t, ts, INTERVAL '10 seconds', INTERVAL '30 seconds') WHERE v % 4 <> 1 AND k IN ('a', 'b')
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW by_sql_some AS SELECT window_end, count(*) AS n, sum(v) AS s
FROM HOP(t, ts, INTERVAL '10 seconds', INTERVAL '30 seconds') WHERE v % 4 + 0 <> 1 AND upper(k) IN ('A', 'B')
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW plain_visits AS SELECT window_start, window_end, k, count(*) AS n, sum(v) AS s, max(ts) AS last
FROM SESSION(t, ts, k, INTERVAL '3 seconds') GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW by_sql_visits AS SELECT window_start, window_end, k, count(*) AS n, sum(v + 0) AS s,
max(ts) AS last FROM SESSION(t, ts, k, INTERVAL '3 seconds') GROUP BY window_start, window_end, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW plain_all AS SELECT window_end, count(v) AS n, avg(f) AS f
FROM SESSION(t, ts, INTERVAL '30 seconds') GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW by_sql_all AS SELECT window_end, count(v + 0) AS n, avg(f) AS f
FROM SESSION(t, ts, INTERVAL '30 seconds') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""


@pytest.mark.spark
@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_the_engine_gives_the_rows_of_the_view_s_sql_with_and_without_an_exchange(
    workbench: Workbench, runner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = workbench.assets(t=TABLE + VIEWS).session()
    used = []
    compute = ways.compute

    def noted(*args: Any) -> Any:
        found = compute(*args)
        used.append((args[4].pane_windows, found is not None))
        return found

    monkeypatch.setattr(ways, "compute", noted)
    # In one task; with an exchange; on what an exchange has left open, too, where that takes no JVM.
    turns = [(10**9, 0), (3, 60), (3, 120)][: 2 if runner == "spark" else 3]
    for size, shift in turns:
        monkeypatch.setattr("tidegate.views.pane_slices._ROWS_PER_TASK", size)
        for number in range(4):
            values = [
                f"(TIMESTAMP '2026-01-01 00:00:00' + INTERVAL '{shift + 7 * number + i} seconds', "
                f"{'NULL' if i == 3 else repr('abc'[i % 3])}, {'NULL' if i == 2 else i}, {i}.25)"
                for i in range(9)
            ]
            session.execute(f"INSERT INTO t VALUES {', '.join(values)}")
        session.execute("FLUSH")
        for some in ("", "_some", "_visits", "_all"):
            found = [sorted(map(repr, session.table(f"{n}{some}").collect())) for n in ("plain", "by_sql")]
            assert found[0] == found[1]
            assert found[0] or some == "_all"
    assert session.table("plain").count() > 20, session.table("plain").collect()
    assert session.table("plain_all").count() == len(turns) - 1
    assert {(type(pane_windows.window), pane_windows.condition is None) for pane_windows, _ in used} == {
        (Hop, True),
        (Hop, False),
        (Sessions, True),
    }
    assert all(done for _, done in used)


@pytest.mark.spark
@pytest.mark.parametrize("rows_per_task", [10**9, 1])
def test_what_leaves_64_bits_is_what_sql_makes_of_it(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, rows_per_task: int
) -> None:
    """C7: NULL, not a number that wrapped around; in one task, and where one of several says so."""
    monkeypatch.setattr("tidegate.views.pane_slices._ROWS_PER_TASK", rows_per_task)
    # Its task has passed on what came before.
    monkeypatch.setattr("tidegate.tasks.panes._CHUNK", 1)
    session = workbench.assets(t=TABLE + VIEWS).session()
    for number in range(3):
        session.execute(f"INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:0{number}', 'c', 1, 1)")
    session.execute(
        "INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:01', 'a', 9223372036854775807, 1), "
        "(TIMESTAMP '2026-01-01 00:00:02', 'a', 1, 1), (TIMESTAMP '2026-01-01 01:00:00', 'b', 1, 1)"
    )
    session.execute("FLUSH")
    for view in ("plain", "plain_visits"):
        found = {(row["k"], row["s"]) for row in session.table(view).collect()}
        assert found == {("a", None), ("c", 3)}
