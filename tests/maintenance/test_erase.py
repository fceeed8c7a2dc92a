"""E9: a person's rows go from the log, at rest, and a record of their number stays."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.maintenance.people import WHERE, WHO, arrive, audit, define, erased, order, stored, there
from tests.support.searching import kinds
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.ingest.erased import erased as recorded
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erasing import Erasing, ErasingFile
from tidegate.session.session import Session
from tidegate.tasks.decode.raw_text import in_base64

pytestmark = pytest.mark.runner("inprocess")


@pytest.fixture
def session(workbench: Workbench) -> Session:
    """Three days in three commits, the second of which has a name."""
    define(workbench.root)
    opened = workbench.session()
    for number in (1, 2, 3):
        arrive(workbench.root, number)
        opened.run()
        if number == 2:
            opened.tables.open(opened.identifier("orders")).tag("kept")
    return opened


def test_E9_rows_go_from_every_outcome_and_all_others_stay_as_they_are(session: Session) -> None:
    before, summary = stored(session), session.tables.open(session.identifier("orders")).current().facts
    assert audit(session).raw == 27
    seen = erased(session, raw=False, dry_run=True)
    assert [(t.on_time, t.late, t.rejected) for t in seen.tables] == [(6, 3, 3)]
    assert (seen.undecoded, stored(session)) == (3, before)
    done = erased(session)
    assert [(t.table, t.on_time, t.late, t.rejected) for t in done.tables] == [("orders", 6, 3, 6)]
    assert stored(session) == [row for row in before if not any(WHO in value for value in row)]
    # E4: what was decided stands, and nothing is new to anybody.
    assert session.tables.open(session.identifier("orders")).current().facts == summary
    found = audit(session)
    assert (found.raw, found.erased, found.read, found.source_rows) == (12, 15, 27, 27)


def test_E9_the_record_has_numbers_and_no_person(session: Session) -> None:
    done = erased(session)
    table = session.tables.open(session.identifier("orders"))
    record = recorded(table, session.project.storage)
    hours = {datetime.fromisoformat(f"2026-01-0{n} {h:02}:00:00+00:00") for n in (1, 2, 3) for h in (9, 11)}
    hours.add(datetime.fromisoformat("2026-01-01 00:00:00+00:00"))
    assert {one.hour for one in record.entries} == {None, *(int(h.timestamp() * 1_000_000) for h in hours)}
    assert {(one.erasure, one.by, one.at.isoformat()) for one in record.entries} == {
        (done.id, done.by, done.at)
    }
    assert {
        name: (gone.rows, gone.offsets, gone.without_time) for name, gone in record.partitions.items()
    } == {".": (15, 15, 6)}
    assert WHO not in str(record)


def test_E9_nothing_of_the_person_is_left_at_rest(session: Session, workbench: Workbench) -> None:
    """In rows, statistics, snapshots and tags before, and in what killed tasks have left; then nowhere."""
    root = workbench.root
    data = Path(session.tables.open(session.identifier("orders")).location.removeprefix("file:")) / "data"
    newest = max(data.glob("[0-9a-f]*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    (data / "killed.parquet").write_bytes(newest.read_bytes())
    before = there(root)
    assert {"rows", "statistics"} <= kinds(before)
    done = erased(session)
    assert there(root) == set()
    assert done.tables[0].orphans >= 1
    assert len(session.tables.open(session.identifier("orders")).snapshot_ids()) == 1
    # And once more there is nothing to do.
    again = erased(session)
    assert (again.rows, audit(session).erased) == (0, 15)


def test_E4_the_source_goes_on_where_it_stood(session: Session, workbench: Workbench) -> None:
    erased(session)
    session.run()
    assert audit(session).raw == 12
    arrive(workbench.root, 4)
    session.run()
    found = audit(session)
    assert (found.raw, found.erased) == (21, 15)
    # The person is there again with what has come since, and goes again.
    assert erased(session).rows == 5
    assert (audit(session).erased, there(workbench.root)) == (20, set())


@pytest.mark.parametrize(("condition", "gone"), [(WHERE, 12), ("customer = 'nobody'", 0)])
def test_R1_a_log_that_was_compacted_goes_on_after_an_erasure(
    session: Session, workbench: Workbench, condition: str, gone: int
) -> None:
    """A compaction has moved the rows of its progress: the file that the last commit names is in no newer snapshot."""
    session.tables.upkeep(session.identifier("orders")).compact(least_files=2)
    before = session.tables.open(session.identifier("orders")).current().facts
    marks = sorted(map(str, session.table("orders$watermarks").collect()))
    session.confirm = lambda text: True
    assert erase(session, "orders", condition).rows == gone
    assert sorted(map(str, session.table("orders$watermarks").collect())) == marks
    after = session.tables.open(session.identifier("orders")).current().facts
    assert {key for key in before if before[key] != after[key]} == {"tidegate.progress"}
    arrive(workbench.root, 4)
    again = workbench.session()
    again.run()
    assert (audit(again).raw, audit(again).read) == (36 - gone, 36)


def test_E9_rows_that_are_all_of_a_log_go(session: Session) -> None:
    session.confirm = lambda text: True
    assert erase(session, "orders", "true").rows == 27
    found = audit(session)
    assert (found.raw, found.erased) == (0, 27)


def test_E9_bytes_that_are_no_text_are_looked_through_and_rows_without_columns_are_told(
    workbench: Workbench,
) -> None:
    define(workbench.root)
    (workbench.root / "input").mkdir()
    # As a row is kept whose bytes are no text.
    kept = [in_base64(b"\xff" + name.encode() + b"\xfe") for name in (WHO, "bob")]
    (workbench.root / "input" / "a.json").write_text("\n".join([*kept, '{"id": 3}']))
    session = workbench.session()
    session.run()
    session.confirm = lambda text: True
    # The condition has an answer also where a row has no columns.
    seen = erase(session, "orders", f"coalesce(customer, '') = '{WHO}'", dry_run=True)
    assert (seen.rows, seen.undecoded) == (0, 3)
    for empty in ("", " "):
        with pytest.raises(TidegateError, match="the text of --raw is empty"):
            erase(session, "orders", WHERE, (empty,))
    done = erased(session)
    assert (done.rows, done.undecoded) == (1, 2)
    assert [row for row in stored(session) if "base64:" in str(row)]


def test_E9_an_unknown_value_goes_by_no_condition(session: Session) -> None:
    """NULL is not another customer."""
    session.confirm = lambda text: True
    assert erase(session, "orders", "customer <> 'ann'", dry_run=True).tables[0].rejected == 6
    for condition, code in (
        ("custmer = 'ann'", "TG202"),
        ("customer", "TG214"),
        ("id = (SELECT 1)", "TG106"),
        ("count(*) > 1", "TG210"),
        ("at < now()", "TG220"),
        ("customer =", "TG102"),
        ("java_method('java.lang.System', 'exit', id) = 'x'", "TG221"),
    ):
        with pytest.raises(TidegateError) as caught:
            erase(session, "orders", condition)
        assert caught.value.code == code, condition


def test_E9_somebody_is_asked_and_told_what_goes(session: Session) -> None:
    before, asked = stored(session), list[str]()
    session.confirm = None
    with pytest.raises(TidegateError, match="6 on time, 3 late, 3 rejected; 9 files written again") as caught:
        erase(session, "orders", WHERE)
    assert caught.value.code == "TG572"
    session.confirm = lambda text: asked.append(text) is not None
    with pytest.raises(TidegateError):
        erase(session, "orders", WHERE)
    assert (stored(session), len(asked)) == (before, 1)
    assert ErasingFile(session.project.storage, "orders").read() is None


def test_R2_another_erasure_waits_until_one_that_was_interrupted_is_finished(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ErasingFile(session.project.storage, "orders")
    assert erase(session, "orders").notes == ["no erasure was interrupted"]
    file.write(Erasing("1", WHERE, (WHO,), "ada", "2026-03-01T09:10:00+00:00"))
    with pytest.raises(TidegateError, match="ada asked for it at 2026-03-01T09:10:00") as caught:
        erase(session, "orders", "customer = 'ann'")
    assert caught.value.code == "TG573"
    # It is seen by everybody, but not of whom the rows are.
    monkeypatch.setattr(Invocation, "project", lambda self: session.project)
    shown = CliRunner().invoke(app, ["status", "--failing"]).stdout
    assert (
        "orders: an erasure of rows that ada asked for at 2026-03-01T09:10:00+00:00 is not finished" in shown
    )
    assert WHO not in shown
    # Whoever agreed has agreed.
    session.confirm = None
    done = erase(session, "orders")
    assert (done.rows, done.id, done.by, file.read()) == (15, "1", "ada", None)


VIEW = """
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, count(*) AS n
FROM TUMBLE(orders, at, INTERVAL '1 hour') GROUP BY window_start EMIT ON WINDOW CLOSE;
"""
SINK = "CREATE SINK out FROM orders WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;"
GATED = """
CREATE MATERIALIZED VIEW gated AS SELECT window_start, count(*) AS n
FROM TUMBLE(WATERMARK(orders, at, at - INTERVAL '1 day'), at, INTERVAL '1 hour') GROUP BY window_start
EMIT ON WINDOW CLOSE;
"""


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            VIEW,
            r"hourly: counts and sums over the rows (--keep-aggregates keeps them, --recompute "
            r"computes them from the rows that are left)",
        ),
        (SINK, "out: a sink that delivers rows to filesystem out"),
        (GATED, "a gate of WATERMARK"),
    ],
)
def test_E9_what_is_not_reached_refuses_all_of_it(workbench: Workbench, more: str, why: str) -> None:
    define(workbench.root, more)
    arrive(workbench.root, 1, 2)
    session = workbench.session()
    session.run()
    before = stored(session)
    with pytest.raises(TidegateError) as caught:
        erased(session, dry_run=True)
    assert (caught.value.code, why in caught.value.message) == ("TG571", True), caught.value.message
    with pytest.raises(TidegateError):
        erased(session)
    assert stored(session) == before


def test_E9_results_that_nothing_defines_any_more_are_found(workbench: Workbench) -> None:
    define(workbench.root, VIEW)
    arrive(workbench.root, 1, 2)
    workbench.session().run()
    define(workbench.root)
    with pytest.raises(TidegateError, match="hourly: a stored table that reads it"):
        erased(workbench.session())


def test_X3_branches_are_looked_at(workbench: Workbench) -> None:
    define(workbench.root, VIEW)
    (workbench.root / "resources").mkdir()
    (workbench.root / "resources" / "branch.yaml").write_text(
        json.dumps({"reads": "local", "warehouse": {"namespace": "branch"}})
    )
    # What can't be read here hides no table, and stands in nobody's way.
    (workbench.root / "resources" / "broken.yaml").write_text("reads: ${NOWHERE}")
    arrive(workbench.root, 1)
    session = workbench.session()
    session.run(["orders"])
    assert erased(session, dry_run=True).rows == 5
    workbench.session("branch").run(["hourly"])
    for _ in range(2):
        with pytest.raises(TidegateError, match='environment "branch", namespace branch: hourly'):
            erased(session)
        # It may be one of a colleague, whose file is not here.
        (workbench.root / "resources" / "branch.yaml").unlink(missing_ok=True)


def test_X3_E9_a_branch_that_reads_a_view_with_the_rows_is_found(workbench: Workbench) -> None:
    """It has the view from here, and its own table does not name the source."""
    shown = "CREATE MATERIALIZED VIEW shown AS SELECT customer, at FROM orders EMIT ON WINDOW CLOSE;\n"
    define(workbench.root, shown)
    (workbench.root / "resources").mkdir()
    (workbench.root / "resources" / "branch.yaml").write_text(
        json.dumps({"reads": "local", "warehouse": {"namespace": "branch"}})
    )
    arrive(workbench.root, 1, 2)
    session = workbench.session()
    session.run()
    define(
        workbench.root,
        shown + "CREATE MATERIALIZED VIEW again AS SELECT customer, at FROM shown EMIT ON WINDOW CLOSE;",
    )
    branch = workbench.session("branch")
    branch.run()
    assert branch.project.storage.is_lent("shown")
    define(workbench.root, shown)
    with pytest.raises(TidegateError, match='environment "branch", namespace branch: again'):
        erased(workbench.session())


def test_X3_an_environment_that_reads_its_own_source_is_no_branch(workbench: Workbench) -> None:
    define(workbench.root, VIEW)
    (workbench.root / "resources").mkdir()
    (workbench.root / "resources" / "test.yaml").write_text(json.dumps({"warehouse": {"namespace": "test"}}))
    arrive(workbench.root, 1)
    workbench.session("test").run()
    session = workbench.session()
    session.run()
    assert erased(session, keep_aggregates=True).rows == 5


def test_E9_a_sink_that_was_removed_without_drop_is_found(workbench: Workbench) -> None:
    sink = "CREATE SINK gone FROM orders WITH (connector = 'filesystem', path = 'gone') FORMAT PLAIN ENCODE JSON;"
    define(workbench.root, sink)
    arrive(workbench.root, 1)
    workbench.session().run()
    define(workbench.root)
    with pytest.raises(TidegateError, match=r"gone: a sink that no file .* has delivered to filesystem gone"):
        erased(workbench.session())
    # What is defined again can be dropped.
    define(workbench.root)
    session = workbench.session()
    session.execute(sink)
    session.execute("DROP SINK gone", yes=True)
    assert erased(workbench.session()).rows == 5


NAMED = """
CREATE SOURCE named (customer VARCHAR, id INT, at TIMESTAMP, WATERMARK FOR at AS at)
WITH (connector = 'filesystem', path = 'named', partition.columns = 'customer') FORMAT PLAIN ENCODE JSON;
CREATE SOURCE led (id INT, at TIMESTAMP, WATERMARK FOR at AS max(at) OVER (ROWS BETWEEN 3 PRECEDING AND CURRENT ROW))
WITH (connector = 'filesystem', path = 'led') FORMAT PLAIN ENCODE JSON;
CREATE TABLE people (customer VARCHAR PRIMARY KEY, id INT);
"""


def test_E9_values_in_names_memories_and_states_are_told(workbench: Workbench) -> None:
    define(workbench.root, NAMED)
    workbench.json_lines("named/a.json", [order(WHO, 1, "2026-01-01 00:00:00")])
    workbench.json_lines("led/a.json", [{"id": 1, "at": "2026-01-01 00:00:00"}])
    session = workbench.session()
    session.run(["named", "led"])
    session.execute(f"INSERT INTO people VALUES ('{WHO}', 1)")
    workbench.json_lines("led/of Zoe.json", [{"id": 2, "at": "2026-01-02 00:00:00"}])
    session.run(["led"])
    for name, condition, why in (
        (
            "led",
            "CAST(id AS VARCHAR) = 'zoe'",
            "files that were read, of which one has a text of the condition",
        ),
        ("named", WHERE, "the names of the log's partitions, which are values of customer"),
        ("led", "id = 1", "the memory of the watermark strategy"),
        (
            "people",
            "id = 1",
            r"people\$state: what a key holds is found only by a condition on customer alone",
        ),
    ):
        with pytest.raises(TidegateError, match=why):
            erase(session, name, condition)
