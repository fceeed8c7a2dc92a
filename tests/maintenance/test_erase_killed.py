"""R2, E9: an erasure that is ended at any point at which it leaves something behind, and the one that finishes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess.session import open_session, without_a_jvm
from tests.inprocess.stored.files import forget_files
from tests.maintenance.people import WHERE, WHO, arrive, audit, define, erased, stored, there
from tests.maintenance.test_erase_views import HOURS
from tests.runtime.undisturbed import Undisturbed, recorded
from tidegate.audit.view import audit_view
from tidegate.errors import TidegateError
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erasing import ErasingFile
from tidegate.plan.versions import KEPT
from tidegate.session.session import Session
from tidegate.views.revisions.erased_windows import marked

#: One view of which rows go, and one that keeps its counts.
VIEWS = f"""
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, customer, count(*) AS n {HOURS}
GROUP BY window_start, customer EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW totals AS SELECT window_start, count(*) AS n {HOURS} GROUP BY window_start
EMIT ON WINDOW CLOSE;
"""
TABLES = ("orders", "hourly", "totals")


@pytest.fixture(autouse=True)
def _no_jvm() -> Iterator[None]:
    with without_a_jvm():
        yield


def filled(root: Path) -> Session:
    define(root, VIEWS)
    session = open_session(root)
    for number in (1, 2):
        arrive(root, number)
        session.run()
    for name in ("orders", "hourly"):
        session.tables.open(session.identifier(name)).tag("kept")
    return session


def everything(session: Session) -> dict[str, list[tuple[str, ...]]]:
    return {name: stored(session, name) for name in TABLES}


def facts(session: Session) -> dict[str, Any]:
    """Everything that must not depend on what happened to an erasure."""
    found, opened = audit(session), {n: session.tables.open(session.identifier(n)) for n in TABLES}
    views = {name: audit_view(session, name) for name in TABLES[1:]}
    assert all(one.ok for one in views.values()), views
    return {
        "rows": {name: len(rows) for name, rows in everything(session).items()},
        "audit": (found.raw, found.erased),
        "views": {name: (one.raw, one.erased, one.counted) for name, one in views.items()},
        "marks": [(one.start, one.end, one.on_time) for one in marked(session, opened["totals"])],
        "facts": {k: v for k, v in opened["orders"].current().facts.items() if k != "tidegate.progress"},
        "versions": [opened["totals"].property(key) for key in ("tidegate.generation", KEPT)],
        "snapshots": {name: len(opened[name].snapshot_ids()) for name in TABLES[:2]},
        "left": ErasingFile(session.project.storage, "orders").read(),
    }


@dataclass(frozen=True)
class Ended:
    """An erasure that nothing ended, and the rows before it. `options`: what becomes of counts."""

    before: dict[str, list[tuple[str, ...]]]
    run: Undisturbed
    options: dict[str, bool]

    @property
    def recomputes(self) -> bool:
        return "recompute" in self.options


@pytest.fixture(scope="module", params=["keep_aggregates", "recompute"])
def ended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    options = {request.param: True}
    root = tmp_path_factory.mktemp("undisturbed") / "project"
    with without_a_jvm():
        session = filled(root)
        before = everything(session)
        with recorded(root) as run:
            erased(session, **options)
        run.facts.update(facts(session))
        yield Ended(before, run, options)


def test_the_erasure_does_all_there_is_to_be_broken(ended: Ended) -> None:
    assert {name: len(rows) - ended.run.facts["rows"][name] for name, rows in ended.before.items()} == {
        "orders": 10,
        "hourly": 3,
        "totals": 1 if ended.recomputes else 0,
    }
    assert (ended.run.facts["audit"], len(ended.run.facts["marks"])) == (
        (8, 10),
        0 if ended.recomputes else 4,
    )
    names = ("ErasingFile.write", "erase_log.recorded", "InProcessTable.append", "InProcessUpkeep._commit")
    for name in (*names, "InProcessUpkeep._delete", "ErasingFile.remove"):
        assert any(passed.endswith(name) for passed in ended.run.passed), name
    assert len(ended.run.distinct()) > 12


@pytest.mark.medium
@pytest.mark.parametrize("each", [12, pytest.param(1, marks=pytest.mark.long_run)])
def test_R2_an_erasure_is_killed_at_every_point_and_the_next_one_ends_it(ended: Ended, each: int) -> None:
    """What is left adds up; what was begun is known, and nobody who agreed is asked again; and the end is the same."""
    # (Every change that it makes beside the view is made for another version, too: tests/views/test_versions.py.)
    for number in ended.run.distinct()[:: 9 if ended.recomputes and each > 1 else each]:
        session, point = ended.run.back_to(number), ended.run.passed[number]
        forget_files()
        audit(session)
        begun = ErasingFile(session.project.storage, "orders").read()
        if begun is not None:
            with pytest.raises(TidegateError, match="TG573"):
                erase(session, "orders", "customer = 'ann'")
            session.confirm = None
            erase(session, "orders")
        else:
            erased(session, **ended.options)
        assert facts(session) == ended.run.facts, point
        assert there(ended.run.root) == set(), point
        session.run()
        assert audit(session).raw == 8, point


def test_R2_it_goes_on_by_the_same_command_too(ended: Ended) -> None:
    # The first commit marks windows, the second one takes the rows out of the log.
    appended = [n for n, name in enumerate(ended.run.passed) if name == "after InProcessTable.append"]
    number = appended[1]
    session = ended.run.back_to(number)
    forget_files()
    session.confirm = None
    done = erase(session, "orders", WHERE, (WHO,), **ended.options)
    assert (done.rows, facts(session)) == (10, ended.run.facts)
