"""E9: rows that a sink has delivered into an Iceberg table of its own go, and its next delivery continues behind those
that it has delivered (B2, R2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.conftest import Workbench
from tests.inprocess.session import without_a_jvm
from tests.inprocess.stored.files import forget_files
from tests.inprocess.stored.tables import InProcessTable
from tests.maintenance.people import arrive, define, erased, there
from tests.maintenance.test_erase_views import HOURS
from tests.runtime.undisturbed import recorded
from tests.support.searching import kinds
from tidegate.amend.run import amend
from tidegate.errors import TidegateError
from tidegate.iceberg.layout import NewTable
from tidegate.iceberg.upkeep_table import SparkUpkeep
from tidegate.maintenance.erase import erase
from tidegate.maintenance.erase_sinks import SinkErasure
from tidegate.maintenance.erasing import ErasingFile
from tidegate.project.owner import OWNER, Owner
from tidegate.session.session import Session
from tidegate.sinks.upstream import Upstream
from tidegate.store.positions import Position, read_position

SINKS = f"""
CREATE SINK copied FROM orders WITH (connector = 'iceberg', table = 'far.orders');
CREATE MATERIALIZED VIEW hourly AS SELECT window_start, customer AS who, count(*) AS n {HOURS}
GROUP BY window_start, customer EMIT ON WINDOW CLOSE;
CREATE SINK hours FROM hourly WITH (connector = 'iceberg', amendments = 'upsert');
"""
TABLES = {"copied": "tidegate.far.orders", "hours": "tidegate.main.hours"}


def rows(session: Session, sink: str) -> Counter[tuple[str, ...]]:
    """What a sink has delivered, without what tells of windows."""
    found = session.tables.rows(TABLES[sink]).toArrow().to_pylist()
    shown = [{k: v for k, v in row.items() if not k.startswith("_")} for row in found]
    return Counter(tuple(map(str, row.values())) for row in shown)


def expected(session: Session, sink: str) -> Counter[tuple[str, ...]]:
    frame = session.table({"copied": "orders", "hours": "hourly"}[sink])
    return Counter(tuple(map(str, row.values())) for row in frame.toArrow().to_pylist())


@pytest.fixture
def filled(workbench: Workbench) -> Workbench:
    define(workbench.root, SINKS)
    session = workbench.session()
    for number in (1, 2):
        arrive(workbench.root, number)
        session.run()
    return workbench


class Killed(BaseException):
    """The end of a process."""


def held(session: Session) -> None:
    """Each sink has what its source or view has, once."""
    for sink in TABLES:
        assert rows(session, sink) == expected(session, sink), sink


@pytest.mark.long_run
@pytest.mark.medium
def test_E9_B2_rows_in_tables_of_sinks_go_and_deliveries_continue(filled: Workbench) -> None:
    """The sinks are behind: one file is read that they have not delivered. Then late rows change what they have."""
    root, session = filled.root, filled.session()
    held(session)
    arrive(root, 3)
    session.run(["orders"])
    for folder in ("far/orders", "main/hours"):
        assert {"rows", "statistics"} <= kinds({one for one in there(root) if f"/{folder}/" in one}), folder
    looked = erased(session, dry_run=True)
    done = erased(session)
    told = [(one.table, one.rows, one.snapshots) for one in done.tables]
    assert [(one.table, one.rows) for one in looked.tables] == [(table, gone) for table, gone, _ in told]
    assert told[0][:2] == ("orders", 15)
    assert {table: gone for table, gone, _ in told}["copied"] == 4
    assert all(snapshots > 1 for _, _, snapshots in told)
    assert there(root) == set()
    assert all(session.tables.open(table).snapshot_ids() for table in TABLES.values())
    for sink in TABLES:
        assert len(session.tables.open(TABLES[sink]).snapshot_ids()) == 1
    after = filled.session()
    delivered = {one.name: one.rows for one in after.run().sinks if one.rows}
    # Of the third file, whose rows of the person are not there any more.
    assert delivered["copied"] == 2
    held(after)
    assert amend(after)
    arrive(root, 4)
    again = filled.session()
    again.run()
    held(again)
    assert sum(rows(again, "copied").values()) == 2 * 3 + 4
    assert {one.name for one in filled.session().run().sinks if one.rows} == set()


@pytest.mark.long_run
@pytest.mark.medium
def test_R2_E9_an_erasure_that_is_killed_at_a_sink_is_finished(
    filled: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its rows go, behind that, and when only the newest snapshot is to stay: on Spark, what is killed at every
    point below."""
    remove, expire, calls = SinkErasure.remove, SparkUpkeep.expire, list[str]()

    def before(self: SinkErasure) -> None:
        raise Killed(self.table.identifier)

    def behind(self: SinkErasure) -> None:
        remove(self)
        raise Killed(self.table.identifier)

    def expiring(self: SparkUpkeep, bound: int, retain_last: int = 1) -> None:
        if "hours" in self.table.identifier:
            raise Killed(self.table.identifier)
        expire(self, bound, retain_last)

    for owner, name, ends in (
        (SinkErasure, "remove", before),
        (SinkErasure, "remove", behind),
        (SparkUpkeep, "expire", expiring),
    ):
        session = filled.session()
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, ends)
            with pytest.raises(Killed) as caught:
                erased(session)
        calls.append(str(caught.value))
    assert [one.rpartition(".")[2].strip("`") for one in calls] == ["orders", "orders", "hours"]
    session = filled.session()
    session.confirm = None
    assert erase(session, "orders").rows == 10
    assert ErasingFile(session.project.storage, "orders").read() is None
    assert there(filled.root) == set()
    arrive(filled.root, 3)
    session = filled.session()
    session.run()
    held(session)


# -- without a JVM, on tables as the sinks make them ----------------------------------------------------------------


