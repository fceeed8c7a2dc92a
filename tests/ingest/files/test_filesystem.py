"""`connector = 'filesystem'`: formats, bad data, partition and order, and files that change or come late."""

from __future__ import annotations

import base64
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tidegate import TidegateError
from tidegate.audit.source import audit_source
from tidegate.store.status import read_status

if TYPE_CHECKING:
    from tidegate.session.session import Session

FIRST_LINE = (
    "unparseable: the first line of the file names no declared column "
    "(without_header = 'true' reads files without one)"
)
pytestmark = pytest.mark.runner("inprocess")
#: Of each format one file is read on Spark.
ON_SPARK = pytest.mark.runner("spark")

COLUMNS = "id INT, part INT, off BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10 seconds'"


def source(encode: str, **options: str) -> str:
    listed = "".join(f", {key.replace('__', '.')} = '{value}'" for key, value in options.items())
    return (
        f"CREATE SOURCE s ({COLUMNS}) WITH (connector = 'filesystem', path = 'input'{listed}) "
        f"FORMAT PLAIN ENCODE {encode};"
    )


def at(second: int) -> str:
    return f"2026-01-01 00:{second // 60:02d}:{second % 60:02d}"


def row(i: int, second: int | None, part: int = 0, off: int | None = None) -> dict:
    return {"id": i, "part": part, "off": off, "ts": None if second is None else at(second)}


def judged(session: Session) -> list[tuple]:
    """(partition, offset, id, outcome) of the whole log, in order."""
    raw = session.table("s$raw").select("partition", "offset", "id", "outcome")
    return sorted(map(tuple, raw.collect()), key=str)


@ON_SPARK
def test_json_rows_that_do_not_parse_are_rejected_with_text_and_offset(workbench: Workbench) -> None:
    workbench.assets(s=source("JSON"))
    lines = [
        '{"id": 1, "ts": "2026-01-01 00:00:30"}',
        '{"id": 2, "ts": "yesterday"}',
        "not json at all",
        '{"id": 4, "ts": null, "surplus": 1}',
        '{"id": 5, "ts": "2026-01-01 00:00:10"}',
    ]
    session = workbench.json_lines("input/a.json", lines).session()
    session.run()
    rejected = session.table("s$rejected").orderBy("offset").collect()
    assert [(r["offset"], r["reason"]) for r in rejected] == [
        (1, 'unparseable: column "ts" wants TIMESTAMP'),
        (2, "unparseable: not one JSON object"),
        (3, "null_event_time"),
    ]
    assert rejected[1]["raw"] == "not json at all"
    assert [r[2:] for r in judged(session) if r[3] != "rejected"] == [(1, "on_time"), (5, "late")]
    assert audit_source(session, "s").ok


def test_order_is_folder_file_name_and_position_whatever_the_file_times(workbench: Workbench) -> None:
    """The order trap: the file system's own order, sizes and times say nothing."""
    workbench.assets(s=source("JSON", max_files_per_batch="1"))
    workbench.json_lines("input/b/2.json", [row(3, 100), row(4, 101)])
    workbench.json_lines("input/b/1.json", [row(1, 0), row(2, 1)] * 40)
    workbench.json_lines("input/a/1.json", [row(9, 50)])
    session = workbench.session()
    session.run()
    seen = judged(session)
    assert {s[0] for s in seen} == {"a", "b"}
    b = [s for s in sorted(seen, key=lambda s: (s[0], s[1])) if s[0] == "b"]
    assert [s[1] for s in b] == list(range(82))
    assert [s[2] for s in b] == [1, 2] * 40 + [3, 4]
    assert {s[3] for s in b} == {"on_time"}


