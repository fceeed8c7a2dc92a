"""A row that the gate rejects, since a column that it must have is NULL, keeps its text: a misspelled name or value is
found there only (W5), and can be mended and readmitted (W17). On-time rows keep none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tests.ingest.test_arrow_json import read
from tests.ingest.test_arrow_json import source as kafka_source
from tests.tasks.decode import messages as formats
from tidegate.tasks.decode.binary.messages import DecodeTask
from tidegate.tasks.decode.columns import Wanted, required_columns
from tidegate.tasks.decode.raw_text import in_base64
from tidegate.tasks.decode.text.arrow_json import json_reader
from tidegate.tasks.decode.text.bulk import parsed
from tidegate.tasks.decode.text.decoders import text_decoder
from tidegate.tasks.parquet.parquet import ParquetReader, Unit
from tidegate.tasks.parquet.parquet_layout import Layout

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
COLUMNS = "id BIGINT NOT NULL, ts TIMESTAMP, note VARCHAR, WATERMARK FOR ts AS ts"
TIME = '"2026-01-01 10:00:00"'
#: JSON texts, and why each is rejected.
TEXTS = [
    (f'{{"id": 1, "ts": {TIME}}}', None),
    (f'{{"ID": 2, "ts": {TIME}}}', 'not_null: column "id" is NULL'),
    (f'{{"id": 3, "Ts": {TIME}}}', "null_event_time"),
    ('{"id": 4, "ts": null, "note": "é"}', "null_event_time"),
    (f'{{"id": 5, "ts": {TIME}, "note": null}}', None),
    ('{"id": 6, "ts": "2026-01-01 10"}', None),
    ("{}", "null_event_time"),
    ('{"id": "x"}', 'unparseable: column "id" wants BIGINT'),
]


def test_W5_a_json_message_without_what_it_must_have_keeps_its_text() -> None:
    reader = json_reader(kafka_source(COLUMNS))
    # The sixth has a time that Spark converts.
    texts = [pair for pair in TEXTS if '10"' not in pair[0]]
    for some in ([*texts], [(b"\xff", "invalid_utf8"), *texts], texts[:1], texts[1:2]):
        values = [t if isinstance(t, bytes) else t.encode() for t, _ in some]
        found = read(reader, values)
        assert found["_reason"].to_pylist() == [why for _, why in some]
        raw = [None if w is None else in_base64(t) if isinstance(t, bytes) else t for t, w in some]
        assert found["_raw"].to_pylist() == raw


@pytest.mark.parametrize("format_", ["JSON", "CSV"])
def test_W5_what_spark_is_to_see_of_a_row_is_its_text_only_where_it_needs_it(format_: str) -> None:
    columns = "id BIGINT NOT NULL, ts TIMESTAMP, note VARCHAR, tags INT[] NOT NULL, WATERMARK FOR ts AS ts"
    if format_ == "CSV":
        columns = columns.replace("tags INT[] NOT NULL", "tags BYTEA NOT NULL")
    relation = kafka_source(columns, format_)
    assert required_columns(relation) == {"id", "ts", "tags"}
    time = "2026-01-01 10:00:00"
    if format_ == "JSON":
        full = f'{{"id": 1, "ts": "{time}", "tags": [1]}}'
        texts = [full, full.replace('"id"', '"Id"'), full.replace("[1]", "null"), "[]"]
    else:
        texts = [f"1,{time},x,AA==", f",{time},x,AA==", f"1,{time},x,", "1"]
    # Records with a line break behind them are read one by one.
    for values in ([*texts], [text + "\n" for text in texts]):
        found = parsed(text_decoder(relation), pa.array([v.encode() for v in values], pa.binary()))
        text = found["_text"].to_pylist()
        assert [w is None for w in found["_why"].to_pylist()] == [True, True, True, False]
        assert text[1:] == [values[1], values[2], None]
        if format_ == "CSV":
            assert text[0] == values[0]  # Spark converts its bytes


def test_W5_a_message_of_avro_without_what_it_must_have_keeps_its_bytes(tmp_path: Path) -> None:
    fields = [{"name": n, "type": ["null", "long"]} for n in ("id", "x")]
    schema: dict[str, Any] = {"type": "record", "name": "R", "fields": fields}
    (tmp_path / "o.avsc").write_text(json.dumps(schema))
    wanted = [("id", pa.int64()), ("x", pa.int64())]
    made = formats.task(tmp_path, "AVRO", "id BIGINT, x BIGINT", wanted, "schema.location = 'o.avsc'")
    decode = DecodeTask(made.decoder, (Wanted("id", pa.int64(), "BIGINT", True), *made.columns[1:]))
    messages = [formats.avro(schema, {"id": i, "x": x}) for i, x in [(1, None), (None, 2), (3, 4)]]
    found = formats.rows(decode, [*messages, None, b"\xff"])
    assert [row["_raw"] for row in found] == [None, in_base64(messages[1]), None, None, in_base64(b"\xff")]
    assert [row["_why"] is None for row in found] == [True, True, True, False, False]


def test_W5_a_row_of_parquet_without_what_it_must_have_keeps_its_values(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    times = [datetime(2026, 1, 1), None, datetime(2026, 1, 3), datetime(2026, 1, 4)]
    pq.write_table(pa.table({"ts": times, "id": [1, 2, None, 4], "s": ["a", "b", "c", None]}), path)
    kinds = {
        "id": ("bigint", pa.int64()),
        "ts": ("timestamp_ntz", pa.timestamp("us")),
        "s": ("string", pa.string()),
    }
    layout = Layout(
        columns=tuple((name, kind, name != "id") for name, (kind, _) in kinds.items()),
        wanted=tuple(Wanted(name, kind, "?", name != "s") for name, (_, kind) in kinds.items()),
        time_column="ts",
        partition_columns=("id",),
        order_column=None,
        changes=False,
        unknown="?",
    )
    reader = ParquetReader(pafs.LocalFileSystem(), layout, ((Unit(path),),))
    (batch,) = reader(iter([pa.RecordBatch.from_arrays([pa.array([0])], ["id"])]))
    found = batch.to_pydict()
    why = [None, "null_event_time", 'not_null: column "id" is NULL', None]
    assert found["_reason"] == why
    raw = ['{"id": 2, "ts": null, "s": "b"}', '{"id": null, "ts": "2026-01-03 00:00:00.000000", "s": "c"}']
    assert found["_raw"] == [None, *raw, None]
    # Its place is what its columns say: it has been read.
    assert found["_source_partition"] == ["1", "2", "(null)", "4"]


@pytest.mark.spark
def test_W5_rejected_rows_of_files_keep_their_texts_and_their_places(workbench: Workbench) -> None:
    folders = {"json": "JSON", "csv": "CSV", "parquet": "PARQUET"}
    sources = {
        f"of_{name}": f"CREATE SOURCE of_{name} ({COLUMNS}) WITH (connector = 'filesystem', path = 'in/{name}', "
        f"partition.columns = 'note') FORMAT PLAIN ENCODE {format_};"
        for name, format_ in folders.items()
    }
    workbench.assets(**sources)
    for name in folders:
        (workbench.root / "in" / name).mkdir(parents=True)
    lines = [text for text, _ in TEXTS]
    (workbench.root / "in/json/a.json").write_text("\n".join(lines), encoding="utf-8")
    records = ["1,2026-01-01 10:00:00,a", ",2026-01-01 10:00:00,a", "3,,b", "4,2026-01-01 10,a", "x,,a"]
    (workbench.root / "in/csv/a.csv").write_text("\n".join(["id,ts,note", *records]), encoding="utf-8")
    table = pa.table({"id": [1, None], "ts": [datetime(2026, 1, 1)] * 2, "note": ["a", "a"]})
    pq.write_table(table, workbench.root / "in/parquet/a.parquet")
    session = workbench.session()
    session.run()

    def found(name: str) -> dict[tuple[str | None, str | None], tuple[str, str]]:
        rows = session.table(f"{name}$raw").select("partition", "reason", "raw", "outcome").collect()
        return {(row["reason"], row["raw"]): (row["outcome"], row["partition"]) for row in rows}

    no_id, no_time = 'not_null: column "id" is NULL', "null_event_time"
    json_rows = found("of_json")
    assert json_rows.keys() == {(why, None if why is None else text) for text, why in TEXTS}
    assert json_rows[no_time, lines[3]] == ("rejected", "é")
    csv_rows = found("of_csv")
    unfit = ('unparseable: column "id" wants BIGINT', records[4])
    assert csv_rows.keys() == {(None, None), (no_id, records[1]), (no_time, records[2]), unfit}
    assert csv_rows[no_id, records[1]] == ("rejected", "a")
    assert csv_rows[no_time, records[2]] == ("rejected", "b")
    values = '{"id": null, "ts": "2026-01-01 00:00:00.000000", "note": "a"}'
    assert found("of_parquet")[no_id, values] == ("rejected", "a")
