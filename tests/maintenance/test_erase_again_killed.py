"""R2, E9: an erasure that computes a session, a join and OVER again, ended at any point at which it leaves something
behind, and the one that finishes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inprocess.session import open_session, without_a_jvm
from tests.inprocess.stored.files import forget_files
from tests.maintenance.people import WHO, arrive, audit, define, erased, stored, there
from tests.maintenance.remaining import ABOVE, CALLS, PAIRS, STEPS, VISITS, call, has, shown, truth
from tests.runtime.undisturbed import Undisturbed, recorded
from tidegate.audit.view import audit_view
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erasing import ErasingFile
from tidegate.plan.versions import kept_versions, next_of
from tidegate.session.session import Session

NAMES = ("visits", "pairs", "steps", "long")


#: What it has in common with other erasures is killed in `make test` (`test_erase_killed.py`).
pytestmark = pytest.mark.long_run


@pytest.fixture(autouse=True)
def _no_jvm() -> Iterator[None]:
    with without_a_jvm():
        yield


def filled(root: Path) -> Session:
    define(root, CALLS, VISITS, PAIRS, STEPS, ABOVE)
    session = open_session(root)
    for number in (1, 2):
        arrive(root, number)
        call(root, number)
        session.run()
    session.tables.open(session.identifier("visits")).tag("kept")
    return session


def facts(session: Session) -> dict[str, Any]:
    """Everything that must not depend on what happened to an erasure. (A view may have been computed once more.)"""
    opened = {name: session.tables.open(session.identifier(name)) for name in NAMES}
    views = shown(session, NAMES)
    assert views == truth(session, NAMES)
    assert all(audit_view(session, name).ok for name in NAMES)
    return {
        "rows": views,
        "log": stored(session),
        "audit": (audit(session).raw, audit(session).erased),
        "snapshots": [len(table.snapshot_ids()) for table in opened.values()],
        "versions": [kept_versions(table.properties()) for table in opened.values()],
        "next": [session.stored(next_of(name)) for name in NAMES],
        "left": ErasingFile(session.project.storage, "orders").read(),
    }


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    root = tmp_path_factory.mktemp("undisturbed") / "project"
    with without_a_jvm():
        session = filled(root)
        assert has(shown(session, NAMES)) == {"visits", "pairs", "steps"}
        with recorded(root) as run:
            erased(session, recompute=True)
        run.facts.update(facts(session))
    return run


def test_the_erasure_does_all_there_is_to_be_broken(ended: Undisturbed) -> None:
    assert (ended.facts["snapshots"], ended.facts["audit"]) == ([1] * 4, (8, 10))
    assert not has(ended.facts["rows"])
    passed = [name for name in ended.passed if name.startswith("after")]
    # What is to be done, and what was done; a swap for each view; and the rows leave the log before.
    assert sum(name.endswith("ErasingFile.write") for name in passed) == 2
    swaps = [number for number, name in enumerate(ended.passed) if name == "after InProcessTable.swap"]
    assert len(swaps) == 4
    assert any(name.endswith("erase_log.recorded") for name in ended.passed[: swaps[0]])


@pytest.mark.medium
def test_R2_a_recomputing_erasure_is_killed_at_every_point_and_the_next_one_ends_it(
    ended: Undisturbed,
) -> None:
    for number in ended.distinct():
        session, point = ended.back_to(number), ended.passed[number]
        forget_files()
        begun = ErasingFile(session.project.storage, "orders").read()
        if begun is not None:
            session.confirm = None
            erase(session, "orders")
        else:
            erased(session, recompute=True)
        assert facts(session) == ended.facts, point
        assert there(ended.root) == set(), point
        session.run()
        assert WHO not in str(shown(session, NAMES)), point
