"""Columns that files have and a source does not declare: reported, or taken in by `schema.evolution = 'add'`."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tidegate.audit.source import audit_source
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.findings.look import look
from tidegate.plan.events import BatchCommitted, DefinitionChanged
from tidegate.session.live import LiveGroup
from tidegate.session.session import Session
from tidegate.session.up_to_date import up_to_date
from tidegate.store.status import read_status

pytestmark = pytest.mark.runner("inprocess")

ADD = ", schema.evolution = 'add'"


def opened(workbench: Workbench, columns: str, options: str = ADD, encode: str = "CSV") -> Session:
    text = (
        f"CREATE SOURCE clicks ({columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') "
        f"WITH (connector = 'filesystem', path = 'in'{options}) FORMAT PLAIN ENCODE {encode};"
    )
    workbench.assets(clicks=text)
    return workbench.session()


def ran(session: Session) -> list[str]:
    """What a run says of columns and batches."""
    events: list[Any] = []
    session.run(on_event=events.append)
    return [
        f"{e.epoch}: {e.change}" if isinstance(e, DefinitionChanged) else f"{e.epoch}: {e.rows} rows"
        for e in events
        if isinstance(e, DefinitionChanged | BatchCommitted)
    ]


def parquet(workbench: Workbench, name: str, **columns: pa.Array) -> None:
    path = workbench.root / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    times = pa.array([f"2026-01-01 12:0{name[0]}:00"]).cast(pa.timestamp("us"))
    pq.write_table(pa.table({**columns, "ts": times}), path)


def test_E2_E7_a_column_of_files_is_taken_in_and_has_its_values_once_it_is_declared(
    workbench: Workbench,
) -> None:
    workbench.json_lines("in/1.csv", ["page,ts", "a,2026-01-01 12:00:01"])
    assert ran(opened(workbench, "page VARCHAR")) == ["1: 1 rows"]
    workbench.json_lines("in/2.csv", ["page,ts,Ref,_reason,two words", "b,2026-01-01 12:00:02,x,y,z"])
    session = opened(workbench, "page VARCHAR")
    taken = "taken in, because schema.evolution is 'add': \"Ref\" VARCHAR (in 2.csv)"
    assert ran(session) == [f"2: {taken}", "3: 1 rows"]
    # Names that a column can't have stay reported.
    stands = session.tables.open(session.identifier("clicks")).current().summary["tidegate.undeclared"]
    assert "two words" in stands
    assert "_reason" in stands
    assert "Ref" not in stands
    # No definition has it: a query does not see it, and nothing is to be done.
    assert shown(session, "SELECT * FROM clicks ORDER BY ts")[1][0] == "b"
    assert len(shown(session, "SELECT * FROM clicks ORDER BY ts")[1]) == 2
    assert [one.effect for one in planned(session.project, session.catalog)] == ["unchanged"]
    assert up_to_date(session.project, session.catalog) is not None
    workbench.json_lines("in/3.csv", ["page,ts", "c,2026-01-01 12:00:03"])
    workbench.json_lines("in/4.csv", ["REF,page,ts", "w,d,2026-01-01 12:00:04"])
    assert ran(workbench.session()) == ["4: 2 rows"]

    session = opened(workbench, "page VARCHAR, ref VARCHAR")
    plan = planned(session.project, session.catalog)
    assert plan[0].what == (
        'column "ref" VARCHAR is added; "ref" was taken in as batch 2, and keeps its values',
    )
    assert ran(session) == [f"5: {plan[0].what[0]}"]
    rows = [("a", None), ("b", "x"), ("c", None), ("d", "w")]
    assert shown(session, "SELECT page, ref FROM clicks ORDER BY ts") == rows
    workbench.json_lines("in/5.csv", ["page,ts,ref", "e,2026-01-01 12:00:05,v"])
    assert ran(workbench.session()) == ["6: 1 rows"]
    assert shown(workbench.session(), "SELECT page, ref FROM clicks ORDER BY ts") == [*rows, ("e", "v")]
    assert audit_source(workbench.session(), "clicks").ok


def test_members_that_most_rows_of_a_json_file_have_are_reported(workbench: Workbench) -> None:
    rows: list[Any] = [
        {
            "page": "a",
            "ts": "2026-01-01 12:00:01",
            "ref": "x",
            "n": 1,
            "at": {"x": 1},
            "PAGE": 1,
            f"user{i}": i,
        }
        for i in range(10)
    ]
    workbench.json_lines("in/1.json", [*map(json.dumps, rows), '{"ref": null, "n": 1.5, "late": tru', "[1]"])
    session = opened(workbench, "page VARCHAR", "", "JSON")
    session.run()
    (status,) = read_status(session.project).relations
    # (Where each row has a name of its own, the names are values.)
    assert status.undeclared == dict.fromkeys(("ref", "n", "at"), "1.json")
    found = look(session.project, ask_brokers=False)
    (finding,) = [f for f in found.findings if f.kind == "undeclared_columns"]
    adds = 'ALTER SOURCE "clicks" ADD COLUMN "ref" VARCHAR; ALTER SOURCE "clicks" ADD COLUMN "n" BIGINT; the rows'
    assert adds in finding.advice


def test_E7_live_mode_takes_a_column_in_before_the_batch_that_has_it(workbench: Workbench) -> None:
    workbench.json_lines("in/1.csv", ["page,ts", "a,2026-01-01 12:00:01"])
    told: list[Any] = []
    with LiveGroup(opened(workbench, "page VARCHAR"), name="clicks") as group:
        group.tick(told.append)
        workbench.json_lines("in/2.csv", ["page,ts,ref", "b,2026-01-01 12:00:02,x"])
        group.tick(told.append)
        workbench.json_lines("in/3.csv", ["page,ts,ref,more", "c,2026-01-01 12:00:03,y,z"])
        group.tick(told.append)
    kinds = [type(e) for e in told if isinstance(e, DefinitionChanged | BatchCommitted)]
    assert kinds == [BatchCommitted, *2 * [DefinitionChanged, BatchCommitted]]
    session = opened(workbench, "page VARCHAR, more VARCHAR, ref VARCHAR")
    session.run()
    assert shown(session, "SELECT page, ref, more FROM clicks ORDER BY ts") == [
        ("a", None, None),
        ("b", "x", None),
        ("c", "y", "z"),
    ]


@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_columns_of_parquet_have_their_types_and_files_may_lack_them(workbench: Workbench) -> None:
    parquet(workbench, "1.parquet", page=pa.array(["a"]))
    opened(workbench, "page VARCHAR", encode="PARQUET").run()
    decimal = pa.array([Decimal(1)], pa.decimal128(10, 2))
    parquet(
        workbench,
        "2.parquet",
        page=pa.array(["b"]),
        n=pa.array([7], pa.int32()),
        price=decimal,
        tags=pa.array([["x", "y"]]),
        at=pa.array([{"lat": 1.5}]),
        nothing=pa.nulls(1),
    )
    session = workbench.session()
    assert "NULL" not in ran(session)[0]
    parquet(workbench, "3.parquet", page=pa.array(["c"]))
    parquet(workbench, "4.parquet", page=pa.array(["d"]), n=pa.array([2**40]))
    assert ran(workbench.session()) == ["4: 2 rows"]
    # A value that the column can't hold is NULL and reported: a row is never rejected for what nobody has declared.
    assert shown(workbench.session(), 'SELECT reason FROM "clicks$rejected"') == []
    (status,) = read_status(session.project).relations
    assert status.undeclared == {"nothing": "2.parquet", "n": "4.parquet"}
    columns = "page VARCHAR, n BIGINT, price DECIMAL(12, 2), tags VARCHAR[], at STRUCT<lat DOUBLE>"
    session = opened(workbench, columns, encode="PARQUET")
    (changed,) = ran(session)
    assert changed.startswith("5: column")
    found = shown(session, "SELECT page, n, CAST(price AS VARCHAR), tags, at.lat FROM clicks ORDER BY ts")
    assert found == [
        ("a", None, None, None, None),
        ("b", 7, "1.00", ["x", "y"], 1.5),
        ("c", None, None, None, None),
        ("d", None, None, None, None),
    ]
    parquet(workbench, "5.parquet", page=pa.array(["e"]), n=pa.array([2**40]))
    # From here on it is a column like any other: a file has to have all of them.
    with pytest.raises(TidegateError, match="TG504"):
        session.run()


def test_E2_what_was_taken_in_is_declared_as_it_is_or_not_at_all(workbench: Workbench) -> None:
    workbench.json_lines("in/1.csv", ["page,ts,ref,old", "a,2026-01-01 12:00:01,x,y"])
    opened(workbench, "page VARCHAR, old VARCHAR").run()
    for columns, why in (
        ("page VARCHAR, old VARCHAR, ref INT", "was taken in as VARCHAR and is declared as INT"),
        ("page VARCHAR, old VARCHAR, ref VARCHAR AS page || '!'", "can't be a computed one"),
        ("ref VARCHAR RENAMED FROM page, old VARCHAR", "a column of this name was taken in from the input"),
        (
            "page VARCHAR, old VARCHAR, ref VARCHAR, x VARCHAR RENAMED FROM ref",
            "is declared by several columns",
        ),
        (
            "page VARCHAR, old VARCHAR, other INT RENAMED FROM ref",
            "was taken in as VARCHAR and is declared as INT",
        ),
        ("page VARCHAR, old VARCHAR, ref VARCHAR NOT NULL", "is added as NOT NULL"),
    ):
        with pytest.raises(TidegateError, match="TG506") as caught:
            opened(workbench, columns).run()
        assert why in str(caught.value)
    # One that is dropped is not taken in again, and one that was taken in is no rename of it.
    session = opened(workbench, "page VARCHAR, ref VARCHAR")
    assert ran(session) == [
        '3: column "old" is dropped; column "ref" VARCHAR is added; "ref" was taken in as batch 1, and keeps its '
        "values"
    ]
    workbench.json_lines("in/2.csv", ["page,ts,ref,old", "b,2026-01-01 12:00:02,z,w"])
    assert ran(workbench.session()) == ["4: 1 rows"]
    assert shown(workbench.session(), "SELECT page, ref FROM clicks ORDER BY ts") == [("a", "x"), ("b", "z")]
    # Without the option, it is reported again, and what was taken in waits.
    workbench.json_lines("in/3.csv", ["page,ts,ref,more", "c,2026-01-01 12:00:03,v,1"])
    assert len(ran(workbench.session())) == 2
    workbench.json_lines("in/4.csv", ["page,ts,ref,more", "d,2026-01-01 12:00:04,u,2"])
    assert ran(opened(workbench, "page VARCHAR, ref VARCHAR", "")) == ["7: 1 rows"]
    session = opened(workbench, "page VARCHAR, ref VARCHAR, more VARCHAR")
    session.run()
    assert shown(session, "SELECT page, more FROM clicks WHERE ts > '2026-01-01 12:00:02' ORDER BY ts") == [
        ("c", "1"),
        ("d", None),
    ]


def test_W5_no_row_is_rejected_and_no_header_is_told_by_what_was_taken_in(workbench: Workbench) -> None:
    # A line that names no declared column is a row, before and after.
    workbench.json_lines("in/0.csv", ["ref,foo", "x,y"])
    workbench.json_lines("in/1.csv", ["page,ts,ref,a,b,c", "a,2026-01-01 12:00:01,x,1,2,3"])
    ran(opened(workbench, "page VARCHAR"))
    workbench.json_lines("in/2.csv", ["page,ts,note,ref,ref", "b,2026-01-01 12:00:02,A,y,z"])
    workbench.json_lines("in/3.csv", ["ref,a", "x,1"])
    # All of its columns are there, whatever was taken in: so it is a header for certain, and `extra` a name.
    workbench.json_lines("in/4.csv", ["page,ts,extra", "c,2026-01-01 12:00:04,E"])
    session = workbench.session()
    ran(session)
    assert shown(session, "SELECT page FROM clicks ORDER BY ts") == [("a",), ("b",), ("c",)]
    assert shown(session, 'SELECT count(*) FROM "clicks$rejected"') == [(4,)]
    assert audit_source(session, "clicks").ok
    session = opened(
        workbench, "page VARCHAR, ref VARCHAR, extra VARCHAR, note VARCHAR, told VARCHAR RENAMED FROM a"
    )
    session.run()
    assert shown(session, "SELECT page, ref, extra, note, told FROM clicks ORDER BY ts") == [
        ("a", "x", None, None, "1"),
        ("b", None, None, "A", None),
        ("c", None, "E", None, None),
    ]


def test_many_columns_are_told_once(workbench: Workbench) -> None:
    names = ",".join(f"c{i}" for i in range(60))
    for number in range(3):
        line = f"a,2026-01-01 12:00:0{number}," + "," * 59
        workbench.json_lines(f"in/{number}.csv", [f"page,ts,{names}", line])
        session = opened(workbench, "page VARCHAR", ", max_files_per_batch = 1")
        events: list[Any] = []
        session.run(on_event=events.append)
        assert [len(e.undeclared) for e in events if isinstance(e, BatchCommitted)] == [0 if number else 50]


def test_R2_E7_a_run_that_ends_between_the_columns_and_the_batch_is_continued(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.json_lines("in/1.csv", ["page,ts,ref", "a,2026-01-01 12:00:01,x"])
    session = opened(workbench, "page VARCHAR")
    with monkeypatch.context() as patched:
        patched.setattr(
            "tidegate.ingest.stream.PlanInbox.write", lambda *_: (_ for _ in ()).throw(OSError("killed"))
        )
        with pytest.raises(OSError, match="killed"):
            session.run()
    assert ran(workbench.session()) == ["2: 1 rows"]
    session = opened(workbench, "page VARCHAR, ref VARCHAR")
    session.run()
    assert shown(session, "SELECT page, ref FROM clicks") == [("a", "x")]


@pytest.mark.parametrize(
    ("encode", "options"),
    [("CSV (without_header = 'true')", ADD), ("CSV", ", schema.evolution = 'all'")],
)
def test_an_input_that_names_no_columns_has_none_that_are_taken_in(
    workbench: Workbench, encode: str, options: str
) -> None:
    with pytest.raises(TidegateError, match="TG404") as caught:
        opened(workbench, "page VARCHAR", options, encode)
    assert "schema.evolution" in str(caught.value)


def test_a_table_with_a_key_takes_no_columns_in(workbench: Workbench, tmp_path: Path) -> None:
    workbench.assets(
        t="CREATE TABLE t (id INT PRIMARY KEY, ts TIMESTAMP) WITH (connector = 'filesystem', path = 'in'"
        f"{ADD}) FORMAT PLAIN ENCODE CSV;"
    )
    with pytest.raises(TidegateError, match="without a PRIMARY KEY"):
        workbench.session()


def test_names_that_differ_by_case_only_are_one_column_or_reported(workbench: Workbench) -> None:
    parquet(workbench, "1.parquet", page=pa.array(["a"]), Foo=pa.array([1]), Bar=pa.array([1], pa.int32()))
    parquet(workbench, "2.parquet", page=pa.array(["b"]), foo=pa.array(["x"]), BAR=pa.array([2**40]))
    parquet(workbench, "3.parquet", page=pa.array(["c"]), two=pa.array([1]), Two=pa.array([2]))
    session = opened(workbench, "page VARCHAR", encode="PARQUET")
    assert ran(session) == [
        "1: taken in, because schema.evolution is 'add': \"Bar\" BIGINT (in 2.parquet)",
        "2: 3 rows",
    ]
    (status,) = read_status(session.project).relations
    assert status.undeclared.keys() == {"Foo", "two"}
    # Of one that was taken in, and that a file has twice, no value is read, and it is not silent.
    parquet(workbench, "4.parquet", page=pa.array(["d"]), bar=pa.array([1]), BAR=pa.array([2]))
    assert ran(workbench.session()) == ["3: 1 rows"]
    (status,) = read_status(session.project).relations
    assert status.undeclared.keys() == {"Foo", "two", "BAR"}
    session = opened(workbench, "page VARCHAR, bar BIGINT", encode="PARQUET")
    session.run()
    assert shown(session, "SELECT page, bar FROM clicks ORDER BY ts") == [
        ("a", 1),
        ("b", 2**40),
        ("c", None),
        ("d", None),
    ]


def test_E2_what_was_renamed_is_not_taken_in(workbench: Workbench) -> None:
    workbench.json_lines("in/1.csv", ["page,ts", "a,2026-01-01 12:00:01"])
    ran(opened(workbench, "page VARCHAR"))
    workbench.json_lines("in/2.csv", ["page,site,ts", "b,s,2026-01-01 12:00:02"])
    session = opened(workbench, "site VARCHAR RENAMED FROM page")
    assert [line for line in ran(session) if "taken in" in line] == []
    assert ran(opened(workbench, "site VARCHAR")) == []
    workbench.json_lines("in/3.csv", ["page,site,ts", "b,s,2026-01-01 12:00:03"])
    assert [line for line in ran(workbench.session()) if "taken in" in line] == []


@pytest.mark.parametrize("encode", ["CSV", "PARQUET"])
def test_what_was_taken_in_is_not_told_by_folders(workbench: Workbench, encode: str) -> None:
    """No file has it there: a file that lacks it has NULL, of either format."""
    folder, name = workbench.root / "in" / "ref=f", encode.lower()
    folder.mkdir(parents=True)
    if encode == "CSV":
        workbench.json_lines("in/1.csv", ["page,ts,ref", "a,2026-01-01 12:00:01,x"])
        workbench.json_lines("in/ref=f/2.csv", ["page,ts", "b,2026-01-01 12:00:02"])
    else:
        parquet(workbench, "1.parquet", page=pa.array(["a"]), ref=pa.array(["x"]))
        parquet(workbench, "2.parquet", page=pa.array(["b"]))
        (workbench.root / "in" / "2.parquet").rename(folder / f"2.{name}")
    opened(workbench, "page VARCHAR", encode=encode).run()
    rows = workbench.session().table("clicks$raw").collect()
    session = opened(workbench, "page VARCHAR, ref VARCHAR", encode=encode)
    session.run()
    assert len(rows) == 2
    assert shown(session, "SELECT page, ref FROM clicks ORDER BY page") == [("a", "x"), ("b", None)]
