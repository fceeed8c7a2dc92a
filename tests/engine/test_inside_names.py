"""Names that the engine could use itself are users' to write: from a file's column to sinks, amendments and audits."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tidegate.amend.run import amend
from tidegate.audit.source import audit_source
from tidegate.engine.whatif import what_if

pytestmark = pytest.mark.spark

IN_FILES = ("_path", "_row", "_block", "_metadata", "_order", "_task", "_place", "_seq")


def columns(names: tuple[str, ...], kind: str) -> str:
    return "".join(f'"{name}" {kind}, ' for name in names)


@pytest.mark.parametrize("encode", ["JSON", "CSV", "PARQUET"])
def test_C12_columns_of_files(workbench: Workbench, encode: str) -> None:
    values = {name: i for i, name in enumerate(IN_FILES)}
    row = {**values, "ts": "2026-01-01 00:00:00"}
    folder = workbench.root / "input"
    folder.mkdir()
    if encode == "JSON":
        workbench.json_lines("input/a.json", [row])
    elif encode == "CSV":
        (folder / "a.csv").write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    else:
        table = pa.table({name: [value] for name, value in (row | {"ts": datetime(2026, 1, 1)}).items()})
        pq.write_table(table, folder / "a.parquet")
    given = f"{columns(IN_FILES, 'BIGINT')}ts TIMESTAMP, WATERMARK FOR ts AS ts"
    where = "path = 'input'"
    workbench.assets(
        s=f"CREATE SOURCE s ({given}) WITH (connector = 'filesystem', {where}) FORMAT PLAIN ENCODE {encode};",
        o=f"CREATE SOURCE o ({given}) WITH (connector = 'filesystem', {where}, order.column = '_order') "
        f"FORMAT PLAIN ENCODE {encode};",
        r=f"CREATE SOURCE r ({given}) WITH (connector = 'replay', {where}, order.columns = '_seq') "
        f"FORMAT PLAIN ENCODE {encode};",
    )
    session = workbench.session()
    session.run()
    for name in ("s", "o", "r"):
        (found,) = session.table(name).collect()
        assert tuple(found)[:-1] == tuple(values.values()), name
        assert audit_source(session, name).ok


#: Of lines that say what an amendment, a reset, an audit or a check has found.
IN_REPORTS = (
    *(
        "_number",
        "_kind",
        "_known",
        "_late",
        "_groups",
        "_upto",
        "_amendment",
        "_newest",
        "_n",
        "_before",
        "_from",
    ),
    *(
        "_to",
        "_path",
        "_key0",
        "_unit0",
        "_hit",
        "_extra",
        "_place",
        "_then",
        "_now",
        "_later",
        "_waiting",
        "_gone",
    ),
    *(
        "_touched",
        "_end",
        "_equal",
        "_same0",
        "_other_tick",
        "_own_tick",
        "_absorbed",
        "_taken",
        "_is_current",
    ),
    *(
        "_amended_at",
        "late_rows",
        "_late_rows",
        "expected",
        "results",
        "times",
        "first_tick",
        "_was",
        "_x",
        "_time",
    ),
    *("_carried", "_commit", "_hash", "e0", "f0", "side", "place"),
)


def insert(*at: str) -> str:
    values = (f"({', '.join('1' for _ in IN_REPORTS)}, '2026-01-01 {time}')" for time in at)
    return f"INSERT INTO t VALUES {', '.join(values)};"


def test_C12_columns_of_views_in_amendments_and_what_if(workbench: Workbench) -> None:
    session = workbench.session()
    keys = ", ".join(f'"{name}"' for name in IN_REPORTS)
    session.execute(
        f"CREATE TABLE t ({columns(IN_REPORTS, 'INT')}ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
        f"CREATE MATERIALIZED VIEW m AS SELECT {keys}, window_end, count(*) AS n "
        f"FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY {keys}, window_end EMIT ON WINDOW CLOSE;"
        f"CREATE MATERIALIZED VIEW visits AS SELECT {keys}, window_end, count(*) AS n "
        f"FROM SESSION(t, ts, ({keys}), INTERVAL '20 seconds') GROUP BY {keys}, window_start, window_end "
        "EMIT ON WINDOW CLOSE;"
        f"CREATE MATERIALIZED VIEW o AS SELECT {keys}, ts, "
        'row_number() OVER (PARTITION BY "_late" ORDER BY ts) AS n FROM t EMIT ON WINDOW CLOSE;'
        "CREATE SINK k FROM m WITH (connector = 'iceberg', amendments = 'upsert');"
        + insert("00:00:01", "00:00:30", "00:05:00")
        + "FLUSH;"
    )
    session.run()
    session.execute(insert("00:00:45", "00:01:10") + "FLUSH;")
    view = session.catalog.get("m")
    assert what_if(session, view, "ts - INTERVAL '1 hour'").complete == 2
    done = {r.view: (r.windows, r.late) for r in amend(session)}
    assert done == {"m": (2, 2), "visits": (3, 2), "o": (0, 0)}


def test_C12_columns_of_keyed_tables(workbench: Workbench) -> None:
    names = ("_rank", "_begins", "_first", "_ends", "_place", "_continues", "_replaced")
    session = workbench.session()
    session.execute(
        f"CREATE TABLE live (id INT PRIMARY KEY, {columns(names, 'INT')}ts TIMESTAMP, WATERMARK FOR ts AS ts "
        "- INTERVAL '1 minute' WITH TTL);"
        f"CREATE TABLE names (id INT PRIMARY KEY, {columns(names[:-1], 'INT')}x INT);"
        "INSERT INTO live VALUES (1, 2, 3, 4, 5, 6, 7, 8, '2026-01-01'), (1, 3, 3, 4, 5, 6, 7, 8, '2026-01-01');"
        "INSERT INTO names VALUES (1, 2, 3, 4, 5, 6, 7, 8), (1, 3, 3, 4, 5, 6, 7, 8);"
    )
    for name in ("live", "names"):
        assert [tuple(r)[:8] for r in session.table(name).collect()] == [(1, 3, 3, 4, 5, 6, 7, 8)]
