"""E9, X3: tables of branch environments that have a person's rows are dropped, if that is wanted, and no others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.inprocess.failpoints import Killed
from tests.inprocess.stored.files import forget_files
from tests.inprocess.stored.tables import InProcessTables
from tests.maintenance.people import WHERE, WHO, arrive, audit, define, erased, stored, there
from tests.runtime.undisturbed import recorded
from tests.support.searching import kinds
from tidegate.errors import TidegateError
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erase_log import LogErasure
from tidegate.maintenance.erasing import DroppedTable, Erasing, ErasingFile

pytestmark = pytest.mark.runner("inprocess")

#: What the branch has of the person, over two views; and one without a row of the source.
SHOWN = "CREATE MATERIALIZED VIEW shown AS SELECT customer, at FROM orders EMIT ON WINDOW CLOSE;\n"
BRANCH = f"""{SHOWN}
CREATE MATERIALIZED VIEW loud AS SELECT upper(customer) AS who, at FROM shown EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW gated AS SELECT customer, count(*) AS n
FROM TUMBLE(WATERMARK(orders, at, at - INTERVAL '1 day'), at, INTERVAL '1 hour') GROUP BY window_start, customer
EMIT ON WINDOW CLOSE;
"""


def environment(root: Path, name: str, reads: str | None = "local", **more: object) -> None:
    (root / "resources").mkdir(exist_ok=True)
    given = {"warehouse": {"namespace": name}} | ({} if reads is None else {"reads": reads}) | more
    (root / "resources" / f"{name}.yaml").write_text(json.dumps(given))


@pytest.fixture
def filled(workbench: Workbench) -> Workbench:
    """The source, and a branch whose views the main environment does not have."""
    define(workbench.root)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    environment(workbench.root, "pr")
    define(workbench.root, BRANCH)
    workbench.session("pr").run()
    define(workbench.root)
    return workbench


def in_branch(root: Path, name: str = "pr") -> set[str]:
    """Where the person is in what a branch has stored."""
    return {place for place in there(root) if f"/{name}/" in place}


def tables(root: Path, name: str = "pr") -> set[str]:
    folder = root / ".tidegate" / "warehouse" / name
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def test_X3_E9_tables_of_a_branch_are_dropped_with_their_files(filled: Workbench) -> None:
    root, session = filled.root, filled.session()
    assert {"rows", "statistics"} <= kinds(in_branch(root))
    before, had = stored(session), tables(root)
    with pytest.raises(TidegateError, match=r"namespace pr: .*loud, .* shown \(--drop-branches drops these"):
        erased(session)
    looked = erased(session, drop_branches=True, dry_run=True)
    assert (stored(session), tables(root)) == (before, had)
    said: list[str] = []

    def agree(text: str) -> bool:
        said.append(text)
        return True

    session.confirm = agree
    done = erase(session, "orders", WHERE, (WHO,), drop_branches=True)
    dropped = [(one.table, one.dropped) for one in done.tables if one.dropped]
    assert [(one.table, one.dropped) for one in looked.tables if one.dropped] == dropped
    assert [name.partition("$gate_")[0] for name, _ in dropped] == [
        "pr.gated",
        "pr.loud",
        "pr.orders",
        "pr.shown",
    ]
    assert 'environment "pr", namespace pr: 4 tables dropped' in said[0]
    assert (there(root), tables(root)) == (set(), set())
    assert audit(session).erased == 10
    # The branch computes its views again, from the rows that are left.
    define(root, BRANCH)
    again = filled.session("pr")
    again.run()
    assert {row["customer"] for row in again.table("shown").toArrow().to_pylist()} == {"ann", "bob"}
    assert in_branch(root) == set()


def test_X3_E9_a_branch_whose_file_is_elsewhere_is_known_by_what_it_has_read(filled: Workbench) -> None:
    root, session = filled.root, filled.session()
    (root / "resources" / "pr.yaml").unlink()
    assert erased(session, drop_branches=True).rows == 10
    assert (there(root), tables(root)) == (set(), set())


def test_X3_E9_what_is_not_known_to_be_a_branch_stays(filled: Workbench) -> None:
    """By its file, it reads another environment, or cannot be read; without one, the commits are gone that it has
    read."""
    root, session = filled.root, filled.session()
    before = stored(session), tables(root)
    for content, why in (
        ('{"warehouse": {"namespace": "pr"}}', "resources/pr.yaml does not say reads: local"),
        ("reads: ${NOWHERE}", "resources/pr.yaml can't be read"),
        (None, "it is not known whether it is a branch"),
    ):
        file = root / "resources" / "pr.yaml"
        if content is not None:
            file.write_text(content)
        else:
            file.unlink()
            arrive(root, 3)
            session.run()
            session.tables.upkeep(session.identifier("orders"), session.project.owner).expire(1 << 50)
            before = stored(session), tables(root)
        with pytest.raises(TidegateError) as caught:
            erased(session, drop_branches=True)
        assert (caught.value.code, why in caught.value.message) == ("TG571", True), caught.value.message
        assert (stored(session), tables(root)) == before


def test_X3_E9_a_second_environment_and_another_project_are_not_touched(filled: Workbench) -> None:
    """They have sources of the same name themselves, and views that read these."""
    root = filled.root
    define(root, BRANCH)
    environment(root, "staging", reads=None)
    environment(root, "theirs", reads=None, project="another")
    for name in ("staging", "theirs"):
        filled.session(name).run()
    define(root)
    before = {name: (tables(root, name), in_branch(root, name)) for name in ("staging", "theirs")}
    assert erased(filled.session(), drop_branches=True).rows == 10
    assert {name: (tables(root, name), in_branch(root, name)) for name in before} == before
    assert there(root) == before["staging"][1] | before["theirs"][1]


def test_E9_a_process_of_the_branch_is_waited_for(filled: Workbench) -> None:
    session, before = filled.session(), tables(filled.root)
    with filled.session("pr").lease("loud"), pytest.raises(TidegateError) as caught:
        erased(session, drop_branches=True)
    assert (caught.value.code, 'environment "pr", namespace pr: another' in caught.value.message) == (
        "TG508",
        True,
    )
    assert (tables(filled.root), ErasingFile(session.project.storage, "orders").read()) == (before, None)


@pytest.mark.parametrize("what", ["shown", "orders"])
def test_X3_E9_a_branch_that_has_delivered_stays(filled: Workbench, what: str) -> None:
    """A view of its own, or the source itself, which leaves no table in its namespace."""
    root = filled.root
    define(root, BRANCH)
    sink = (
        f"CREATE SINK out FROM {what} WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON"
    )
    one = filled.session("pr")
    one.execute(sink)
    assert WHO in "".join(path.read_text() for path in (root / "out").rglob("*") if path.is_file())
    if what == "orders":
        for name in ("loud", "shown", "gated"):
            one.execute(f"DROP MATERIALIZED VIEW {name}", yes=True)
        assert tables(root) == set()
    define(root)
    for drops in (False, True):
        with pytest.raises(TidegateError) as caught:
            erased(filled.session(), drop_branches=drops)
        assert f"sink out, which has delivered {what} to filesystem out" in caught.value.message
    define(root, BRANCH)
    filled.session("pr").execute("DROP SINK out", yes=True)
    define(root)
    assert erased(filled.session(), drop_branches=True).rows == 10


def test_E9_whoever_has_not_agreed_to_the_dropping_is_asked_when_an_erasure_is_resumed(
    filled: Workbench,
) -> None:
    root, session = filled.root, filled.session()
    define(root, BRANCH)
    begun = filled.session("pr")
    for name in ("loud", "shown", "gated"):
        begun.execute(f"DROP MATERIALIZED VIEW {name}", yes=True)
    define(root)
    file = ErasingFile(session.project.storage, "orders")
    file.write(Erasing("1", WHERE, (WHO,), "ada", "2026-03-01T09:10:00+00:00"))
    define(root, BRANCH)
    filled.session("pr").run()
    define(root)
    with pytest.raises(TidegateError, match="--drop-branches"):
        erase(session, "orders")
    session.confirm = None
    with pytest.raises(TidegateError) as caught:
        erase(session, "orders", drop_branches=True)
    assert caught.value.code == "TG572"
    session.confirm = lambda text: True
    assert erase(session, "orders", drop_branches=True).rows == 10
    assert there(root) == set()


@pytest.mark.runner("inprocess", only=True)
def test_R2_E9_what_a_killed_drop_has_left_of_a_table_goes(
    filled: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog does not know the table any more, and only the erasure knows its folder."""
    root, session = filled.root, filled.session()

    def killed(tables: InProcessTables, identifier: str) -> None:
        namespace, name = identifier.split(".")[1:]
        shutil.rmtree(root / ".tidegate" / "warehouse" / namespace / name.strip("`") / "metadata")
        raise Killed(identifier)

    with monkeypatch.context() as patched:
        patched.setattr(InProcessTables, "drop_table", killed)
        with pytest.raises(Killed):
            erased(session, drop_branches=True)
    forget_files()
    left = in_branch(root)
    assert any("/gated/" in place for place in left)
    assert filled.session().tables.exists(session.identifier("gated")) is False
    session = filled.session()
    erase(session, "orders")
    assert (there(root), tables(root)) == (set(), set())


