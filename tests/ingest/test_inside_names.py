"""Names that the engine could use itself are users' to write: from a file's column to sinks, amendments and audits."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tidegate.amend.run import amend
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view, is_accountable
from tidegate.quality.model import WindowSpan
from tidegate.quality.windows import read_windows
from tidegate.sinks.kafka import KafkaSink
from tidegate.sinks.upstream import Upstream
from tidegate.sql import analyse
from tidegate.sql.catalog.objects import View
from tidegate.sql.statements.statements import CreateSink
from tidegate.views.amend.whatif import what_if

if TYPE_CHECKING:
    from pyspark.sql import Row

    from tidegate.session.session import Session
    from tidegate.store.positions import Position

IN_FILES = ("_path", "_row", "_block", "_metadata", "_order", "_task", "_place", "_seq")


def columns(names: tuple[str, ...], kind: str) -> str:
    return "".join(f'"{name}" {kind}, ' for name in names)


@pytest.mark.runner("inprocess")
@pytest.mark.parametrize("encode", ["JSON", "CSV", "PARQUET"])
def test_columns_of_files(workbench: Workbench, encode: str) -> None:
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

#: Those of them that what sinks read may have, too; `make property` asks for all.
IN_SINKS = ("_number", "_kind", "_amendment", "_newest", "_key0", "_own_tick", "late_rows", "results")


class Story:
    """A table with columns of these names, and views over all of them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, keys = names, ", ".join(f'"{name}"' for name in names)
        self.table_and_m = (
            f"CREATE TABLE t ({columns(names, 'INT')}ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
            f"CREATE MATERIALIZED VIEW m AS SELECT {keys}, window_end, count(*) AS n "
            f"FROM TUMBLE(t, ts, INTERVAL '1 minute') GROUP BY {keys}, window_end EMIT ON WINDOW CLOSE;"
        )
        self.visits_and_o = (
            f"CREATE MATERIALIZED VIEW visits AS SELECT {keys}, window_end, count(*) AS n "
            f"FROM SESSION(t, ts, ({keys}), INTERVAL '20 seconds') GROUP BY {keys}, window_start, window_end "
            "EMIT ON WINDOW CLOSE;"
            f"CREATE MATERIALIZED VIEW o AS SELECT {keys}, ts, "
            f'row_number() OVER (PARTITION BY "{names[3]}" ORDER BY ts) AS n FROM t EMIT ON WINDOW CLOSE;'
        )
        self.begin = self.insert("00:00:01", "00:00:30", "00:05:00") + "FLUSH;"
        # Two that are late, and one of the wrong hour, which a reset undoes.
        self.late = self.insert("00:00:45", "00:01:10", "10:00:00") + "FLUSH;"

    def insert(self, *at: str) -> str:
        values = (f"({', '.join('1' for _ in self.names)}, '2026-01-01 {time}')" for time in at)
        return f"INSERT INTO t VALUES {', '.join(values)};"


# An expression of all names at once is nested too deeply for Spark Connect.
@pytest.mark.runner("inprocess")
@pytest.mark.parametrize(
    "names",
    [
        pytest.param(IN_REPORTS[:25], id="some"),
        pytest.param(IN_REPORTS[25:], id="others", marks=pytest.mark.long_run),
    ],
)
def test_columns_of_views_in_amendments_audits_checks_and_resets(
    workbench: Workbench, names: tuple[str, ...]
) -> None:
    session, story = workbench.session(), Story(names)
    session.execute(story.table_and_m + story.visits_and_o + story.begin)
    session.execute(story.late)
    assert what_if(session, session.catalog.get("m"), "ts - INTERVAL '1 hour'").complete == 2
    # Running numbers of rows can't be amended, and are left as they are.
    done = {r.view: (r.windows, r.late) for r in amend(session)}
    assert done == {"m": (2, 2), "visits": (3, 2), "o": (0, 0)}
    revisions_are_told(session)
    session.execute("ALTER TABLE t RESET WATERMARK TO '2026-01-01 00:04:00';")
    session.execute(story.insert("00:04:30", "00:05:30", "10:00:00") + "FLUSH;")
    adds_up(session, "m", "visits", "o")


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(IN_SINKS, id="some"),
        pytest.param(IN_REPORTS, id="all"),
    ],
)
@pytest.mark.long_run
def test_columns_of_views_in_sinks_and_what_they_deliver_again(
    workbench: Workbench, names: tuple[str, ...]
) -> None:
    session, story = workbench.session(), Story(names)
    sink = "CREATE SINK k FROM m WITH (connector = 'iceberg', amendments = 'upsert');"
    session.execute(story.table_and_m + sink + story.begin)
    session.run()
    begun = kafka_sink(session, names)[1].newest
    session.execute(story.late)
    assert [(r.view, r.windows, r.late) for r in amend(session)] == [("m", 2, 2)]
    session.run()
    assert sorted(r["n"] for r in session.tables.rows("tidegate.main.k").collect()) == [1, 1, 3]
    sent = [(json.loads(m["key"]), json.loads(m["value"])) for m in messages(session, names, begun)]
    assert sorted(value["n"] for _, value in sent) == [1, 1, 3]
    assert all([*key] == [*names, "window_end"] and [*value] == [*key, "n"] for key, value in sent)
    revisions_are_told(session)
    adds_up(session, "m")


def revisions_are_told(session: Session) -> None:
    revisions = session.table("m$revisions")
    assert len(set(revisions.columns)) == len(revisions.columns)
    assert sorted(r["n"] or 0 for r in revisions.collect()) == [1, 1, 2, 3]


def adds_up(session: Session, *names: str) -> None:
    for name in names:
        assert audit_view(session, name).ok, name
        view, stored = session.catalog.get(name), session.stored(name)
        assert isinstance(view, View)
        assert stored is not None
        found = read_windows(session, view, stored, WindowSpan(), is_accountable(session, view))
        assert found.count > 1, name
        assert found.wrong == 0, name


def kafka_sink(session: Session, names: tuple[str, ...]) -> tuple[KafkaSink, Upstream]:
    """A sink of `m` that upserts by all that it is grouped by; nothing is asked of a broker."""
    options = (
        "connector = 'kafka', topic = 'x', properties.bootstrap.server = 'localhost:1', amendments = 'upsert'"
    )
    by = ", ".join([*names, "window_end"])
    sql = f"CREATE SINK q FROM m WITH ({options}, key.columns = '{by}') FORMAT PLAIN ENCODE JSON"
    (statement,) = analyse(sql, session.catalog)
    assert isinstance(statement, CreateSink)
    upstream = Upstream.of(session, statement.sink)
    assert upstream is not None
    return KafkaSink(session, statement.sink), upstream


def messages(session: Session, names: tuple[str, ...], after: Position) -> list[Row]:
    """Those that are to be sent where all up to `after` was delivered."""
    sink, upstream = kafka_sink(session, names)
    state = asdict(after) | {"delivery": "d", "pending": asdict(upstream.newest)}
    upto, changed = upstream.newest.amendments, upstream.amended(session.tables, after)
    found = sink._messages(upstream, state, upto, changed, None)
    # What has arrived is not sent again.
    arrived = found.selectExpr("CAST(headers[0].value AS STRING) AS id")
    assert sink._messages(upstream, state, upto, changed, arrived).isEmpty()
    return found.collect()


def test_columns_of_keyed_tables(workbench: Workbench) -> None:
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
