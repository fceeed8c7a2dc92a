"""Strategies through SQL on Spark (W9, W11, S1-S4): each under several batch cuts, and with a restart (W4, R1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.conftest import Workbench
from tests.watermark.test_source_watermark import ByTheRule
from tidegate.iceberg import layout
from tidegate.ingest.connector import BatchRows
from tidegate.ingest.stream import SourceFeed
from tidegate.plan.events import BatchCommitted
from tidegate.session.run import connect
from tidegate.watermark import SourceWatermark

if TYPE_CHECKING:
    from tidegate.plan.events import Event
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

START = datetime(2026, 1, 1, 10)
SECOND = 1_000_000
SOURCE = """
CREATE SOURCE s (id INT, p VARCHAR, ts TIMESTAMP, v INT, at TIMESTAMP, WATERMARK FOR ts AS {strategy})
WITH (connector = 'replay', path = 'recording', partition.columns = 'p', order.columns = 'at' {options})
FORMAT PLAIN ENCODE JSON;
"""
Row = dict[str, Any]
#: Seconds since START: what a rule says after each row of one partition, the rows so far with the last one.
Rule = Callable[[list[Row]], float | None]


def recording(seed: int = 7, n: int = 42) -> list[Row]:
    """Two partitions; event times mostly forward, some far behind, some far ahead; a few without one."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for i in range(n):
        shift = random.choice([0, 0, 0, -25, -90, 400]) if i % 13 != 5 else None
        seconds = None if shift is None else float(i * 10 + shift)
        rows.append(
            {"id": i, "p": "ab"[int(random.integers(2))], "seconds": seconds, "v": int(random.integers(9))}
        )
        if i % 7 == 3:
            rows[-1]["v"] = None
    return rows


def lines(rows: list[Row]) -> list[dict[str, Any]]:
    out = []
    for row in rows:
        time = None if row["seconds"] is None else str(START + timedelta(seconds=row["seconds"]))
        at = str(START + timedelta(days=1, seconds=row["id"]))
        out.append({"id": row["id"], "p": row["p"], "ts": time, "v": row["v"], "at": at})
    return out


def by_rule(rows: list[Row], rule: Rule) -> dict[int, str]:
    """W1, W2: what becomes of every row, partition by partition."""
    outcomes = {}
    for name in "ab":
        seen: list[Row] = []
        wp: float | None = None
        for row in (r for r in rows if r["p"] == name):
            if row["seconds"] is None:
                outcomes[row["id"]] = "rejected"
                continue
            seen.append(row)
            late = wp is not None and row["seconds"] < wp
            outcomes[row["id"]] = "late" if late else "on_time"
            value = rule(seen)
            if not late and value is not None:
                wp = value if wp is None else max(wp, value)
    return outcomes


def by_source_watermark(rows: list[Row]) -> dict[int, str]:
    numbers = SourceWatermark(8, 0.95, 5, SECOND, 3600 * SECOND, ((5, 600 * SECOND), (10, 60 * SECOND)))
    outcomes = {}
    for name in "ab":
        rule = ByTheRule(numbers, (95, 100))
        for row in (r for r in rows if r["p"] == name):
            time = row["seconds"]
            said = rule.read(int((time or 0) * SECOND), time is not None, None)
            outcomes[row["id"]] = "on_time" if said is None else said if said == "rejected" else "late"
    return outcomes


def outlier(seen: list[Row]) -> float | None:
    """Not the largest of the row and the three before it."""
    time = seen[-1]["seconds"]
    return None if time == max(r["seconds"] for r in seen[-4:]) else time - 10


def mixed(seen: list[Row]) -> float | None:
    """The case of MIXED, as Python says it."""
    values = [r["v"] for r in seen[-3:] if r["v"] is not None]
    if len(values) < 2:
        return None
    time = seen[-1]["seconds"]
    if len(seen) > 1 and seen[-2]["seconds"] > time:
        return seen[-3:][0]["seconds"] - 60
    if sum(values) > 12 and sum(values) / len(values) >= 5 and min(values) > 1:
        return time
    return time - 30


MIXED = """CASE
    WHEN count(v) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) < 2 THEN NULL
    WHEN lag(ts) OVER () > ts
        THEN first_value(ts) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) - INTERVAL '60' SECOND
    WHEN sum(v) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) > 12
        AND avg(v) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) >= 5
        AND min(v) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) > 1 THEN ts
    ELSE ts - INTERVAL '30' SECOND END"""
