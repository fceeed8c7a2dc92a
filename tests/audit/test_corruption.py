"""A1, W5: whatever somebody does to a view's or a log's rows behind our back, the audits notice and say where."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tests.support.by_hand import by_hand
from tidegate.audit.source import PartitionAudit, SourceAudit, audit_source
from tidegate.audit.view import audit_view

pytestmark = pytest.mark.runner("inprocess")

SETUP = """
CREATE TABLE t (k VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW v AS SELECT window_end, k, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end, k EMIT ON WINDOW CLOSE;
INSERT INTO t VALUES ('a', '2026-01-01 00:00:01'), ('b', '2026-01-01 00:00:02'), ('a', '2026-01-01 00:00:03'),
  ('a', '2026-01-01 00:01:01'), ('b', '2026-01-01 00:00:59'), ('a', NULL), ('z', '2026-01-01 00:03:00');
FLUSH;
"""


@pytest.mark.parametrize(
    ("change", "offsets"),
    [
        ("DELETE FROM {v} WHERE k = 'b'", ["0:1"]),
        ("INSERT INTO {v} SELECT * FROM {v} WHERE k = 'b'", ["0:1"]),
        (
            "UPDATE {v} SET _rows = 3 - _rows WHERE month(_window_end) = 1 AND minute(_window_end) = 1",
            ["0:0", "0:1", "0:2"],
        ),
    ],
    ids=["deleted group", "slice twice", "count shifted between groups"],
)
def test_A1_a_corrupted_view(workbench: Workbench, change: str, offsets: list[str]) -> None:
    session = workbench.session()
    session.execute(SETUP)
    assert audit_view(session, "v").ok
    by_hand(session, change.format(v=session.identifier("v")))
    audit = audit_view(session, "v")
    assert not audit.ok
    assert [p.offsets for p in audit.problems] == [offsets]


@pytest.mark.parametrize(
    ("where", "missing"),
    [("0, 1", ["0-1"]), ("2, 4", ["2", "4"]), ("5, 6", ["5-6"]), ("0, 1, 2, 3, 4, 5, 6", ["0-6"])],
    ids=["first", "middle", "last", "all"],
)
def test_W5_offsets_that_are_gone_from_the_log_are_listed(
    workbench: Workbench, where: str, missing: list[str]
) -> None:
    session = workbench.session()
    session.execute(SETUP)
    assert audit_source(session, "t").ok
    by_hand(session, f"DELETE FROM {session.identifier('t')} WHERE _offset IN ({where})")
    audit = audit_source(session, "t")
    assert not audit.ok
    assert [p.missing for p in audit.partitions] == [missing]


def test_W5_a_log_that_has_fewer_or_more_rows_than_were_counted_does_not_add_up() -> None:
    """Also of a topic, whose offsets have gaps of their own."""
    for raw, retired, ok in ((7, 0, True), (5, 2, True), (6, 0, False), (8, 0, False), (6, 2, False)):
        found = PartitionAudit("0", raw, raw, 0, 0, 7, 0, ["17"], gaps_allowed=True, retired=retired)
        assert found.ok == ok
        assert SourceAudit("s", [found], None).ok == ok
    whole = PartitionAudit("0", 7, 7, 0, 0, 7, 0, [], gaps_allowed=False)
    assert [SourceAudit("s", [whole], rows).ok for rows in (7, 8, 6)] == [True, False, False]


def test_W5_rows_that_are_twice_in_the_log(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(SETUP)
    log = session.identifier("t")
    by_hand(session, f"INSERT INTO {log} SELECT * FROM {log} WHERE _offset = 2")
    audit = audit_source(session, "t")
    assert not audit.ok
    assert [p.repeated for p in audit.partitions] == [1]
    view = audit_view(session, "v")
    assert [p.offsets for p in view.problems] == [["0:0", "0:2", "0:2"]]


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ("UPDATE {v} SET total = total + 1 WHERE k = 'b'", ["different"]),
        ("UPDATE {v} SET total = total + 1e-15 WHERE k = 'b'", []),
        ("UPDATE {v} SET most = 7 WHERE k = 'b'", ["missing", "unexpected"]),
        ("UPDATE {v} SET total = NULL WHERE k = 'b'", ["different"]),
        ("UPDATE {v} SET some = 'whatever' WHERE k = 'b'", []),
    ],
    ids=["number", "last digits (C7)", "integer", "null", "depends on order"],
)
def test_A1_values_of_aggregates_are_compared_with_a_batch(
    workbench: Workbench, change: str, kinds: list[str]
) -> None:
    session = workbench.session()
    session.execute(
        SETUP
        + "CREATE MATERIALIZED VIEW sums AS SELECT window_end, k, sum(length(k) / 3) AS total, max(length(k)) AS most, "
        "any_value(k) AS some FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY window_end, k EMIT ON WINDOW CLOSE;"
    )
    audit = audit_view(session, "sums")
    assert audit.ok
    assert (audit.batch.compared, audit.batch.not_compared) == (3, ["some"])
    by_hand(session, change.format(v=session.identifier("sums")))
    audit = audit_view(session, "sums")
    assert sorted(e.kind for e in audit.batch.examples) == kinds
    assert audit.value_mismatches == min(len(kinds), 1)
    assert audit.ok == (not kinds)