def test_X3_a_namespace_that_has_become_anothers_is_left_alone(filled: Workbench) -> None:
    root, session = filled.root, filled.session()
    file = ErasingFile(session.project.storage, "orders")
    dropped = DroppedTable("theirs", "pr", "shown")
    file.write(
        Erasing("1", WHERE, (WHO,), "ada", "2026-03-01T09:10:00+00:00", False, False, True, (dropped,))
    )
    define(root, BRANCH)
    environment(root, "theirs", reads=None, project="another")
    filled.session("theirs").run()
    define(root)
    before = tables(root, "theirs"), in_branch(root, "theirs")
    session.confirm = None
    assert erase(session, "orders").rows == 10
    assert (tables(root, "theirs"), in_branch(root, "theirs")) == before
    assert tables(root) == set()


def test_E9_what_a_branch_makes_of_the_rows_meanwhile_is_dropped_too(
    filled: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new view is under no lease. Without the option, the erasure does not end while it is there."""
    root, real = filled.root, LogErasure.remove
    late = "CREATE MATERIALIZED VIEW later AS SELECT customer, at FROM orders EMIT ON WINDOW CLOSE;"

    def meanwhile(self: LogErasure, *given: Any) -> int:
        define(root, late)
        filled.session("pr").run(["later"])
        define(root)
        return real(self, *given)

    monkeypatch.setattr(LogErasure, "remove", meanwhile)
    done = erased(filled.session(), drop_branches=True)
    assert [one.table for one in done.tables][-1] == "pr.later"
    assert (there(root), tables(root)) == (set(), set())
    arrive(root, 3)
    filled.session().run()
    with pytest.raises(
        TidegateError, match=r"during the erasure, which has not ended:\n.*namespace pr: later"
    ):
        erased(filled.session())
    monkeypatch.undo()
    # The one that was begun goes on, with what was not allowed at first.
    assert erased(filled.session(), drop_branches=True).rows == 5
    assert (there(root), tables(root)) == (set(), set())


@pytest.mark.runner("inprocess", only=True)
@pytest.mark.medium
@pytest.mark.parametrize("each", [3, pytest.param(1, marks=pytest.mark.long_run)])
def test_R2_E9_killed_at_every_point_and_resumed(filled: Workbench, each: int) -> None:
    """The copies that a `kill -9` at each point would have left are where the project was: tables have its paths."""
    root = filled.root
    with recorded(root) as run:
        erased(filled.session(), drop_branches=True)
    passed = [name.partition(" ")[2].removeprefix("tidegate.maintenance.") for name in run.passed]
    assert passed.index("ErasingFile.write") < passed.index("InProcessTables.drop_table")
    assert passed.index("erase_branches.remove_folder") < passed.index("InProcessTable.append")
    for number in run.distinct()[::each]:
        session, point = run.back_to(number), run.passed[number]
        forget_files()
        if ErasingFile(session.project.storage, "orders").read() is not None:
            session.confirm = None
            erase(session, "orders")
        else:
            erased(session, drop_branches=True)
        assert (there(root), tables(root)) == (set(), set()), point
        assert audit(session).erased == 10, point