OUTLIER = """CASE
    WHEN ts = max(ts) OVER (ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) THEN NULL ELSE ts - INTERVAL '10' SECOND END"""
NUMBERS = """, watermark.window = 8, watermark.interval = 5, watermark.min_delay = '1 second',
    watermark.max_delay = '1 hour', watermark.warm_up = '5: 10 minutes, 10: 1 minute'"""


class Enough(Exception):
    """The process is gone."""


def after(batches: int) -> Callable[[Event], None]:
    count = iter(range(batches))

    def on_event(event: Event) -> None:
        if isinstance(event, BatchCommitted) and next(count) == batches - 1:
            raise Enough

    return on_event


def judged(session: Session, name: str = "s") -> dict[int, str]:
    return {r["id"]: r["outcome"] for r in session.table(f"{name}$raw").collect()}


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        ("SOURCE_WATERMARK()", NUMBERS, by_source_watermark),
        (OUTLIER, "", lambda rows: by_rule(rows, outlier)),
        (MIXED, "", lambda rows: by_rule(rows, mixed)),
    ],
    ids=["SOURCE_WATERMARK", "outlier", "mixed"],
)
def test_W4_R1_no_cut_and_no_restart_changes_what_becomes_of_a_row(
    new_workbench: Callable[[], Workbench],
    strategy: str,
    options: str,
    expected: Callable[[list[Row]], dict[int, str]],
) -> None:
    cuts_and_a_restart(new_workbench, strategy, options, expected)


@pytest.mark.long_run
@pytest.mark.runner("spark")
def test_W4_R1_the_same_on_spark(new_workbench: Callable[[], Workbench]) -> None:
    cuts_and_a_restart(new_workbench, MIXED, "", lambda rows: by_rule(rows, mixed))


def cuts_and_a_restart(
    new_workbench: Callable[[], Workbench],
    strategy: str,
    options: str,
    expected: Callable[[list[Row]], dict[int, str]],
) -> None:
    rows = recording()
    wanted = expected(rows)
    assert {"on_time", "late", "rejected"} == set(wanted.values())
    marks = []
    for size, broken_off in ((1000, None), (9, None), (11, 2)):
        bench = new_workbench().json_lines("recording/a.json", lines(rows))
        bench.assets(s=SOURCE.format(strategy=strategy, options=options))
        if broken_off is not None:
            with pytest.raises(Enough):
                bench.session().run(max_rows_per_batch=size, on_event=after(broken_off))
        session = bench.session()
        session.run(max_rows_per_batch=size)
        assert judged(session) == wanted
        log = session.log(session.relation("s"))
        marks.append({name: (s.watermark, s.memory) for name, s in log.progress.states.items()})
    assert marks[0] == marks[1] == marks[2]
    assert all(memory is not None for _, memory in marks[0].values())


def insert_at(session: Session, arrived: datetime, times: list[str], name: str = "t") -> None:
    """Rows of one micro-batch whose plan recorded this clock."""
    from pyspark.sql import functions as F

    log = session.log(session.relation(name))
    start = sum(log.progress.totals().values())
    column = session.relation(name).columns[1].type
    frame = session.spark.createDataFrame([(start + i, t) for i, t in enumerate(times)], "id int, ts string")
    frame = frame.coalesce(1).select(
        "id",
        F.col("ts").cast(column).alias("ts"),
        F.lit(None).cast("string").alias("_raw"),
        F.lit("0").alias("_source_partition"),
        F.lit(None).cast("bigint").alias("_offset"),
        F.lit(arrived).alias("_arrival"),
    )
    log.add(log.progress.epoch + 1, BatchRows(lambda: frame, (), numbering=True, aligned=True), arrived)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-01 {text}:00").replace(tzinfo=UTC)


TABLE = "CREATE TABLE t (id INT, ts {type}, WATERMARK FOR ts AS {strategy}) APPEND ONLY {options}"


