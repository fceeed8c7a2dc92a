"""X2: a row that alone ends the process that decodes it is put aside, and nobody else is. Processes really end here."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tests.ingest.topics import project as kafka_project
from tests.ingest.topics import row, send
from tests.runtime.killing import (
    KillingDecoder,
    KillingReader,
    KillingReading,
    Unloadable,
    Unreadable,
    busy,
    killing,
    no_memory,
    refuse,
)
from tests.support.kafka import Broker
from tidegate.ingest.sources import decode, file_rows, filesystem
from tidegate.ingest.sources.file_rows import PLACE
from tidegate.ingest.stream import PlanInbox, SourceFeed
from tidegate.jvm.failures import worker_died
from tidegate.store.status import read_status
from tidegate.tasks.crashes.crashes import MessageCrashes, Nursery, Parse, killers, narrowed
from tidegate.tasks.crashes.parquet_crashes import ParquetCrashes
from tidegate.tasks.crashes.text_crashes import FileCrashes
from tidegate.tasks.decode.limits import Limits
from tidegate.tasks.decode.text import arrow_json
from tidegate.tasks.decode.text import files as text_files
from tidegate.tasks.decode.text.files import JsonFiles, dealt, spans_of
from tidegate.tasks.decode.values import DeclaredColumn

TARGETS = (DeclaredColumn("id", "bigint", "BIGINT"),)


@pytest.mark.parametrize("seed", range(200))
def test_X2_narrowing_finds_exactly_the_rows_that_kill_alone(seed: int) -> None:
    """The model: a process has memory for so many units; each row takes some, and a killer takes all. A flaky row kills
    now and then."""
    r = random.Random(seed)
    n = r.randrange(0, 40)
    memory = r.randrange(10, 60)
    rows = [r.choice([1, 1, 2, 5, 10, memory + 1]) if r.random() < 0.8 else 0 for _ in range(n)]
    flaky = {i for i in range(n) if r.random() < 0.1}
    asked: Counter[int] = Counter()

    def kills(start: int, end: int) -> bool:
        assert 0 <= start < end <= n
        return sum(rows[start:end]) > memory or any(i in flaky for i in range(start, end))

    def kills_alone(place: int) -> bool:
        asked[place] += 1
        # A flaky row lives at its third time.
        return rows[place] > memory or (place in flaky and asked[place] < 3)

    assert narrowed(n, kills, kills_alone) == [i for i in range(n) if rows[i] > memory]
    assert all(count <= 3 for count in asked.values())
    assert {i for i in asked if rows[i] > memory} == {i for i in range(n) if rows[i] > memory}


@pytest.mark.medium
def test_X2_a_process_that_dies_is_noticed_and_one_that_raises_has_not_died() -> None:
    decoder = KillingDecoder(TARGETS, most=6)
    values: list[bytes | None] = [b'{"id": %d}' % i for i in range(10)]
    values[3], values[7], values[8] = b'{"id": "KILL"}', None, b"\xff"
    with Nursery() as nursery:
        # All ten are too many at once, and no half of them is.
        assert killers(nursery, Parse(decoder), values) == [3]
        assert killers(nursery, Parse(decoder), [v for v in values if v != values[3]]) == []
        assert not nursery.dies(refuse, values)
        assert nursery.dies(no_memory, values)
        # Where even nothing is too much, no row is to blame.
        assert killers(nursery, no_memory, values) == []
        assert nursery.dies(Unloadable(), values)
        with pytest.raises(RuntimeError, match="can't read"):
            nursery.dies(Unreadable(), values)
    assert nursery._process is None


@pytest.mark.long_run
@pytest.mark.medium
def test_X2_a_row_that_its_decoder_never_comes_back_from_is_one_that_kills() -> None:
    decoder = KillingDecoder(TARGETS, limits=Limits(seconds=0.2))
    with Nursery() as nursery:
        assert killers(nursery, Parse(decoder), [b'{"id": 1}', b'{"id": "HANG"}', b'{"id": 2}']) == [1]
        # The bound is for the decoder alone: what stands between two batches is not counted.
        assert not nursery.dies(partial(busy, decoder), [b'{"id": 1}'])


@pytest.mark.long_run
@pytest.mark.medium
def test_X2_a_row_that_its_decoder_waits_for_ever_over_is_one_that_kills() -> None:
    """It takes nothing of the processor."""
    decoder = KillingDecoder(TARGETS, limits=Limits(elapsed_seconds=1))
    values = [b'{"id": 1}', b'{"id": "SLEEP"}', b'{"id": 2}', b'{"id": "KILL"}', b'{"id": 3}']
    with Nursery() as nursery:
        assert killers(nursery, Parse(decoder), values) == [1, 3]
        # Halves are given less time than the row alone, which is what is blamed.
        started = time.monotonic()
        assert nursery.dies(Parse(decoder), values[:2], hurried=True)
        assert nursery.waited
        assert time.monotonic() - started < 1
        assert nursery.dies(Parse(decoder), values[3:])
        assert not nursery.waited


@pytest.mark.medium
def test_X2_messages_and_records_are_named_by_where_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = KillingDecoder(TARGETS)
    values = [b'{"id": 1}', b"KILL", b'{"id": 2}']
    batch = pa.RecordBatch.from_pydict({"value": values, "_partition": [0, 1, 1], "_offset": [5, 7, 8]})
    (found,) = MessageCrashes(Parse(decoder))(iter([batch]))
    assert found.to_pylist() == [{"_partition": 1, "_offset": 7}]

    monkeypatch.setattr(text_files, "_PART", 30)
    path = tmp_path / "a.json"
    lines = [b'{"id": %d}' % i for i in range(9)]
    lines[4], lines[6] = b'{"id": "KILL"}', b""
    path.write_bytes(b"\n".join(lines) + b"\n")
    fs, uri = pafs.LocalFileSystem(), path.as_uri()
    spans = dealt(spans_of(fs, [(str(path), uri)]), 1)

    def every(make: Any) -> Iterator[dict[str, Any]]:
        for out in make(iter([pa.RecordBatch.from_arrays([pa.array([0])], ["id"])])):
            yield from out.to_pylist()

    crashed = list(every(FileCrashes(JsonFiles(fs, decoder, spans, place=tuple(PLACE)))))
    assert len(crashed) == 1
    aside = frozenset((row["uri"], row["block"], row["row"]) for row in crashed)
    read = list(every(JsonFiles(fs, decoder, spans, aside, place=tuple(PLACE))))
    assert sorted(row["c0"] for row in read if row["_why"] is None) == [0, 1, 2, 3, 5, 7, 8]
    assert [(r["_why"], r["_raw"]) for r in read if r["_why"]] == [("crashed_decoder", '{"id": "KILL"}')]
    assert list(every(FileCrashes(JsonFiles(fs, decoder, spans, aside, place=tuple(PLACE))))) == []


def kill(monkeypatch: pytest.MonkeyPatch, most: int = 1 << 30) -> None:
    """Every decoder that is made from here on ends its process."""
    made = decode.text_decoder
    for module in (arrow_json, decode, file_rows, text_files):
        monkeypatch.setattr(module, "text_decoder", lambda *given: killing(made(*given), most))


def test_X2_only_the_death_of_a_worker_is_taken_for_one() -> None:
    from pyspark.errors import PySparkException

    assert worker_died(PySparkException("Job aborted …: Python worker exited unexpectedly (crashed)"))
    assert not worker_died(PySparkException("Job aborted …: No space left on device"))
    assert not worker_died(RuntimeError("Python worker exited unexpectedly (crashed)"))


@pytest.mark.spark
def test_X2_a_message_that_kills_its_worker_is_rejected_on_record_and_the_rest_is_judged(
    workbench: Workbench, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(partitions=2)
    session = kafka_project(workbench, kafka, topic, sql="CREATE TABLE unused (x INT) APPEND ONLY;")
    hostile = [b'{"id": "KILL', b'{"id": 9, "ts": "KILL"}']
    send(kafka, topic, [(0, row(1, 1)), (0, hostile[0]), (0, row(2, 2)), (1, row(3, 3)), (1, hostile[1])])
    kill(monkeypatch)
    plans: list[Any] = []
    write = PlanInbox.write
    monkeypatch.setattr(PlanInbox, "write", lambda self, plan: (plans.append(plan), write(self, plan))[1])
    tried = SourceFeed._carried_out

    def carried_out(self: SourceFeed, plan: Any) -> Any:
        assert plans[-1] == plan  # on record before it is used
        return tried(self, plan)

    monkeypatch.setattr(SourceFeed, "_carried_out", carried_out)
    session.run()
    raw = session.tables.rows(session.identifier("s")).where("_outcome <> 'watermark'")
    found = {(r["_source_partition"], r["_offset"]): r for r in raw.collect()}
    assert {key: (r["_outcome"], r["_reason"]) for key, r in found.items()} == {
        ("0", 0): ("on_time", None),
        ("0", 1): ("rejected", "crashed_decoder"),
        ("0", 2): ("on_time", None),
        ("1", 0): ("on_time", None),
        ("1", 1): ("rejected", "crashed_decoder"),
    }
    assert [found["0", 1]["_raw"], found["1", 1]["_raw"]] == [hostile[0].decode(), hostile[1].decode()]
    assert [sorted(plan.crashed) for plan in plans] == [[], [["0", 1], ["1", 1]]]
    history = session.table("s$watermarks").where("partition IS NULL").collect()
    assert "offset 1 of partition" in history[-1]["note"]


@pytest.mark.spark
def test_X2_a_batch_that_is_too_large_for_its_workers_is_made_smaller_and_nobody_is_blamed(
    workbench: Workbench, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.topic(partitions=1)
    session = kafka_project(workbench, kafka, topic, sql="CREATE TABLE unused (x INT) APPEND ONLY;")
    send(kafka, topic, [(0, row(i, i)) for i in range(10)])
    kill(monkeypatch, most=6)
    session.run()
    counts = session.table("s$raw").groupBy("outcome").count().collect()
    assert [tuple(r) for r in counts] == [("on_time", 10)]


@pytest.mark.spark
def test_X2_a_line_of_a_file_that_kills_its_worker_is_rejected(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        '{"id": 1, "ts": "2026-01-01 00:00:01"}',
        '{"id": "KILL"}',
        '{"id": 2, "ts": "2026-01-01 00:00:02"}',
    ]
    workbench.json_lines("in/a.json", lines).assets(
        s="".join(
            f"CREATE SOURCE {name} (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
            f"WITH (connector = '{connector}', path = 'in'{more}) FORMAT PLAIN ENCODE JSON;\n"
            # Where columns say the partition, rows are looked at before the first plan, too; and all of a recording.
            for name, connector, more in (
                ("s", "filesystem", ""),
                ("p", "filesystem", ", partition.columns = 'id'"),
                ("r", "replay", ""),
            )
        )
    )
    session = workbench.session()
    kill(monkeypatch)
    session.run()
    for name in ("s", "p", "r"):
        (note,) = session.table(f"{name}$watermarks").where("partition IS NULL").select("note").collect()
        assert note[0] == "crashed their decoder, and are rejected: row 2 of a.json"
        found = session.table(f"{name}$raw").select("outcome", "reason").collect()
        assert sorted(tuple(r) for r in found if r["outcome"] == "on_time") == [("on_time", None)] * 2
        assert [r["reason"] for r in found if r["outcome"] == "rejected"] == ["crashed_decoder"]


@pytest.mark.spark
def test_X2_a_line_that_its_decoder_waits_for_ever_over_is_rejected_and_the_source_goes_on(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": number, "ts": "2026-01-01 00:00:01"} for number in (1, 2, 3, "SLEEP")]
    workbench.json_lines("in/a.json", rows).assets(
        s="CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
        "WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;"
    )
    (workbench.root / "resources").mkdir()
    (workbench.root / "resources" / "local.yaml").write_text("decoding: {elapsed_seconds: 3}\n")
    session = workbench.session()
    kill(monkeypatch)
    session.run()
    found = session.table("s$raw").select("outcome", "reason").collect()
    assert sorted(tuple(r) for r in found) == [("on_time", None)] * 3 + [("rejected", "crashed_decoder")]


@pytest.mark.spark
@pytest.mark.long_run
def test_X2_rows_of_a_parquet_file_that_kill_their_worker_are_rejected_and_the_source_goes_on(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row kills when it is judged, another can't be decoded and hides the two behind it. Where columns say the
    partition, rows are looked at before the first plan, too."""
    texts = ["a", "KILL", "b", "HIDE", "hidden", "hidden", "c", "a"]
    folder = workbench.root / "in"
    folder.mkdir()
    times = pa.array([0] * 8, pa.timestamp("us"))
    table = pa.table({"id": pa.array(range(8), pa.int32()), "s": texts, "ts": times})
    pq.write_table(table, folder / "a.parquet", row_group_size=6)
    workbench.assets(
        s="".join(
            f"CREATE SOURCE {name} (id INT, s VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
            f"WITH (connector = 'filesystem', path = 'in'{more}) FORMAT PLAIN ENCODE PARQUET;\n"
            for name, more in (("s", ""), ("p", ", partition.columns = 's'"))
        )
    )
    session = workbench.session()
    monkeypatch.setattr(filesystem, "ParquetReader", KillingReader)
    monkeypatch.setattr(file_rows, "ParquetCrashes", partial(ParquetCrashes, reading=KillingReading))
    session.run()
    for name in ("s", "p"):
        found = session.table(f"{name}$raw").select("id", "s", "outcome", "reason").collect()
        good = sorted(tuple(r)[:2] for r in found if r["outcome"] == "on_time")
        assert good == [(0, "a"), (2, "b"), (6, "c"), (7, "a")]
        assert [r["reason"] for r in found if r["outcome"] == "rejected"] == ["crashed_decoder"] * 4
        (note,) = session.table(f"{name}$watermarks").where("partition IS NULL").select("note").collect()
        assert "row 2 of a.parquet, rows 4 to 6 of a.parquet" in note[0]


