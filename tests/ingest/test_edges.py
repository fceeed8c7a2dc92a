"""Names, values and accidents at the edges of the engine; each test is something that once went wrong."""

from __future__ import annotations

import shutil
from datetime import date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.ingest import stream

if TYPE_CHECKING:
    from tidegate.session.session import Session

pytestmark = pytest.mark.runner("inprocess")

TIME = "ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10 seconds'"


def source(columns: str, encode: str = "JSON", **options: str) -> str:
    listed = "".join(f", {key.replace('__', '.')} = '{value}'" for key, value in options.items())
    return (
        f"CREATE SOURCE s ({columns}, {TIME}) WITH (connector = 'filesystem', path = 'input'{listed}) "
        f"FORMAT PLAIN ENCODE {encode};"
    )


def raw(session: Session, *names: str) -> list[tuple]:
    return sorted((tuple(r) for r in session.table("s$raw").select(*names).collect()), key=str)


def test_columns_with_dots_backticks_and_keywords_in_tables_and_views(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        'CREATE TABLE "a.b `t" ("select" INT, "x.y" INT, "q`t" INT, "t s" TIMESTAMP, '
        'WATERMARK FOR "t s" AS "t s") APPEND ONLY;'
        "INSERT INTO \"a.b `t\" VALUES (1, 2, 3, '2026-01-01 00:00:01'), (1, 2, 3, '2026-01-01 00:01:01');"
        'CREATE MATERIALIZED VIEW "v.w" AS SELECT window_end AS "e.e", "select", "x.y", sum("q`t") AS "s`" '
        'FROM TUMBLE("a.b `t", "t s", INTERVAL \'1 minute\') GROUP BY window_end, "select", "x.y" '
        "EMIT ON WINDOW CLOSE"
    )
    assert session.execute('SELECT * FROM "v.w"').rows() == [(datetime(2026, 1, 1, 0, 1), 1, 2, 3)]
    assert audit_view(session, "v.w").ok
    assert audit_source(session, "a.b `t").ok


@pytest.mark.parametrize("name", ["a/b", "..", "a\\b"])
def test_a_name_that_cannot_be_a_file_is_refused(workbench: Workbench, name: str) -> None:
    with pytest.raises(TidegateError) as caught:
        workbench.session().execute(f'CREATE TABLE "{name}" ({TIME}) APPEND ONLY')
    assert caught.value.code == "TG205"


def test_file_names_that_look_like_patterns_are_read_once(workbench: Workbench) -> None:
    workbench.assets(s=source("id INT"))
    for i, name in enumerate(["1 [x]{y}", "2 %41+?", "#*"]):
        workbench.json_lines(f"input/{name}.json", [{"id": i, "ts": "2026-01-01 00:00:00"}])
    session = workbench.session()
    session.run()
    assert raw(session, "id") == [(0,), (1,), (2,)]


def test_partition_values_with_slashes_are_not_mixed_up_and_order_columns_may_have_dots(
    workbench: Workbench,
) -> None:
    workbench.assets(
        s=source('p VARCHAR, "q.r" VARCHAR, "o.o" INT', partition__columns="p, q.r", order__column="o.o")
    )
    rows = [
        {"p": "a/b", "q.r": "c", "o.o": 1, "ts": "2026-01-01 00:05:00"},
        {"p": "a", "q.r": "b/c", "o.o": 2, "ts": "2026-01-01 00:00:00"},
    ]
    session = workbench.json_lines("input/1.json", rows).session()
    session.run()
    assert raw(session, "partition", "offset", "outcome") == [
        ("a%2Fb/c", 1, "on_time"),
        ("a/b%2Fc", 2, "on_time"),
    ]


@pytest.mark.runner("spark")
def test_W6_partitions_that_turn_out_to_have_no_row_do_not_hold_the_watermark(workbench: Workbench) -> None:
    """A row that does not parse, whose partition column does; and an empty file in a folder of its own."""
    workbench.assets(s=source("id INT, p INT", partition__columns="p"))
    workbench.json_lines(
        "input/1.json", ['{"p": 1, "ts": "2026-01-01 00:00:10"}', '{"p": 9, "id": "x", "ts": "2026-01-01"}']
    )
    session = workbench.session()
    assert session.run().sources[0].watermark == "2026-01-01 00:00:00"
    session.execute("DROP SOURCE s", yes=True)
    workbench.assets(s=source("id INT"))
    workbench.json_lines("input/a/1.json", [{"ts": "2026-01-01 00:00:10"}]).json_lines("input/b/1.json", [])
    (workbench.root / "input" / "1.json").unlink()
    session = workbench.session()
    assert session.run().sources[0].watermark == "2026-01-01 00:00:00"


def test_csv_with_doubled_quotes_a_byte_order_mark_and_empty_files(workbench: Workbench) -> None:
    workbench.assets(s=source("n VARCHAR", "CSV"))
    folder = workbench.root / "input"
    folder.mkdir()
    (folder / "0.csv").touch()
    text = '\ufeffn,ts\r\n"a ""b"", c",2026-01-01 00:00:00\r\n"q\\",2026-01-01 00:00:00\r\n'
    (folder / "1.csv").write_bytes(text.encode())
    session = workbench.session()
    session.run()
    assert raw(session, "n", "outcome") == [('a "b", c', "on_time"), ("q\\", "on_time")]
    assert audit_source(session, "s").ok