@pytest.mark.parametrize("limit", ["1", "1000"])
def test_W4_offsets_from_a_column_are_read_in_their_order_across_files(
    workbench: Workbench, limit: str
) -> None:
    """Files whose ranges overlap are read together; disjoint ones by their lowest offset, not by name."""
    workbench.assets(
        s=source("JSON", partition__columns="part", order__column="off", max_files_per_batch=limit)
    )
    rows = [row(i, 10 * i if i % 5 else max(10 * i - 45, 0), off=i) for i in range(30)]
    workbench.json_lines("input/z.json", rows[:10])
    workbench.json_lines("input/y.json", rows[10:20:2] + rows[21:30:2])
    workbench.json_lines("input/x.json", rows[11:20:2] + rows[20:30:2])
    session = workbench.session()
    session.run()
    expected, newest = [], None
    for r in rows:
        second = int(r["ts"][14:16]) * 60 + int(r["ts"][17:])
        late = newest is not None and second < newest - 10
        newest = second if newest is None else max(newest, second)
        expected.append(("0", r["off"], r["id"], "late" if late else "on_time"))
    assert sorted(judged(session), key=lambda s: s[1]) == expected


def test_a_repeated_offset_is_rejected_not_counted_twice(workbench: Workbench) -> None:
    workbench.assets(s=source("JSON", partition__columns="part", order__column="off"))
    workbench.json_lines("input/1.json", [row(i, i, off=i) for i in range(5)])
    session = workbench.session()
    session.run()
    workbench.json_lines("input/2.json", [row(i, i, off=i) for i in range(3, 7)])
    session.run()
    assert [s[1:] for s in judged(session)] == [
        (0, 0, "on_time"),
        (1, 1, "on_time"),
        (2, 2, "on_time"),
        (3, 3, "on_time"),
        (3, 3, "rejected"),
        (4, 4, "on_time"),
        (4, 4, "rejected"),
        (5, 5, "on_time"),
        (6, 6, "on_time"),
    ]
    reasons = session.table("s$rejected").select("reason").distinct().collect()
    assert [r[0] for r in reasons] == ["offset_not_increasing"]
    assert audit_source(session, "s").ok


def test_csv_columns_go_by_name_and_null_values_are_null(workbench: Workbench) -> None:
    workbench.assets(s=source("CSV (null_value = 'NA', delimiter = ';')"))
    workbench.json_lines(
        "input/1.csv", ["ts;off;surplus;id;part", f"{at(5)};7;x;1;0", "NA;8;x;2;0", "bad;9;x;3;0"]
    )
    session = workbench.session()
    session.run()
    raw = session.table("s$raw").orderBy("offset").select("id", "off", "ts", "outcome", "reason").collect()
    assert tuple(raw[0]) == (1, 7, datetime(2026, 1, 1, 0, 0, 5), "on_time", None)
    assert [r["reason"] for r in raw[1:]] == ["null_event_time", 'unparseable: column "ts" wants TIMESTAMP']


def write_csv_files(folder: Path) -> None:
    """With other headers than the source has columns, fields that are not closed, and none at all."""
    files = {
        "1": f'id,note,ts\n1,plain,{at(1)}\n2,"two\nlines\n9,fake,{at(9)}\n",{at(2)}\n3,x,{at(3)}\n'.encode(),
        "2": f'\ufeffTS,id,more,note\r\n{at(4)},4,z,"say ""hi"""\r\n\r\n'.encode(),
        "3": f"ts,id\n{at(5)},5\n".encode(),
        "4": f"note,ts\nno id,{at(6)}\n".encode(),
        "5": b"id,note,ts\n7,\xff\xfe,"
        + at(7).encode()
        + b'\n8,x\n9,"open,'
        + at(8).encode()
        + b"\n10,x,y\n",
        "6": b"a,b\n1,2\n",
        "7": f"id,ts,ID,ts\n11,{at(11)},12,{at(12)}\n".encode(),
        "8": b"",
    }
    for name, data in files.items():
        (folder / f"{name}.csv").write_bytes(data)
    # What a file does not have, its folder may say.
    (folder / "note=of the folder").mkdir()
    (folder / "note=of the folder" / "9.csv").write_text(f"ts,id,most\n{at(9)},9,x\n", encoding="utf-8")
    (folder / "id=nine").mkdir()
    (folder / "id=nine" / "9.csv").write_text(f"ts,note\n{at(9)},x\n", encoding="utf-8")


