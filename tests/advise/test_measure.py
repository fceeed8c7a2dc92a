"""The advice of a whole log on Spark equals judging it anew under each delay, in plain Python (W1-W9, R3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from tests.advise.rows import Batch, late_rows, late_together
from tests.conftest import Workbench
from tidegate.advise.advice import Advice, advise
from tidegate.errors import TidegateError
from tidegate.iceberg.partitions import Decisions
from tidegate.ingest.connector import BatchRows
from tidegate.session.session import Session
from tidegate.store import load_table
from tidegate.store.timeline import read_timeline

SECOND = 1_000_000
BEGIN = datetime(2026, 1, 1)
ZERO = int(BEGIN.replace(tzinfo=UTC).timestamp())
DELAYS = (0, 1, 3, 7, 12, 25, 50, 100)
SQL = (
    "CREATE TABLE events (v INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS {strategy}) APPEND ONLY{options};"
)


def log_of(workbench: Workbench, strategy: str, batches: list[Batch], options: str = "") -> Session:
    """The batches judged and committed, each with what its plan decided; times are seconds after 2026-01-01."""
    session = workbench.assets(events=SQL.format(strategy=strategy, options=options)).session()
    log, offsets = session.log(session.relation("events")), dict[str, int]()
    for batch in batches:
        clock = BEGIN.replace(tzinfo=UTC) + timedelta(seconds=batch.clock)
        if batch.reset is not None:
            log.reset((ZERO + batch.reset) * SECOND, clock)
            continue
        data = []
        for number, (partition, time) in enumerate(batch.rows):
            offset = offsets[partition] = offsets.get(partition, -1) + 1
            data.append((number, BEGIN + timedelta(seconds=time), partition, offset))
        frame = session.spark.createDataFrame(
            data, "v int, ts timestamp_ntz, _source_partition string, _offset bigint"
        ).selectExpr(
            "*", "CAST(NULL AS STRING) AS _raw", f"TIMESTAMP '{clock:%Y-%m-%d %H:%M:%S}' AS _arrival"
        )
        read = {p: offsets[p] + 1 for p, _ in batch.rows}
        decisions = Decisions(
            start=dict.fromkeys(batch.starts, 0), until=read, ends=read, idle=tuple(sorted(batch.idle))
        )
        alone = frame.coalesce(1)
        rows = BatchRows(lambda alone=alone: alone, ("_offset",), numbering=False, aligned=True)
        log.add(log.progress.epoch + 1, rows, clock, decisions=decisions)
    return session


def eventful(random: Random) -> list[Batch]:
    """Two partitions; one falls asleep and wakes up with old rows; a third appears late, with old rows, too."""

    def rows(partitions: str, now: int, back: int = 12) -> list[tuple[str, int]]:
        found = []
        for _ in range(40):
            now += random.randrange(3)
            found.append((random.choice(partitions), now - random.choice((0, 0, random.randrange(back)))))
        return found

    return [
        Batch(rows("ab", 0), starts={"a", "b"}, clock=60),
        Batch(rows("ab", 40), clock=90),
        Batch(rows("a", 90), idle={"b"}, clock=150),
        Batch(rows("a", 150), idle={"b"}, clock=200),
        Batch(rows("ab", 130, 30), clock=260),
        Batch(rows("abc", 140, 40), starts={"c"}, clock=300),
    ]


def check(advice: Advice, batches: list[Batch], **options: object) -> None:
    for delay in DELAYS:
        late = advice.rows - advice.curve.on_time(delay * SECOND)
        assert late == late_rows(batches, delay, **options), delay  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("strategy", "declared"),
    [
        ("ts - INTERVAL '7 seconds'", 7),
        # Not a constant: what G would have been follows from who took part, and from their rows.
        pytest.param(
            "CASE WHEN v % 3 = 0 THEN NULL ELSE ts - INTERVAL '2 seconds' END",
            None,
            marks=pytest.mark.runner("inprocess"),
        ),
    ],
)
def test_W1_W6_W7_R3_the_prediction_is_what_running_it_gives(
    workbench: Workbench, strategy: str, declared: int | None
) -> None:
    batches = eventful(Random(4))
    session = log_of(workbench, strategy, batches)
    advice = advise(session, "events", target=0.9)
    total = sum(len(b.rows) for b in batches)
    assert (advice.rows, advice.log_rows, advice.exact) == (total, total, True)
    check(advice, batches)
    table = load_table(session.project.storage, "events")
    assert table is not None
    moments = read_timeline(session.project.storage, table, ["a", "b"])
    assert [(m.epoch, m.partitions.get("b", (0, ""))[1]) for m in moments] == [
        (1, "active"), (2, "active"), (3, "idle"), (4, "idle"), (5, "active"), (6, "active"),
    ]  # fmt: skip
    published = {r["published"] for r in session.table("events$watermarks").where("epoch = 6").collect()}
    assert {BEGIN + timedelta(seconds=(moments[-1].published or 0) / SECOND - ZERO)} == published
    assert [m.at for m in moments] == [ZERO + b.clock for b in batches]
    assert len(read_timeline(session.project.storage, table, most=3)) == 3
    if declared is not None:
        assert advice.declared_delay == declared * SECOND
        # The log itself is the run with the declared delay.
        assert advice.recorded_late == total - advice.curve.on_time(declared * SECOND) > 0
        # It is G that made rows late here, not only their own partition: without it there would be fewer.
        alone = [Batch([row for b in batches for row in b.rows], starts=set("abc"))]
        assert late_rows(alone, declared) < advice.recorded_late
        for each in advice.together:
            assert each.own == late_rows(batches, each.delay // SECOND)
            assert each.together >= late_together(batches, each.delay // SECOND)
        assert advice.choice.share >= 0.9
        assert advice.clause == f"WATERMARK FOR ts AS ts - INTERVAL '{advice.text(advice.recommended)}'"
        # A sample that has every block is the whole.
        whole = advise(session, "events", fraction=0.9999999)
        assert (whole.curve, whole.exact) == (advice.curve, False)
        some = advise(session, "events", fraction=0.5)
        assert 0 < some.rows < total
        for point, count in zip(some.curve.delays, some.curve.counts, strict=True):
            assert count <= advice.curve.on_time(point)


@pytest.mark.runner("inprocess")
def test_W9_skew_and_reset_are_kept_where_they_were(workbench: Workbench) -> None:
    batches = [
        Batch([("a", 10), ("a", 500), ("a", 12), ("a", 30), ("a", 20)], starts={"a"}, clock=20),
        Batch([("a", 40), ("a", 33), ("a", 600), ("a", 45), ("a", 31)], clock=50),
        # Not too far ahead of its batch's clock, and poison to all that comes.
        Batch([("a", 900)], clock=880),
        Batch([], reset=50, clock=890),
        Batch([("a", 49), ("a", 51), ("a", 70), ("a", 60)], clock=895),
    ]
    options = " WITH (max_future_skew = '1 minute')"
    session = log_of(workbench, "ts - INTERVAL '3 seconds'", batches, options)
    advice = advise(session, "events", target=1.0)
    check(advice, batches, skew=60)
    assert advice.recorded_late == late_rows(batches, 3, skew=60)
    assert (advice.unsaved, advice.reached, advice.exact) == (1, False, False)  # 49, below what was set
    assert any("late with any delay" in note for note in advice.notes)
    assert advice.ahead > 0

    for code, ask in (
        ("TG711", lambda: advise(session, "events", target=1.1)),
        ("TG711", lambda: advise(session, "events", fraction=0)),
        ("TG711", lambda: advise(session, "events", fraction=1e-6)),
    ):
        with pytest.raises(TidegateError) as caught:
            ask()
        assert caught.value.code == code
        assert caught.value.hint