def states(session: Session) -> list[tuple]:
    frame = session.table("t$watermarks").where("partition = '0'").orderBy("epoch")
    return [tuple(r) for r in frame.select("watermark", "state", "max_event_time").collect()]


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMPTZ"])
def test_W11_PROC_TIME_is_the_recorded_clock_of_the_micro_batch(workbench: Workbench, type_: str) -> None:
    session = workbench.session()
    strategy = "CASE WHEN ts > PROC_TIME() THEN NULL ELSE ts - INTERVAL '1' MINUTE END"
    session.execute(TABLE.format(type=type_, strategy=strategy, options=""))
    insert_at(session, at("10:00"), ["2026-01-01 09:50", "2026-01-01 11:00", "2026-01-01 09:48"])
    assert judged(session, "t") == {0: "on_time", 1: "on_time", 2: "late"}
    # The same rows under a later clock: 11:00 is no longer in the future.
    insert_at(session, at("12:00"), ["2026-01-01 11:00", "2026-01-01 10:58", "2026-01-01 10:59"])
    assert {i: o for i, o in judged(session, "t").items() if i > 2} == {3: "on_time", 4: "late", 5: "on_time"}
    assert [str(w)[11:16] for w, *_ in states(session)] == ["09:49", "10:59"]


def test_W4_a_retry_uses_the_clock_that_the_plan_recorded(workbench: Workbench) -> None:
    strategy = "CASE WHEN ts > PROC_TIME() THEN NULL ELSE ts END"
    workbench.assets(s=SOURCE.format(strategy=strategy, options=""))
    rows = [{"id": 0, "p": "a", "seconds": 3600.0, "v": 1}, {"id": 1, "p": "a", "seconds": -60.0, "v": 1}]
    session = workbench.json_lines("recording/a.json", lines(rows)).session()
    relation = session.relation("s")
    # A run that was killed between its plan and its commit: at 10:00 the row of 11:00 lay in the future.
    log = session.log(relation)
    connector = connect(session, log)
    assert connector is not None
    connector.pending()
    folder = session.work_folder("s")
    assert SourceFeed(
        session.project.storage, log, connector, folder, lambda: START.replace(tzinfo=UTC)
    ).ready()
    workbench.session().run()
    assert judged(session) == {0: "on_time", 1: "on_time"}
    newest = session.table("s$watermarks").where("partition = 'a'").first()
    assert newest["watermark"] == START - timedelta(seconds=60)


def test_W9_a_row_far_in_the_future_is_kept_and_raises_nothing(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        TABLE.format(
            type="TIMESTAMP", strategy="SOURCE_WATERMARK()", options="WITH (max_future_skew = '1 hour')"
        )
        .replace("TABLE t", "TABLE s")
        .replace("'1 hour')", "'1 hour', watermark.warm_up = 'none', watermark.interval = 2)")
    )
    session.execute(
        TABLE.format(type="TIMESTAMP", strategy="ts", options="WITH (max_future_skew = '1 hour')")
    )
    times = ["2026-01-01 10:00", "2026-01-01 11:01", "2026-01-01 11:00", "2026-01-01 10:30"]
    insert_at(session, at("10:00"), times)
    assert judged(session, "t") == {0: "on_time", 1: "on_time", 2: "on_time", 3: "late"}
    # 11:01 is counted, and shows; but the watermark stands at 11:00, which is not too far ahead.
    assert states(session) == [(datetime(2026, 1, 1, 11), "active", datetime(2026, 1, 1, 11, 1))]
    insert_at(session, at("10:00"), times, "s")
    assert judged(session, "s") == {0: "on_time", 1: "on_time", 2: "on_time", 3: "late"}
    newest = session.log(session.relation("s")).progress.states["0"]
    assert newest.watermark is not None
    assert newest.watermark < int(at("11:00").timestamp()) * SECOND


def test_granularity_batch_compares_with_the_watermark_from_before_the_batch(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        TABLE.format(type="TIMESTAMP", strategy="ts", options="WITH (watermark_granularity = 'batch')")
    )
    insert_at(session, at("10:00"), ["2026-01-01 10:00", "2026-01-01 09:00", "2026-01-01 10:05"])
    insert_at(session, at("10:01"), ["2026-01-01 10:04", "2026-01-01 10:09", "2026-01-01 10:06"])
    assert judged(session, "t") == {i: "late" if i == 3 else "on_time" for i in range(6)}
    marks = [r["watermark"] for r in session.table("t$raw").orderBy("offset").collect()]
    assert marks == [None] * 3 + [datetime(2026, 1, 1, 10, 5)] * 3