@ON_SPARK
def test_W5_each_csv_file_has_its_own_header_and_quoted_line_breaks_belong_to_their_field(
    workbench: Workbench,
) -> None:
    """Other orders of columns, more or fewer of them: each file is read by its own header."""
    workbench.assets(
        s="CREATE SOURCE s (id INT NOT NULL, note VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
        "WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE CSV;"
    )
    folder = workbench.root / "input"
    folder.mkdir()
    write_csv_files(folder)
    session = workbench.session()
    session.run()
    unread = {"more": "2.csv", "most": "note=of the folder/9.csv"}
    assert read_status(session.project).relations[0].undeclared == unread
    (note,) = session.table("s$watermarks").where("partition IS NULL").select("note").collect()
    assert note[0].startswith("the input has columns that are not declared")
    assert session.table("s").where("id = 9").select("note").collect() == [("of the folder",)]
    assert session.table("s$rejected").where("partition = 'id=nine'").select("reason").collect() == [
        ('unparseable: column "id" wants INT',)
    ]
    rows = session.table("s$raw").where("partition = '.'").orderBy("offset")
    rows = rows.select("id", "note", "ts", "reason").collect()
    good = [tuple(r)[:3] for r in rows if r["reason"] is None]

    def second(n: int) -> datetime:
        return datetime(2026, 1, 1, 0, 0, n)

    assert good == [
        (1, "plain", second(1)),
        (2, f"two\nlines\n9,fake,{at(9)}\n", second(2)),
        (3, "x", second(3)),
        (4, 'say "hi"', second(4)),
        (5, None, second(5)),
    ]
    rejected = (
        session.table("s$rejected")
        .where("partition = '.'")
        .orderBy("offset")
        .select("reason", "raw")
        .collect()
    )
    assert [tuple(r) for r in rejected] == [
        ('not_null: column "id" is NULL', f"no id,{at(6)}"),
        ("invalid_utf8", "base64:" + base64.b64encode(b"7,\xff\xfe," + at(7).encode()).decode()),
        ("unparseable: fewer fields than columns", "8,x"),
        ("unparseable: a quoted field is not closed", f'9,"open,{at(8)}\n10,x,y\n'),
        (FIRST_LINE, "a,b"),
        ("unparseable: the header of the file has none of the columns", "1,2"),
        ('unparseable: column "ts" is there twice', f"11,{at(11)},12,{at(12)}"),
    ]
    assert audit_source(session, "s").ok


def test_X5_lines_of_json_files_are_rows_as_messages_are(workbench: Workbench) -> None:
    workbench.assets(s=source("JSON"))
    time = f'"ts": "{at(5)}"'
    lines = [
        f'{{"id": 1, {time}}}{{"id": 2, {time}}}',
        f'{{"id": 3, {time}}}]',
        f'{{"id": 4, {time}}} garbage',
        "[]",
        f'[{{"id": 5, {time}}}, {{"id": 6, {time}}}]',
        f'{{"id": 7, "id": 8, {time}}}',
        f'{{"id": NaN, {time}}}',
        f"{{'id': 9, {time}}}",
        f'{{"ID": 10, {time}}}',
        "",
        "  ",
        f'{{"id": 11, {time}}}',
    ]
    session = workbench.json_lines("input/a.json", lines).session()
    session.run()
    rows = session.table("s$raw").orderBy("offset").select("id", "reason").collect()
    more, one, bad = "more text behind the JSON object", "not one JSON object", "not valid JSON"
    twice = 'column "id" is there twice'
    problems = [more, more, more, one, one, twice, bad, bad]
    assert [tuple(r) for r in rows] == [
        *((None, f"unparseable: {problem}") for problem in problems),
        (None, None),
        (11, None),
    ]
    raws = session.table("s$rejected").orderBy("offset").select("raw").collect()
    assert [r["raw"] for r in raws] == lines[:8]


