"""`WATERMARK(rel, col, expr)` in FROM (W14): the log of a gate that reads another log."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.oracles.oracle import Oracle, Row
from tidegate import TidegateError
from tidegate.iceberg.retire import ROWS
from tidegate.ingest.sources.log import LogConnector, advance
from tidegate.session.run import connect
from tidegate.sql.dialect.dialect import tokenize
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.text import Text
from tidegate.sql.views.inline_gate import inline_gate, watermark_call

if TYPE_CHECKING:
    from tidegate.session.session import Session
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Relation

pytestmark = pytest.mark.runner("inprocess")

CLICKS = """
CREATE SOURCE clicks (p VARCHAR, n BIGINT, e BIGINT)
WITH (connector = 'filesystem', path = 'data/clicks', partition.columns = 'p', order.column = 'n',
      partitions = 'a, b') FORMAT PLAIN ENCODE JSON;
"""
ORDERS = "CREATE TABLE orders (id BIGINT, order_time TIMESTAMP, price BIGINT, customer_id BIGINT);"


def gate_of(catalog: Catalog, call: str) -> Relation:
    """The implicit relation of a call, added to the catalog as the view that writes it would."""
    text = Text(f"SELECT * FROM {call}")
    found = watermark_call(parse_query(text, tokenize(text)).args["from_"].this)
    assert found is not None
    gate = inline_gate(text, found, catalog, ())
    if gate.name not in catalog:
        catalog.add(gate)
    return gate


def judged(session: Session, gate: Relation) -> dict[tuple[str, int], str]:
    """(partition, offset) and outcome of every row of the gate's log."""
    rows = session.table(f"{gate.name}$raw").select("partition", "offset", "outcome").collect()
    assert len({(r[0], r[1]) for r in rows}) == len(rows), "a row is there twice"
    return {(r[0], r[1]): r[2] for r in rows}


def files_after(session: Session, name: str, epoch: int) -> int:
    """How many files of a log Iceberg reads for the rows after an epoch."""
    table = session.tables.open(session.identifier(name))._table
    later = session.spark._jvm.org.apache.iceberg.expressions.Expressions.greaterThan("_epoch", epoch)
    files = table.newScan().filter(later).planFiles().iterator()
    count = 0
    while files.hasNext():
        files.next()
        count += 1
    return count


def test_W14_every_row_passes_the_gate_once_however_the_logs_are_cut(
    new_workbench: Callable[[], Workbench],
) -> None:
    for seed in range(3):
        chance = random.Random(seed)
        workbench = new_workbench().assets(clicks=CLICKS)
        session = workbench.session()
        gate = gate_of(session.catalog, "WATERMARK(clicks, e, e - 5)")
        oracle = Oracle(lambda row: row.event_time - 5)
        oracle.enumerate(["a", "b"])
        offsets = {"a": 0, "b": 0}
        expected, bars = {}, {}
        for batch in range(4):
            lines = []
            for _ in range(chance.randrange(0, 12)):
                p, e = chance.choice("ab"), batch * 6 + chance.randrange(0, 15)
                lines.append({"p": p, "n": offsets[p], "e": e})
                bars[p, offsets[p]] = oracle.wp[p]
                expected[p, offsets[p]] = oracle.read(Row(p, offsets[p], e)).outcome
                offsets[p] += 1
            workbench.json_lines(f"data/clicks/{batch}.json", lines)
            session.run(["clicks"])
            if chance.random() < 0.6:
                session.run([gate.name], max_rows_per_batch=chance.choice([None, 1]))
        session.run([gate.name])
        assert judged(session, gate) == expected
        marks = session.table(f"{gate.name}$raw").select("partition", "offset", "watermark").collect()
        assert {(r[0], r[1]): r[2] for r in marks} == bars
        assert session.run([gate.name]).sources[0].epochs == 0
        # What the gate saw adds up with what the source let through (W5).
        assert session.table("clicks").count() == len(expected)


