"""A view goes back to an earlier version (E5), and what reads it goes on over the one that is current (D3)."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Failpoints, Killed
from tests.views.test_rebuild import rows
from tests.views.test_versions import (
    CLOSE,
    COUNT,
    READER,
    TABLE,
    VIEW,
    WORDS,
    expected,
    inserted,
    opened,
    rows_of,
    shown_by_sql,
)
from tidegate.errors import TidegateError
from tidegate.session.live import LiveGroup, Retries
from tidegate.session.session import Session
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback
from tidegate.views.versions import build

pytestmark = pytest.mark.runner("inprocess")

SPAN = """
CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '{}')
GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
OF_SPANS = """
CREATE MATERIALIZED VIEW w AS SELECT window_start AS at, sum(n) AS n FROM TUMBLE(v, window_start, INTERVAL '1 minute')
GROUP BY window_start EMIT ON WINDOW CLOSE;
"""


def test_E5_R2_a_view_goes_back_to_an_earlier_version_wherever_it_is_killed(workbench: Workbench) -> None:
    session = opened(workbench, COUNT)
    inserted(session, *range(4))
    session.run()
    rebuild(session := opened(workbench, WORDS))
    inserted(session, 4)
    session.run()
    with pytest.raises(TidegateError, match="TG535"):
        rollback(session, "v")
    with pytest.raises(TidegateError, match=r"TG201.*no version 7"):
        rollback(session, "v", 7)
    killed, points = True, 0
    while killed:
        killed = False
        again = workbench.session()
        again.confirm = lambda text: True
        try:
            with Failpoints(points).armed():
                done = rollback(again, "v")
        except Killed:
            killed, points = True, points + 1
        current = session.tables.open(session.identifier("v")).property("tidegate.generation")
        shown = rows_of(session, session.identifier("v")) if current == "3" else rows(session, "v")
        assert shown == expected(5, COUNT if current == "3" else WORDS, 4)
        if current == "3" and killed:
            break
    assert points > 2
    if not killed:
        assert (done.generation, done.rows) == (3, 4)
    # The file has the definition that was left; runs continue with the earlier one, until something else is decided.
    session = workbench.session()
    inserted(session, 5)
    session.run()
    assert rows(session, "v") == expected(6, COUNT, 5)
    assert [row[1] for row in rows(session, "v$v2")] == ["a", "a,b", "a,b,c", "a"]
    assert rows(session, "v$v1") == expected(4, COUNT, 3)
    # With the file as it was, nothing is left to do; with another one, a decision is.
    assert rebuild(opened(workbench, COUNT)) == []
    with pytest.raises(TidegateError, match="TG506"):
        opened(workbench, "max(n)").run()
    rebuild(opened(workbench, WORDS))
    assert rows(workbench.session(), "v") == expected(6, WORDS, 5)
    workbench.assets(t=TABLE.replace("k VARCHAR, ", ""), v=VIEW.format(what="max(n)", emit=CLOSE))
    session = workbench.session()
    session.run(["t"])
    session.confirm = lambda text: True
    with pytest.raises(TidegateError, match=r"TG506.*can be read, but not continued"):
        rollback(session, "v", 2)


