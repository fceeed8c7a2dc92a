"""E5, R2: views that change at one time, and wait for inputs of different speed, or were ended in between; and logs
that change with them."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply_at import BESIDE, READER, T, Waited, changed, shown, started, waiting
from tests.views.test_version_lives import CLOSE, HOURS, inserted
from tests.views.test_versions import TABLE
from tidegate.errors import TidegateError
from tidegate.plan.versions import HELD_AT
from tidegate.session.apply import apply
from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

#: The module: the package shows the function of the same name.
applying = importlib.import_module("tidegate.session.apply")
SLOW = BESIDE.replace("TUMBLE(t,", "TUMBLE(u,")


def two(workbench: Workbench) -> Session:
    """`v`, with its reader `d`, can come to T; the input of `w` has not."""
    more = {"u": TABLE.replace("TABLE t", "TABLE u"), "d": READER}
    old = started(workbench, **more, w=SLOW.format(what="count(*)"))
    slow(old, "00:10", "01:10", "02:10")
    old.run()
    inserted(old, "03:10", "06:10")
    return changed(workbench, **more, w=SLOW.format(what="sum(n)"))


def slow(session: Session, *times: str) -> None:
    """What `w` waits for."""
    for time in times:
        session.execute(f"INSERT INTO u VALUES ('a', 5, '2026-01-01 {time}:00')")


def ended(session: Session) -> None:
    assert shown(session, "w") == [("02:00", 10), ("04:00", 10)]
    assert shown(session, "d") == [(f"0{h}:00", 6) for h in range(1, 5)]
    assert HELD_AT not in session.tables.open(session.identifier("w")).properties()


def test_E5_a_reader_follows_though_another_view_still_waits(workbench: Workbench) -> None:
    session = two(workbench)
    waiting(session)
    with pytest.raises(Waited):
        apply(session, at=T)
    assert shown(session, "d") == [(f"0{h}:00", 6) for h in range(1, 5)]
    session = workbench.session()
    waiting(session, lambda: slow(session, "03:10", "06:10"))
    assert [one.view for one in apply(session, at=T).rebuilt] == ["w"]
    ended(session)


def test_R2_E5_ended_between_a_view_and_its_reader_the_same_command_continues(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = two(workbench)
    waiting(session)

    def killed(*given: Any, **more: Any) -> None:
        raise Waited

    with monkeypatch.context() as during:
        during.setattr(applying, "rebuild", killed)
        with pytest.raises(Waited):
            apply(session, at=T)
    session = workbench.session()
    waiting(session, lambda: slow(session, "03:10", "06:10"))
    assert [one.view for one in apply(session, at=T).rebuilt] == ["d", "w"]
    ended(session)


def test_E5_R5_a_view_whose_rows_are_gone_beyond_the_time_comes_to_it(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it can't compute up to the time is on record; what is gone behind it is the next version's."""
    old = started(workbench)
    session = changed(workbench)
    inserted(session, "03:10", "04:10", "05:10", "06:10", "07:10")
    view_table = importlib.import_module("tidegate.views.view_table")
    gone = importlib.import_module("tidegate.plan.gaps").Hole
    view = old.catalog.get("v")
    beyond = 1_767_247_200_000_000  # 06:00

    def missing(view: Any, summary: Any, pinned: Any) -> Any:
        return gone("t", beyond, view.kind, beyond) if int(summary["tidegate.frontier"]) < beyond else None

    assert view is not None
    monkeypatch.setattr(view_table, "missing", missing)
    waiting(session)
    apply(session, at=T)
    table = session.tables.open(session.identifier("v"))
    assert table.property("tidegate.generation") == "2"


def test_E5_the_source_gets_a_column_that_the_new_version_uses(workbench: Workbench) -> None:
    """The log is changed by the same command, and the current version names nothing that is changed."""
    old = started(workbench)
    inserted(old, "03:10", "04:10")
    workbench.assets(t=TABLE.replace("n INT", "n INT, note VARCHAR"))
    new = workbench.assets(v=HOURS.format(what="10 + count(note)", emit=CLOSE)).session()
    waiting(new, lambda: None)
    done = apply(new, at=T)
    assert [one.at for one in done.rebuilt] == ["2026-01-01 04:00:00"]
    new.execute(
        "INSERT INTO t VALUES ('a', 5, 'x', '2026-01-01 04:20:00'), ('a', 5, NULL, '2026-01-01 05:10:00')"
    )
    new.run()
    assert shown(new) == [(f"0{hour}:00", 10) for hour in range(1, 5)] + [("05:00", 11)]


def test_E5_no_log_is_changed_where_the_current_version_could_not_continue_then(workbench: Workbench) -> None:
    every = "CREATE MATERIALIZED VIEW v AS SELECT *, {} AS x FROM t EMIT ON WINDOW CLOSE;"
    workbench.assets(t=TABLE, v=every.format(1))
    inserted(old := workbench.session(), "00:10", "01:10")
    old.run()
    # In another order of the columns, which the view would show.
    new = workbench.assets(
        t=TABLE.replace("k VARCHAR, n INT", "n INT, k VARCHAR"), v=every.format(2)
    ).session()
    stood = new.tables.open(new.identifier("t")).properties()
    waiting(new, lambda: None)
    with pytest.raises(TidegateError, match=r"TG534.*its columns have changed"):
        apply(new, at=T)
    assert new.tables.open(new.identifier("t")).properties() == stood