def test_W14_a_row_keeps_its_place_and_arrival_and_late_rows_of_the_source_stay_out(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    session.execute(
        "CREATE TABLE t (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 hour') APPEND ONLY;"
        "INSERT INTO t VALUES (1, '2026-01-01 10:00'), (2, '2026-01-01 08:00'), (3, '2026-01-01 09:30'), (4, NULL),"
        " (5, '2026-01-01 10:01')"
    )
    gate = gate_of(session.catalog, "WATERMARK(t, ts, INTERVAL '1' MINUTE)")
    report = session.run([gate.name])
    assert (report.sources[0].on_time, report.sources[0].late, report.sources[0].rejected) == (2, 1, 0)
    assert judged(session, gate) == {("0", 0): "on_time", ("0", 2): "late", ("0", 4): "on_time"}
    assert session.catalog.get(gate.name).watermark.expression == "ts - INTERVAL '1' MINUTE"
    arrivals = 'SELECT offset, $rowtime FROM "{}$raw" WHERE offset IN (0, 2, 4) ORDER BY offset'
    assert session.execute(arrivals.format(gate.name)).rows() == session.execute(arrivals.format("t")).rows()


@pytest.mark.runner("spark")
def test_W14_the_position_is_committed_with_the_rows(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(ORDERS + "INSERT INTO orders VALUES (1, '2026-01-01 10:00', 1, 1)")
    gate = gate_of(session.catalog, "WATERMARK(orders, order_time, INTERVAL '1' MINUTE)")
    session.run([gate.name])
    session.execute("INSERT INTO orders VALUES (2, '2026-01-01 10:05', 1, 1)")
    # As if killed after the rows were written and before the commit: files without a commit are no rows (R2).
    log = session.log(gate)
    broken, commit = log.table.append, log.table
    assert broken is not None

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(commit), "append", killed)
        with pytest.raises(KeyboardInterrupt):
            session.run([gate.name])
    session.run([gate.name])
    assert judged(session, gate) == {("0", 0): "on_time", ("0", 1): "on_time"}
    position = session.log(gate).progress.position
    assert position is not None
    assert position.epoch == 2
    # What is new is found by its epoch: the history before it is not read again.
    session.execute("INSERT INTO orders VALUES (3, '2026-01-01 10:06', 1, 1)")
    assert (files_after(session, "orders", 0), files_after(session, "orders", 2)) == (6, 2)


def test_W14_a_gate_that_stays_open_reads_what_comes_after_rows_were_retired(workbench: Workbench) -> None:
    """Live mode opens a gate once. Its first batch is of one snapshot, so that no row goes while it counts them."""
    session = workbench.session()
    session.execute(ORDERS + "INSERT INTO orders VALUES (1, '2026-01-01 10:00', 1, 1)")
    session.tables.open(session.identifier("orders")).set_properties({ROWS: "none"})
    gate = gate_of(session.catalog, "WATERMARK(orders, order_time, INTERVAL '1' MINUTE)")
    log = session.log(gate)
    connector = connect(session, log)
    assert isinstance(connector, LogConnector)
    for number in (1, 2):
        connector.pending()
        advance(log, connector, lambda event: None, session.clock)
        assert log.progress.totals()["on_time"] == number
        session.execute(f"INSERT INTO orders VALUES ({number + 1}, '2026-01-01 10:0{number}', 1, 1)")


def test_W14_a_source_that_was_made_anew_is_not_taken_for_the_old_one(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(ORDERS + "INSERT INTO orders VALUES (1, '2026-01-01 10:00', 1, 1)")
    gate = gate_of(session.catalog, "WATERMARK(orders, order_time, order_time)")
    session.run([gate.name])
    session.forget("orders")
    session.execute("INSERT INTO orders VALUES (7, '2026-01-01 10:00', 1, 1), (8, '2026-01-01 10:00', 1, 1)")
    with pytest.raises(TidegateError) as caught:
        session.run([gate.name])
    assert caught.value.code == "TG505"


def test_W14_the_examples_of_the_RFC(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(ORDERS)
    minute = "order_time - INTERVAL '1' MINUTE"
    plain = gate_of(session.catalog, f"WATERMARK(orders, order_time, {minute})")
    check = gate_of(
        session.catalog,
        f"WATERMARK(orders, order_time, CASE WHEN order_time > PROC_TIME() THEN NULL ELSE {minute} END)",
    )
    frame = "ROWS BETWEEN 10 PRECEDING AND CURRENT ROW"
    subquery = f"(SELECT *, max(order_time) OVER ({frame}) AS win_max_time FROM orders)"
    outliers = gate_of(
        session.catalog,
        f"WATERMARK({subquery}, order_time, CASE WHEN order_time = win_max_time THEN NULL ELSE {minute} END)",
    )
    times = ["10:00", "10:05", "10:02", "10:04:30", "10:01"]
    session.execute(
        "INSERT INTO orders VALUES "
        + ", ".join(f"({i}, '2026-01-01 {t}', 1, 1)" for i, t in enumerate([*times, "10:03:29", "10:03:30"]))
    )
    session.run([plain.name, check.name, outliers.name])
    late = {("0", i) for i in (2, 4, 5, 6)}
    for gate in (plain, check):
        found = judged(session, gate)
        assert {place for place, outcome in found.items() if outcome == "late"} == late
    # A new maximum raises nothing: only 10:02 (to 10:01) and 10:04:30 (to 10:03:30) do.
    found = judged(session, outliers)
    assert {place for place, outcome in found.items() if outcome == "late"} == {("0", 4), ("0", 5)}


HOURLY = """
CREATE MATERIALIZED VIEW {name} AS
SELECT customer_id, window_end AS order_hour, SUM(price) AS sum_price
FROM TUMBLE(WATERMARK(orders, order_time, {strategy}), order_time, INTERVAL '1' HOUR)
GROUP BY window_end, customer_id EMIT ON WINDOW CLOSE;
"""


def test_W14_views_that_write_the_same_call_share_its_gate_and_it_goes_with_the_last(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    session.execute(ORDERS)
    session.execute(HOURLY.format(name="by_interval", strategy="INTERVAL '1' MINUTE"))
    session.execute(HOURLY.format(name="by_expression", strategy="order_time - INTERVAL '60 seconds'"))
    session.execute(
        "INSERT INTO orders VALUES (1, '2026-01-01 10:10', 10, 1), (2, '2026-01-01 10:20', 5, 1), "
        "(3, '2026-01-01 10:15', 7, 2), (4, '2026-01-01 11:02', 1, 2)"
    )
    session.execute("FLUSH")
    for view in ("by_interval", "by_expression"):
        # 10:15 is late: the watermark stood at 10:19.
        assert session.execute(f"SELECT customer_id, sum_price FROM {view}").rows() == [(1, 15)]
    (gate,) = session.catalog.get("by_interval").gates
    assert session.catalog.get("by_expression").gates[0].name == gate.name
    assert session.stored(gate.name) is not None
    assert session.execute(f'SELECT id FROM "{gate.name}$late"').rows() == [(3,)]
    # It is nobody's table: not listed, but another session finds it with the views.
    again = workbench.session()
    assert again.execute("SHOW TABLES").rows() == [("orders", None)]
    again.execute(
        "INSERT INTO orders VALUES (5, '2026-01-01 11:30', 2, 1), (6, '2026-01-01 12:01', 2, 1); FLUSH"
    )
    assert again.execute("SELECT sum_price FROM by_interval ORDER BY order_hour, customer_id").rows() == [
        (15,),
        (2,),
        (1,),
    ]
    again.execute("DROP MATERIALIZED VIEW by_interval", yes=True)
    assert again.stored(gate.name) is not None
    again.execute("DROP MATERIALIZED VIEW by_expression", yes=True)
    assert again.stored(gate.name) is None
    again.execute("DROP TABLE orders", yes=True)
    assert again.catalog.names() == []


def test_W14_a_gate_in_FROM_sorts_and_carries_current_watermark(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        ORDERS
        + """
        CREATE MATERIALIZED VIEW released AS
        WITH small AS (SELECT id, order_time FROM orders WHERE price < 100)
        SELECT id, order_time, CURRENT_WATERMARK(order_time) AS w, $rowtime AS arrived
        FROM WATERMARK(small, order_time, INTERVAL '1' HOUR) EMIT ON WINDOW CLOSE;
        """
    )
    session.execute(
        "INSERT INTO orders VALUES (1, '2026-01-01 10:30', 1, 1), (2, '2026-01-01 10:00', 1, 1), "
        "(3, '2026-01-01 13:00', 500, 1), (4, '2026-01-01 11:31', 1, 1)"
    )
    session.execute("FLUSH")
    rows = session.execute("SELECT id, w, arrived IS NOT NULL FROM released").rows()
    assert rows == [(2, datetime(2026, 1, 1, 9, 30), True), (1, None, True)]
