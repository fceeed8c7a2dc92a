"""Random changes of tables WITH TTL, in random batches: gate, state, SELECT, views' rows and cleanup equal the oracle
(T1–T4, W4). Many cases in one run: the case is part of the key and of the partition's name."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.conftest import Workbench
from tests.oracles.tables import Change, Table
from tidegate.ingest.connector import BatchRows
from tidegate.plan.resets import steps
from tidegate.session.session import Session
from tidegate.tables.lives import CONTINUES, changes_frame, lives, on_time_changes, state_identifier

pytestmark = pytest.mark.runner("inprocess")

SECOND = 1_000_000
BEGIN = datetime(2026, 1, 1)
ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = 7 * SECOND
ROUNDS = 4
TABLE = """
CREATE TABLE t (c INT, k VARCHAR, ts TIMESTAMP, v INT,
    WATERMARK FOR ts AS ts - INTERVAL '7 seconds' WITH TTL, PRIMARY KEY (c, k))
WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE JSON
"""


def changes(seed: int, cases: int) -> Iterator[list[Change]]:
    """Rounds of changes, event time moving on from round to round; every partition has a row in each, so `G` moves."""
    chance = random.Random(seed)
    offsets: dict[str, int] = {}
    seconds: dict[tuple, int] = {}
    for number in range(ROUNDS):
        found = []
        for case in range(cases):
            for partition in ("a", "b")[: 1 + case % 2 + (case % 3 == 0 and case % 2 == 0)]:
                name = f"{case:03}-{partition}"
                for i in range(chance.randint(1, 5)):
                    key = (case, chance.choice("xyz"))
                    second = 20 * number + (chance.randint(10, 35) if i == 0 else chance.randint(-15, 35))
                    delete = chance.random() < 0.2
                    # A delete is of the row as it was last written, wherever that was (T1).
                    second = seconds[key] = seconds.get(key, second) if delete else second
                    offset = offsets[name] = offsets.get(name, -1) + 1
                    found.append(Change(name, offset, key, second * SECOND, delete, chance.randint(0, 99)))
        yield found


class Play:
    """One table on Spark and in the oracle, side by side."""

    def __init__(self, workbench: Workbench) -> None:
        self.session: Session = workbench.assets(t=TABLE).session()
        self.relation = self.session.relation("t")
        self.log = self.session.log(self.relation)
        self.oracle = Table(DELAY)

    def enumerate(self, partitions: set[str]) -> None:
        self.oracle.enumerate(partitions)
        self.log.progress.enumerate(partitions)

    def batch(self, rows: list[Change]) -> None:
        for change in rows:
            self.oracle.read(change)
        self.oracle.publish()
        data = [
            (
                *c.key,
                BEGIN + timedelta(microseconds=c.time),
                c.value,
                c.partition,
                c.offset,
                "delete" if c.delete else "upsert",
            )
            for c in rows
        ]
        frame = self.session.spark.createDataFrame(
            data,
            "c int, k string, ts timestamp_ntz, v int, _source_partition string, _offset bigint, _op string",
        ).selectExpr("*", "CAST(NULL AS STRING) AS _raw", f"TIMESTAMP '{ARRIVED:%Y-%m-%d}' AS _arrival")
        self.log.add(
            self.log.progress.epoch + 1, BatchRows(lambda: frame, ("_offset",), numbering=False), ARRIVED
        )

    def reset(self, to: int) -> None:
        """Of all cases at once, so of some of them to a time that they had not come to, or had long passed."""
        self.oracle.reset(to)
        self.log.reset(since(to), ARRIVED)

    def check_rows(self) -> None:
        """SELECT shows the current rows, and `$late` has what expired, with what it missed."""
        shown = {(r.c, r.k): (ticks(r.ts), r.v) for r in self.session.table("t").collect()}
        assert shown == {key: (c.time, c.value) for key, c in self.oracle.rows().items()}

    def check_late(self) -> None:
        late = self.session.table("t$late").collect()
        found = {(r.partition, r.offset): (r.op, ticks(r.watermark)) for r in late}
        expected = {
            (c.partition, c.offset): ("delete" if c.delete else "upsert", bar) for c, bar in self.oracle.late
        }
        assert found == expected

    def check_history(self, low: int | None = None) -> None:
        """What views read; after a cleanup, of what they still need."""
        frame = changes_frame(
            self.session.tables, self.relation, self.session.identifier("t"), low=low and since(low)
        )
        expected = self.oracle.history()
        if low is not None:
            times = {
                (life.last.partition, life.last.offset): life.last.time
                for several in self.oracle.lives.values()
                for life in several
            }
            expected = {place for place in expected if times[place] >= low}
        assert {(r._source_partition, r._offset) for r in frame.collect()} == expected

    def check_state_is_a_function_of_the_log(self) -> None:
        """However many epochs are applied at once, and if some are applied twice (W4, R2)."""
        log = self.session.identifier("t")
        snapshot = self.log.table.current().id
        changes = on_time_changes(self.session.tables, log, snapshot)
        resets = steps(self.log.table.current().summary)
        whole = lives(self.relation, changes, resets).drop(CONTINUES)
        expected = sorted(map(repr, whole.collect()))
        assert sorted(map(repr, self.session.tables.rows(state_identifier(log)).collect())) == expected
        state, last = self.log.state, self.log.progress.epoch
        state.table.append([], None, {"tidegate.applied-epoch": str(last - 2)}, state.table.current())
        assert state.catch_up() == 2
        assert sorted(map(repr, self.session.tables.rows(state_identifier(log)).collect())) == expected


def ticks(value: datetime | None) -> int | None:
    return None if value is None else (value - BEGIN) // timedelta(microseconds=1)


def since(value: int) -> int:
    return (BEGIN - datetime(1970, 1, 1)) // timedelta(microseconds=1) + value


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "cuts"), [pytest.param(1, 1, marks=pytest.mark.long_run), (2, 2)])
def test_T1_T2_T4_a_table_equals_the_oracle(workbench: Workbench, seed: int, cuts: int) -> None:
    """200 cases each, `cuts` batches to a round. Where a batch ends changes no decision, and no row of a view. The
    second time the watermark is reset between rounds (W9)."""
    play, chance = Play(workbench), random.Random(seed)
    rounds = list(changes(seed, 200))
    play.enumerate({change.partition for found in rounds for change in found})
    for found in rounds:
        edges = sorted([0, len(found), *chance.sample(range(1, len(found)), cuts - 1)])
        for start, end in pairwise(edges):
            play.batch(found[start:end])
        play.check_rows()
        if cuts > 1 and found is not rounds[-1]:
            play.reset(play.oracle.g - chance.randint(0, 15) * SECOND)
            play.check_rows()
            play.check_history()
    play.check_late()
    play.check_history()
    play.check_state_is_a_function_of_the_log()
    assert play.oracle.g is not None
    keep_from = play.oracle.g - 9 * SECOND
    done = play.log.state.cleanup(since(keep_from))
    assert done.upto == since(keep_from) - 1
    play.check_history(low=keep_from)
    play.check_rows()
    gone = play.session.tables.rows(state_identifier(play.session.identifier("t")))
    assert min(ticks(r.ts) for r in gone.collect()) >= keep_from


def test_T4_the_oracle_itself() -> None:
    """By hand: b's row is the larger one and replaces a's, but only if a's had not expired by b's watermark."""
    table = Table(delay=5)
    table.enumerate(["a", "b"])
    table.read(Change("a", 0, "k", 10))
    table.read(Change("b", 0, "k", 20))
    table.read(Change("a", 1, "other", 11))
    table.publish()
    assert table.g == 6
    assert table.rows()["k"].partition == "b"
    assert table.history() == {("b", 0), ("a", 1)}
    late = Table(delay=5)
    late.enumerate(["a", "b"])
    late.read(Change("a", 0, "k", 10))
    late.read(Change("b", 0, "other", 30))
    late.read(Change("b", 1, "k", 40))
    assert late.history() == {("a", 0), ("b", 0), ("b", 1)}


def statements(seed: int, number: int) -> Iterator[tuple]:
    """INSERTs of many rows, and UPDATEs and DELETEs of the keys with one remainder, while event time moves on."""
    chance = random.Random(seed)
    for i in range(number):
        kind = chance.choice(("insert", "insert", "update", "move", "delete"))
        if i == 0 or kind == "insert":
            rows = [(chance.randrange(80), 5 * i + chance.randint(-20, 15)) for _ in range(40)]
            yield "insert", [(key, second, chance.randrange(100)) for key, second in rows]
        else:
            modulus = chance.randint(2, 5)
            yield kind, modulus, chance.randrange(modulus), chance.randint(-12, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.long_run)])
def test_T1_T2_statements_equal_the_oracle(workbench: Workbench, seed: int) -> None:
    """UPDATE and DELETE see what SELECT shows; each row is judged at its own turn, in order of event time."""
    session = workbench.session()
    session.execute(
        "CREATE TABLE t (k INT PRIMARY KEY, ts TIMESTAMP, v INT, "
        "WATERMARK FOR ts AS ts - INTERVAL '7 seconds' WITH TTL)"
    )
    oracle = Table(DELAY)
    oracle.enumerate(["0"])
    offset = 0
    for kind, *what in statements(seed, 14):
        if kind == "insert":
            given = [(key, second * SECOND, value, False) for key, second, value in what[0]]
            values = ", ".join(f"({k}, '{BEGIN + timedelta(microseconds=t)}', {v})" for k, t, v, _ in given)
            session.execute(f"INSERT INTO t VALUES {values}")
        else:
            modulus, rest, shift = what
            found = [c for c in oracle.rows().values() if c.key % modulus == rest]
            where = f"WHERE k % {modulus} = {rest}"
            moved = shift * SECOND if kind == "move" else 0
            given = [
                (c.key, c.time + moved, c.value if kind == "delete" else c.value + 1, kind == "delete")
                for c in found
            ]
            given.sort(key=lambda row: (row[1], row[0]))
            if kind == "delete":
                message = session.execute(f"DELETE FROM t {where}").message
            else:
                interval = f"INTERVAL '{moved // SECOND}' SECOND"
                message = session.execute(f"UPDATE t SET v = v + 1, ts = ts + {interval} {where}").message
        before = len(oracle.late)
        for key, time, value, delete in given:
            oracle.read(Change("0", offset, key, time, delete, value))
            offset += 1
        oracle.publish()
        if kind != "insert":
            late = len(oracle.late) - before
            what_it_did = "deleted" if kind == "delete" else "updated"
            of = f" of {len(given)} rows: {late} expired, 0 rejected" if late else ""
            assert message.startswith(f"{what_it_did} {len(given) - late}{of};")
        shown = {r.k: (ticks(r.ts), r.v) for r in session.table("t").collect()}
        assert shown == {key: (c.time, c.value) for key, c in oracle.rows().items()}
    late = {(r.offset, r.op, ticks(r.watermark)) for r in session.table("t$late").collect()}
    assert late == {(c.offset, "delete" if c.delete else "upsert", bar) for c, bar in oracle.late}
    history = changes_frame(session.tables, session.relation("t"), session.identifier("t"))
    assert {(r._source_partition, r._offset) for r in history.collect()} == oracle.history()