def deliver_in_process(session: Session, sink: str, upto: int | None = None) -> None:
    """What `IcebergSink` has after its first delivery, which needs Iceberg's Java: `upto`: of so many commits alone."""
    found = session.catalog.sinks.find(sink)
    assert found is not None
    upstream = Upstream.of(session, found)
    assert upstream is not None
    reached = upstream.newest
    if upto is not None:
        reached = replace(reached, tick=upto, commit=None)
    properties = {"tidegate.kind": "sink", "tidegate.sink": sink, OWNER: session.project.owner.to_text()}
    fields = tuple(upstream.schema(session.tables))
    session.tables.create_table(NewTable(TABLES[sink], fields, (), properties | {"format-version": "2"}))
    table = session.tables.open(TABLES[sink])
    assert isinstance(table, InProcessTable)
    final = upstream.stored(session.tables, 0, reached.tick).select(*[name for name, _ in fields])
    table.add([final.toArrow()], reached.to_summary(), table.current())


@pytest.fixture
def in_process(tmp_path: Path) -> Iterator[Workbench]:
    """Two files are read, of which one is delivered from the source, and all that is final of the view."""
    with without_a_jvm():
        root = tmp_path / "project"
        bench = Workbench(root, None)
        define(root, SINKS)
        session = bench.session()
        for number in (1, 2):
            arrive(root, number)
            session.run(["orders", "hourly"])
        deliver_in_process(session, "copied", 1)
        deliver_in_process(session, "hours")
        yield bench


def test_E9_the_position_of_a_sink_stays(in_process: Workbench) -> None:
    session = in_process.session()
    found = {sink: session.catalog.sinks.find(sink) for sink in TABLES}
    before = {name: read_position(session.project.storage, sink) for name, sink in found.items() if sink}
    done = {one.table: one.rows for one in erased(session).tables}
    assert (done["copied"], done["hours"]) == (2, 3)
    assert there(in_process.root) == set()
    for name, sink in found.items():
        assert sink is not None
        position, stood = read_position(session.project.storage, sink), before[name]
        assert position is not None
        assert stood is not None
        assert position[0] == stood[0]
        upstream = Upstream.of(session, sink)
        assert upstream is not None
        # What it has is what it had delivered of the rows that are left, and the rest is what it delivers next.
        names = [column.name for column in upstream.source.columns]
        rest = upstream.rows(session.tables, position[0]).select(*names).toArrow().to_pylist()
        both = rows(session, name) + Counter(tuple(map(str, row.values())) for row in rest)
        assert both == expected(session, name)


def test_E9_a_table_that_is_not_only_what_the_sink_has_delivered_refuses_all_of_it(
    in_process: Workbench,
) -> None:
    session = in_process.session()
    table, before = session.tables.open(TABLES["copied"]), rows(session, "copied")
    mine = table.property(OWNER) or ""

    def refused(why: str) -> None:
        with pytest.raises(TidegateError) as caught:
            erased(in_process.session())
        assert (caught.value.code, why in caught.value.message) == ("TG571", True), caught.value.message

    table.set_properties({OWNER: Owner("another", "local").to_text()})
    refused("copied: a sink that delivers rows to iceberg far.orders; the table does not belong to")
    table.set_properties({OWNER: mine, "tidegate.sink": "another"})
    refused("the table was not made by this sink")
    table.set_properties({"tidegate.sink": "copied"})
    position = Position.of_summary(table.current().summary)
    assert position is not None
    table.append([], None, replace(position, table=f"{position.table}/2").to_summary(), table.current())
    refused('the table may have rows of an earlier version of "orders"')
    table.append([], None, position.to_summary(), table.current())
    session.tables.add_stored_column(TABLES["copied"], "note", "string")
    refused('the table has other columns than "orders"')
    assert sum(rows(session, "copied").values()) == sum(before.values())
    define(in_process.root, SINKS.replace("customer AS who", "upper(customer) AS who"))
    with pytest.raises(TidegateError, match="hourly"):
        erased(in_process.session())


def test_E9_a_table_that_a_sink_has_left_refuses_all_of_it(in_process: Workbench) -> None:
    define(in_process.root, SINKS.replace("far.orders", "far.others"))
    with pytest.raises(
        TidegateError, match=r"TG571.*\n  copied: a sink that has delivered to iceberg far.orders before"
    ):
        erased(in_process.session())
    assert there(in_process.root)


def test_E9_a_delivery_waits_for_the_erasure(in_process: Workbench) -> None:
    session = in_process.session()
    with in_process.session().lease("hours"), pytest.raises(TidegateError, match="TG508"):
        erased(session)
    assert ErasingFile(session.project.storage, "orders").read() is None


@pytest.mark.medium
def test_R2_E9_an_erasure_is_killed_at_every_point_at_a_sink_and_resumed(in_process: Workbench) -> None:
    root, begun, find = in_process.root, list[int](), SinkErasure.find

    def found(self: SinkErasure) -> int:
        begun.append(len(run.passed))
        return find(self)

    with recorded(root) as run, patch.object(SinkErasure, "find", found):
        erased(in_process.session())
    assert any(name.endswith("InProcessTable.delete_rows") for name in run.passed[begun[0] :])
    for number in run.distinct():
        if number < begun[0]:
            continue
        session, point = run.back_to(number), run.passed[number]
        forget_files()
        if ErasingFile(session.project.storage, "orders").read() is not None:
            session.confirm = None
            erase(session, "orders")
        assert there(root) == set(), point
        found_sinks = {one.name: read_position(session.project.storage, one) for one in session.catalog.sinks}
        assert all(found_sinks.values()), point
        assert (sum(rows(session, "copied").values()), sum(rows(session, "hours").values())) == (2, 3), point