def test_W8_a_source_watermark_is_warming_until_its_first_estimate(workbench: Workbench) -> None:
    session = workbench.session()
    options = "WITH (watermark.interval = 4)"
    session.execute(TABLE.format(type="DATE", strategy="SOURCE_WATERMARK()", options=options))
    insert_at(session, at("10:00"), ["2026-01-20", "2026-01-21", "2026-01-10"])
    insert_at(session, at("10:00"), ["2026-01-22"])
    (day, first, _), (last_day, second, _) = states(session)
    assert (first, second) == ("warming (3 of 4)", "active")
    # S3: seven days behind the newest, in a DATE's own unit; no estimate is used before the fifth row.
    assert (str(day), str(last_day)) == ("2026-01-14", "2026-01-15")
    assert judged(session, "t") == {0: "on_time", 1: "on_time", 2: "late", 3: "on_time"}
    # A day is the smallest delay there is: 50 milliseconds and the 30 seconds of a warm-up are one each.
    assert session.execute("DESCRIBE t").rows()[1][3] == "watermark SOURCE_WATERMARK()"


def test_S2_an_integer_column_has_its_numbers_in_its_own_unit(workbench: Workbench) -> None:
    session = workbench.session()
    options = "WITH (watermark.min_delay = 5, watermark.max_delay = 60, watermark.warm_up = '2: 50')"
    session.execute(TABLE.format(type="BIGINT", strategy="SOURCE_WATERMARK()", options=options))
    insert_at(session, at("10:00"), ["100", "120", "69", "130", "124"])
    assert judged(session, "t") == {0: "on_time", 1: "on_time", 2: "late", 3: "on_time", 4: "late"}


def test_R1_a_log_from_before_strategies_remembered_anything_goes_on(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = workbench.session()
    session.execute(TABLE.format(type="TIMESTAMP", strategy=OUTLIER.replace("3 PREC", "1 PREC"), options=""))
    with monkeypatch.context() as before:
        earlier = layout.PROGRESS_TYPE.replace("note:string,memory:string,", "")
        before.setattr(layout, "PROGRESS_TYPE", earlier)
        before.setattr(layout, "PROGRESS_ADDED", {})
        insert_at(session, at("10:00"), ["2026-01-01 10:00"])
    again = workbench.session()
    insert_at(again, at("10:00"), ["2026-01-01 09:00", "2026-01-01 08:59"])
    insert_at(again, at("10:00"), ["2026-01-01 08:58:50", "2026-01-01 08:58:40"])
    # Nothing was remembered of 10:00, so 09:00 offers nothing; 08:59 is the first that does, and from then on rows are.
    assert judged(again, "t") == {0: "on_time", 1: "on_time", 2: "on_time", 3: "on_time", 4: "late"}


@pytest.mark.runner("spark")
def test_W11_a_row_of_any_types_passes_the_window_unchanged(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute("""
        CREATE TABLE wide (ts TIMESTAMP, "odd.name" INT, d DECIMAL(10, 2), tags VARCHAR[], m MAP<VARCHAR, INT>,
            s STRUCT<a INT, b VARCHAR>, b BYTEA, day DATE, z TIMESTAMPTZ, f REAL, ok BOOLEAN,
            WATERMARK FOR ts AS max(ts) OVER (ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) APPEND ONLY;
        INSERT INTO wide SELECT TIMESTAMP '2026-01-01 10:00:00', 1, 1.25, array('a', NULL), map('k', 2),
            named_struct('a', 1, 'b', 'x'), X'00FF', DATE '2026-01-01', TIMESTAMP '2026-01-01 10:00:00+00', 1.5, true;
        INSERT INTO wide (ts) VALUES ('2026-01-01 09:59:59');
    """)
    (row,) = session.execute("SELECT * FROM wide").rows()
    assert row[1:4] == (1, Decimal("1.25"), ["a", None])
    assert (row[4], tuple(row[5]), bytes(row[6])) == ({"k": 2}, (1, "x"), b"\x00\xff")
    assert row[9:] == (1.5, True)
    assert session.execute('SELECT count(*) FROM "wide$late"').rows() == [(1,)]
