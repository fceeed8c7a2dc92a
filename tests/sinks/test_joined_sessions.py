"""B2: sessions that late rows join before an append-only sink has delivered them."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tidegate.amend.run import amend
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

TABLE = "CREATE TABLE t (k VARCHAR, p VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
VIEW = (
    "CREATE MATERIALIZED VIEW v AS SELECT {shown}, count(*) AS c FROM SESSION(t, ts, k, INTERVAL '10 seconds') "
    "GROUP BY {groups}window_start, window_end EMIT ON WINDOW CLOSE;"
)
SINK = (
    "CREATE SINK files FROM v WITH (connector = 'filesystem', path = 'out') "
    "FORMAT PLAIN ENCODE CSV (without_header = true);"
)
MINUTE = "extract(minute from window_end)"


def insert(session: Session, *rows: str) -> None:
    """Rows as `key+part@minute:second`."""
    values = [(row.partition("@")[0], row.partition("@")[2]) for row in rows]
    texts = ", ".join(f"('{name[0]}', '{name[1:]}', '2026-01-01 00:{at}')" for name, at in values)
    session.execute(f"INSERT INTO t VALUES {texts}")


def delivered(workbench: Workbench) -> list[str]:
    files = (workbench.root / "out").glob("*.csv")
    return sorted(line for file in files for line in file.read_text().splitlines())


@pytest.mark.parametrize(
    ("shown", "groups", "late", "right"),
    [
        pytest.param("k", "k, ", "cx@01:55", ["a,1", "b,1", "c,2", "d,1"], id="key"),
        pytest.param(
            "k, p",
            "k, p, ",
            "cy@01:55",
            ["a,x,1", "b,x,1", "c,x,1", "c,y,1", "d,x,1"],
            id="a-group-beside-the-key",
        ),
        pytest.param(
            f"k, {MINUTE} AS m",
            f"k, {MINUTE}, ",
            "cx@01:55",
            ["a,0,1", "b,1,1", "c,2,2", "d,2,1"],
            id="of-the-bound",
        ),
        pytest.param(
            "max(k) AS k", "k, ", "cx@01:55", ["a,1", "b,1", "c,2", "d,1"], id="key-that-is-not-shown"
        ),
    ],
)
def test_B2_a_session_that_a_late_row_joins_is_delivered_as_joined(
    workbench: Workbench, shown: str, groups: str, late: str, right: list[str]
) -> None:
    session = workbench.session()
    for sql in (TABLE, VIEW.format(shown=shown, groups=groups), SINK):
        session.execute(sql)
    insert(session, "ax@00:01", "bx@01:00")
    session.run()
    assert delivered(workbench) == right[:1]
    insert(session, "cx@01:48", "dx@02:30", "bx@03:00")
    session.run(["v"])
    insert(session, late)
    assert sum(report.windows for report in amend(session)) > 0
    session.run()
    assert delivered(workbench) == right


def test_B2_a_session_of_another_key_makes_no_delivered_one_come_again(workbench: Workbench) -> None:
    """The view does not show the key, and the session that grows lies in the time of one that is not delivered."""
    session = workbench.session()
    for sql in (TABLE, VIEW.format(shown="max(k) AS k", groups="k, "), SINK):
        session.execute(sql)
    insert(session, "ax@00:30", "zx@00:41")
    session.run()
    assert delivered(workbench) == ["a,1"]
    insert(session, "yx@03:00")
    session.run(["v"])
    insert(session, "ax@00:36")
    assert sum(report.windows for report in amend(session)) > 0
    session.run()
    assert delivered(workbench) == ["a,1", "z,1"]
    assert sorted(map(tuple, session.execute("SELECT * FROM v").rows())) == [("a", 2), ("z", 1)]