def test_a_parquet_file_without_a_column_is_refused_wherever_it_stands(workbench: Workbench) -> None:
    workbench.assets(s=source("id INT", "PARQUET"))
    folder = workbench.root / "input"
    folder.mkdir()
    time = pa.array([datetime(2026, 1, 1)], pa.timestamp("us"))
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "ts": time}), folder / "1.parquet")
    pq.write_table(pa.table({"ts": time}), folder / "2.parquet")
    with pytest.raises(TidegateError) as caught:
        workbench.session().run()
    assert caught.value.code == "TG504"
    (folder / "2.parquet").write_bytes(b"")
    with pytest.raises(TidegateError) as caught:
        workbench.session().run()
    assert caught.value.code == "TG513"


@pytest.mark.runner("spark")
def test_a_value_inside_a_nested_one_that_does_not_convert_rejects_the_row(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(f"CREATE TABLE t (st STRUCT<a INT>, ar INT[], m MAP<VARCHAR, INT>, {TIME}) APPEND ONLY")
    for values, outcome in [
        ("named_struct('a', 'x'), array(1), map('k', 1)", "1 rejected"),
        ("named_struct('a', 1), array('1', 'x'), map('k', 1)", "1 rejected"),
        ("named_struct('a', 1), array(1), map('k', 'x')", "1 rejected"),
        ("named_struct('a', NULL), array('1', NULL), map('k', '2')", "1 on time"),
        ("NULL, NULL, NULL", "1 on time"),
    ]:
        message = session.execute(f"INSERT INTO t VALUES ({values}, '2026-01-01')").message
        assert message is not None
        assert outcome in message


def test_view_columns_with_odd_field_names_and_types_that_no_table_stores(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(f"CREATE TABLE t (x INT, {TIME}) APPEND ONLY; INSERT INTO t VALUES (1, '2026-01-01')")
    view = (
        "CREATE MATERIALIZED VIEW v AS SELECT window_end, {} AS z "
        "FROM TUMBLE(t, ts, INTERVAL '1 hour') GROUP BY window_end"
    )
    for expression in ("NULL", "max(ts) - min(ts)"):
        with pytest.raises(TidegateError) as caught:
            session.execute(view.format(expression))
        assert caught.value.code == "TG507"
        assert "v" not in session.catalog.names()
    session.execute(view.format("collect_list(named_struct('a b', x, 'c.d', x))"))
    assert session.execute("SELECT z FROM v").rows() == [([(1, 1)],)]


@pytest.mark.runner("spark")
def test_event_times_at_both_ends_of_the_calendar(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(
        f"CREATE TABLE t (x INT, {TIME}) APPEND ONLY;"
        "CREATE MATERIALIZED VIEW v AS SELECT window_start, count(*) AS n "
        "FROM TUMBLE(t, ts, INTERVAL '1 day') GROUP BY window_start;"
        "INSERT INTO t VALUES (1, '0001-01-01'), (2, '1969-12-31 23:59:59.999999'), (3, '9999-12-31 23:59:59');"
        "FLUSH"
    )
    rows = session.execute("SELECT CAST(window_start AS DATE), n FROM v ORDER BY 1").rows()
    assert rows == [(date(1, 1, 1), 1), (date(1969, 12, 31), 1), (date(9999, 12, 31), 1)]
    assert audit_view(session, "v").ok


@pytest.mark.parametrize("then", ["goes on", "lost plans", "another life"])
def test_R2_a_run_that_died_after_its_commit_loses_no_row_and_repeats_none(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    workbench.assets(s=source("id INT", max_files_per_batch="1"))
    for i in range(3):
        workbench.json_lines(f"input/{i}.json", [{"id": i, "ts": f"2026-01-01 00:00:0{i}"}])
    session = workbench.session()

    class Died(Exception):
        pass

    def forget(inbox: stream.PlanInbox, epoch: int) -> None:
        if epoch == 2:  # it is committed, and nothing else has learned of it
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr(stream.PlanInbox, "forget", forget)
        with pytest.raises(Died):
            session.run()
    folder = workbench.root / session.work_folder("s").removeprefix("file://")
    assert sorted(p.name[-1] for p in (folder / "plans").glob("plan-*")) == ["1", "2"]
    if then == "another life":
        # A log that is dropped behind our back: the plans that it left are not for the next one of its name.
        session.tables.drop_table(session.identifier("s"))
        (workbench.root / "input" / "0.json").unlink()
    if then == "lost plans":
        shutil.rmtree(folder)
    workbench.session().run()
    first = 1 if then == "another life" else 0
    assert raw(session, "offset", "id") == [(i - first, i) for i in range(first, 3)]
    workbench.json_lines("input/3.json", [{"id": 3, "ts": "2026-01-01 00:00:03"}])
    workbench.session().run()
    assert raw(session, "offset", "id") == [(i - first, i) for i in range(first, 4)]
    if then == "lost plans":
        assert list((folder / "plans").iterdir()) == []


@pytest.mark.runner("spark")
def test_R2_two_rows_with_one_offset_are_decided_by_their_place(workbench: Workbench) -> None:
    """The first file and row have it, on every machine and in every retry."""
    workbench.assets(s=source("id INT, p INT, o INT", partition__columns="p", order__column="o"))
    for name in ("b", "a"):
        rows = [{"id": f"{ord(name)}", "p": 1, "o": o, "ts": "2026-01-01"} for o in range(4)]
        workbench.json_lines(f"input/{name}.json", [r | {"id": ord(name)} for r in rows])
    session = workbench.session()
    session.run()
    assert {r[:2] for r in raw(session, "id", "outcome")} == {(97, "on_time"), (98, "rejected")}