@ON_SPARK
def test_parquet_with_nested_fields_and_generated_event_time(workbench: Workbench) -> None:
    columns = "id INT, detail STRUCT<at VARCHAR, n BIGINT>, ts TIMESTAMP AS CAST((detail).at AS TIMESTAMP)"
    workbench.assets(
        s=f"CREATE SOURCE s ({columns}, WATERMARK FOR ts AS ts - INTERVAL '10 seconds') "
        "WITH (connector = 'filesystem', path = 'input/*.parquet') FORMAT PLAIN ENCODE PARQUET;"
    )
    (workbench.root / "input").mkdir()
    data = pa.table(
        {"id": [1, 2, 3], "detail": [{"at": at(s), "n": 1} for s in (30, 31)] + [{"at": "?", "n": 2}]}
    )
    pq.write_table(
        data.cast(pa.schema([("id", pa.int32()), data.schema.field("detail")])),
        workbench.root / "input/1.parquet",
    )
    (workbench.root / "input" / "readme.txt").write_text("not input")
    session = workbench.session()
    session.run()
    assert [s[2:] for s in judged(session)] == [(1, "on_time"), (2, "on_time"), (3, "rejected")]
    assert session.execute("SELECT (detail).n AS n, ts FROM s WHERE id = 2").rows() == [
        (1, datetime(2026, 1, 1, 0, 0, 31))
    ]


def test_a_file_that_grew_after_it_was_read_is_an_error_not_silence(workbench: Workbench) -> None:
    workbench.assets(s=source("JSON")).json_lines("input/1.json", [row(1, 1)])
    session = workbench.session()
    session.run()
    workbench.json_lines("input/1.json", [row(1, 1), row(2, 2)])
    with pytest.raises(TidegateError) as caught:
        session.run()
    assert caught.value.code == "TG505"


def test_R2_a_lost_work_folder_loses_and_repeats_nothing(workbench: Workbench) -> None:
    workbench.assets(s=source("JSON", max_files_per_batch="1"))
    for n in range(3):
        workbench.json_lines(f"input/{n}.json", [row(n, n)])
    workbench.session().run()
    shutil.rmtree(workbench.root / ".tidegate" / "warehouse" / "_streams")
    workbench.json_lines("input/3.json", [row(3, 3)])
    session = workbench.session()
    report = session.run()
    assert report.sources[0].on_time == 1
    assert [s[1:] for s in judged(session)] == [(n, n, "on_time") for n in range(4)]


def test_missing_path_says_so(workbench: Workbench) -> None:
    with pytest.raises(TidegateError) as caught:
        workbench.assets(s=source("JSON")).session().run()
    assert caught.value.code == "TG503"


def test_W6_all_waiting_partitions_take_part_before_the_first_row(workbench: Workbench) -> None:
    """G waits for partition 2, which comes in the last batch only."""
    workbench.assets(s=source("JSON", partition__columns="part", max_files_per_batch="1"))
    workbench.json_lines("input/1.json", [row(1, 100, part=1)])
    workbench.json_lines("input/2.json", [row(2, 500, part=1)])
    workbench.json_lines("input/3.json", [row(3, 40, part=2)])
    session = workbench.session()
    session.run()
    history = session.table("s$watermarks").where("partition IS NULL").orderBy("epoch").collect()
    assert [r["published"] for r in history] == [None, None, datetime(2026, 1, 1, 0, 0, 30)]


def test_parquet_of_another_type_is_rejected_with_the_column_and_its_type(workbench: Workbench) -> None:
    workbench.assets(s=source("PARQUET"))
    (workbench.root / "input").mkdir()
    data = pa.table({"id": [1], "part": ["zero"], "off": [1], "ts": [datetime(2026, 1, 1)]})
    pq.write_table(data, workbench.root / "input" / "wrong.parquet")
    session = workbench.session()
    session.run()
    (rejected,) = session.table("s$rejected").collect()
    assert rejected["reason"] == 'unparseable: column "part" wants INT'
    assert '"part": "zero"' in rejected["raw"]