@pytest.mark.spark
@pytest.mark.long_run
def test_X2_a_column_that_was_taken_in_and_kills_the_worker_rejects_no_row_and_is_reported(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workbench.root / "in"
    folder.mkdir()
    times = pa.array([0] * 2, pa.timestamp("us"))
    pq.write_table(pa.table({"s": ["a", "b"], "more": ["x", "KILL"], "ts": times}), folder / "a.parquet")
    pq.write_table(pa.table({"s": ["c", "d"], "more": ["y", "z"], "ts": times}), folder / "b.parquet")
    text = (
        "CREATE SOURCE s (s VARCHAR{more}, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'filesystem', "
        "path = 'in', schema.evolution = 'add') FORMAT PLAIN ENCODE PARQUET;"
    )
    session = workbench.assets(s=text.format(more="")).session()
    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "ParquetReader", KillingReader)
        patched.setattr(file_rows, "ParquetCrashes", partial(ParquetCrashes, reading=KillingReading))
        session.run()
    (status,) = read_status(session.project).relations
    assert (status.rejected, status.undeclared) == (0, {"more": "a.parquet"})
    session = workbench.assets(s=text.format(more=", more VARCHAR")).session()
    session.run()
    found = sorted(map(tuple, session.table("s").select("s", "more").collect()))
    assert found == [("a", None), ("b", None), ("c", "y"), ("d", "z")]