def test_E5_what_an_earlier_version_begins_with_is_continued_by_nothing_else(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback is killed, and then the file gets that version's definition: it is computed from the log; and a
    rollback does not take what was begun from the log for the earlier version."""
    session = opened(workbench, COUNT)
    inserted(session, *range(4))
    session.run()
    rebuild(session := opened(workbench, WORDS))
    begun, real = [], build.VersionBuild._begun
    monkeypatch.setattr(build.VersionBuild, "_begun", lambda self: begun.append(self._tag()) or real(self))
    monkeypatch.setattr(build.VersionBuild, "swapped", lambda self, facts=None: _killed())
    session.confirm = lambda text: True
    for _ in range(2):
        with pytest.raises(Killed):
            rollback(session, "v")
        # The same command goes on with it.
        assert begun == ["generation_1"]
    session = opened(workbench, COUNT)
    with pytest.raises(Killed):
        rebuild(session)
    assert begun == ["generation_1", ""]
    session.confirm = lambda text: True
    with pytest.raises(Killed):
        rollback(session, "v")
    assert begun == ["generation_1", "", "generation_1"]
    monkeypatch.undo()
    rebuild(session)
    assert rows(workbench.session(), "v") == expected(4, COUNT, 3)


def _killed() -> bool:
    raise Killed("before the swap")


def test_E5_a_version_that_can_not_be_continued_is_left_behind_by_nobody(workbench: Workbench) -> None:
    """Of a view whose input was swapped since: to go back is refused, and to compute it from the log is not."""
    workbench.assets(t=TABLE, v=VIEW.format(what=COUNT, emit=CLOSE), busy=READER)
    session = workbench.session()
    inserted(session, *range(4))
    session.run()
    other = READER.replace("x > 1", "x > 2")
    workbench.assets(t=TABLE, v=VIEW.format(what="count(*) + 1", emit=CLOSE), busy=other)
    rebuild(session := workbench.session())
    session.confirm = lambda text: True
    with pytest.raises(TidegateError, match="TG506"):
        rollback(session, "busy")
    assert session.opened("busy$next") is None
    workbench.assets(t=TABLE, v=VIEW.format(what="count(*) + 1", emit=CLOSE), busy=READER)
    done = rebuild(session := workbench.session())
    assert [one.view for one in done] == ["busy"]
    assert len(rows(session, "busy")) == 3


def _at(session: Session, *times: str) -> None:
    for time in times:
        session.execute(f"INSERT INTO t VALUES ('a', 1, '2026-01-01 {time}')")
        session.run()


@pytest.mark.parametrize("live", [False, True])
def test_D3_E5_a_view_is_understood_over_the_version_that_is_current(
    workbench: Workbench, live: bool
) -> None:
    """A view goes back to windows of an hour, and its file still has those of a minute: what reads it waits for the
    hour."""
    workbench.assets(t=TABLE, v=SPAN.format("1 hour"), w=OF_SPANS)
    _at(workbench.session(), "00:10:00")
    workbench.assets(t=TABLE, v=SPAN.format("1 minute"), w=OF_SPANS)
    rebuild(session := workbench.session())
    _at(session, "00:20:00")
    session.confirm = lambda text: True
    rollback(session, "v")
    with pytest.raises(TidegateError, match="TG506"):
        workbench.session().run(["w"])
    # It is swapped in where no reader goes back.
    for time in ("00:50:00", "01:30:00"):
        workbench.session().execute(f"INSERT INTO t VALUES ('a', 1, '2026-01-01 {time}')")
        workbench.session().run(["v"])
    assert [one.view for one in rebuild(workbench.session(), ["w"])] == ["w"]
    if not live:
        _at(workbench.session(), "02:10:00", "02:30:00", "03:30:00")
    else:
        with LiveGroup(workbench.session(), retries=Retries(first=0.0, longest=0.0)) as group:
            for time in ("02:10:00", "02:30:00", "03:30:00", "03:40:00"):
                workbench.session().execute(f"INSERT INTO t VALUES ('a', 1, '2026-01-01 {time}')")
                group.tick(lambda event: None)
            assert group.failing == ()
    found = shown_by_sql(workbench.session(), "SELECT at, n FROM w ORDER BY at")
    assert [(f"{at:%H:%M}", n) for at, n in found] == [("00:00", 3), ("01:00", 1), ("02:00", 2)]


SINK = (
    "CREATE SINK s AS SELECT window_start, n FROM v WHERE n > 0 EMIT ON WINDOW CLOSE "
    "WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"
)


def _gone_back(workbench: Workbench, *others: str) -> Session:
    """The view `v` has windows of an hour again, and its file those of a minute."""
    workbench.assets(t=TABLE, v=SPAN.format("1 hour"), others="".join(others))
    _at(workbench.session(), "00:10:00")
    workbench.assets(t=TABLE, v=SPAN.format("1 minute"), others="".join(others))
    rebuild(session := workbench.session())
    session.confirm = lambda text: True
    rollback(session, "v")
    return session


def test_E1_E5_the_definition_that_was_left_may_be_written_in_another_way(workbench: Workbench) -> None:
    _gone_back(workbench)
    spelled = SPAN.format("1 minute").replace("SELECT", "select").replace("count(*)", "(COUNT(*))")
    assert spelled != SPAN.format("1 minute")
    workbench.assets(v=f"-- left\n{spelled}")
    _at(session := workbench.session(), "01:30:00", "02:30:00")
    assert not session.run().failed
    assert [f"{row[0]:%H}" for row in sorted(session.table("v").collect())] == ["00", "01"]
    # Of another definition nobody has decided.
    workbench.assets(v=SPAN.format("2 minutes"))
    with pytest.raises(TidegateError, match="TG506"):
        workbench.session().run(["v"])


def test_E5_a_sink_with_a_query_of_its_own_goes_on_over_the_version_that_is_current(
    workbench: Workbench,
) -> None:
    _gone_back(workbench)
    workbench.assets(t=TABLE, v=SPAN.format("1 minute"), s=SINK)
    session = workbench.session()
    for time in ("00:20:00", "01:30:00", "02:30:00"):
        session.execute(f"INSERT INTO t VALUES ('a', 1, '2026-01-01 {time}')")
        assert not session.run().failed
    sent = [
        line for file in (workbench.root / "out").glob("*.jsonl") for line in file.read_text().splitlines()
    ]
    assert sorted(json.loads(line)["n"] for line in sent) == [1, 2]
    # What stood in is taken back, also where a statement has dropped or changed it meanwhile.
    session.declare()
    assert not workbench.session().run().failed


def test_E5_what_stood_in_is_not_put_in_the_place_of_what_a_statement_has_made(workbench: Workbench) -> None:
    session = _gone_back(workbench)
    own = OF_SPANS.strip().replace("VIEW w", "VIEW own")
    session.execute(own)
    session.execute("FLUSH")
    session.execute("DROP MATERIALIZED VIEW own")
    session.declare()
    assert session.catalog.find("own") is None
    session.execute("FLUSH")
    session.execute(own.replace("sum(n)", "max(n)"))
    session.declare()
    assert "max(n)" in session.catalog.get("own").definition  # type: ignore[union-attr]  # a view


def test_D3_what_does_not_hold_for_the_current_version_is_refused(workbench: Workbench) -> None:
    """The file's `v` has a column that the stored one does not have; a new reader needs it."""
    workbench.assets(t=TABLE, v=SPAN.format("1 hour"), w=OF_SPANS)
    _at(workbench.session(), "00:10:00")
    newer = SPAN.format("1 hour").replace("AS n", "AS n, max(n) AS most")
    workbench.assets(t=TABLE, v=newer, w=OF_SPANS)
    rebuild(session := workbench.session())
    session.confirm = lambda text: True
    rollback(session, "v")
    needs = OF_SPANS.replace("sum(n)", "sum(most)")
    workbench.assets(t=TABLE, v=newer, w=needs, x=needs.replace("VIEW w", "VIEW x"))
    with pytest.raises(TidegateError, match=r'TG506.*"w" reads "v"'):
        rebuild(workbench.session(), ["w"])
    with pytest.raises(
        TidegateError, match=r'TG506.*query of "x" does not hold for the current version of "v"'
    ):
        workbench.session().run(["x"], upstream=False)
    rebuild(workbench.session())
    assert not workbench.session().run().failed


def test_E5_live_mode_takes_up_a_view_and_its_reader_that_were_changed_together(workbench: Workbench) -> None:
    workbench.assets(t=TABLE, v=SPAN.format("1 minute"), w=OF_SPANS)
    _at(workbench.session(), "00:10:00", "00:11:00")
    live = LiveGroup(workbench.session(), retries=Retries(first=0.0, longest=0.0))
    with live:
        live.tick(lambda event: None)
    # Another name of a column, which the reader follows.
    workbench.assets(
        t=TABLE, v=SPAN.format("1 minute").replace("AS n", "AS m"), w=OF_SPANS.replace("sum(n)", "sum(m)")
    )
    assert [one.view for one in rebuild(workbench.session())] == ["v", "w"]
    with live:
        for time in ("00:12:00", "00:13:00", "00:14:00"):
            workbench.session().execute(f"INSERT INTO t VALUES ('a', 1, '2026-01-01 {time}')")
            live.tick(lambda event: None)
        live.tick(lambda event: None)
        assert live.failing == ()
    found = shown_by_sql(workbench.session(), "SELECT at, n FROM w ORDER BY at")
    assert [f"{at:%H:%M}" for at, _ in found][:3] == ["00:10", "00:11", "00:12"]
