"""Files that the gate's own tasks read (`Direct`): row for row what Spark's way into the gate gives."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Workbench
from tidegate.ingest.ingest import Log
from tidegate.ingest.sources import filesystem
from tidegate.tasks.decode.tasks import tasks_of

START = datetime(2026, 1, 1)
DECLARED = {"p": pa.int32(), "q": pa.string(), "off": pa.int64(), "ts": pa.timestamp("us"), "v": pa.float64()}
#: Of files: as declared, other ones that fit, and one that does not.
OTHER_TYPES: list[dict[str, pa.DataType]] = [
    {},
    {"p": pa.int8(), "q": pa.large_binary(), "off": pa.float64(), "ts": pa.timestamp("ns"), "v": pa.null()},
    {"v": pa.string()},
]


def source(partition: str, order: str, limit: int) -> str:
    options = [f"partition.columns = '{partition}'"] if partition else []
    options += [f"order.column = '{order}'"] if order else []
    options.append(f"max_files_per_batch = '{limit}'")
    return f"""CREATE SOURCE s (p INT, q VARCHAR, off BIGINT, ts TIMESTAMP, v DOUBLE NOT NULL,
        WATERMARK FOR ts AS ts - INTERVAL '10 seconds')
        WITH (connector = 'filesystem', path = 'input', {", ".join(options)}) FORMAT PLAIN ENCODE PARQUET;"""


def write(root: Path, name: str, rows: list[dict], **types: pa.DataType) -> None:
    kinds = DECLARED | types
    target = root / "input" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        k: pa.nulls(len(rows))
        if kind == pa.null()
        else pa.array([r[k] for r in rows], DECLARED[k]).cast(kind)
        for k, kind in kinds.items()
    }
    pq.write_table(pa.table(columns), target, row_group_size=3)


def some_rows(draw: random.Random, orderly: bool) -> list[tuple[str, list[dict]]]:
    """A few files of a few partitions; unless `orderly`, with offsets that are missing, repeated or out of order."""
    files, offsets = [], dict.fromkeys(range(3), 0)
    for number in range(draw.randint(1, 5)):
        rows = []
        mixed = draw.random() < 0.4
        home = draw.randrange(3)
        for _ in range(draw.randint(0, 12)):
            p = draw.randrange(3) if mixed else home
            offsets[p] += draw.randint(1, 3)
            off = offsets[p]
            if not orderly and draw.random() < 0.2:
                off = draw.choice([None, max(off - 5, 0), off])
            lost = draw.random()
            ts = START + timedelta(seconds=offsets[p] * 4 - draw.choice([0, 0, 0, 15, 40]))
            rows.append(
                {
                    "p": None if not orderly and lost < 0.03 else p,
                    "q": draw.choice(["a", "a/b", "%", None]) if not orderly else f"q{p}",
                    "off": off,
                    "ts": None if 0.03 < lost < 0.08 else ts,
                    "v": None if 0.08 < lost < 0.12 else draw.random(),
                }
            )
        files.append((f"{'x' if mixed else 'y'}{home}/{number}.parquet", rows))
    return files


def log_of(workbench: Workbench, root: Path) -> list[list[tuple]]:
    bench = Workbench(root, workbench._spark)
    session = bench.session()
    session.run()
    raw = session.table("s$raw").drop("epoch", "arrival").collect()
    marks = session.table("s$watermarks").drop("at").collect()
    return [sorted(map(repr, raw)), sorted(map(repr, marks))]


@pytest.mark.spark
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long_run) for n in range(1, 8))])
def test_W4_who_reads_a_file_changes_nothing(
    workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    orderly = seed % 3 != 0
    partition, order = draw.choice(
        [("p", "off"), ("p", "off"), ("q", "off"), ("p, q", ""), ("", ""), ("", "off")]
    )
    files = some_rows(draw, orderly)
    found = []
    for way in ("direct", "spark"):
        root = tmp_path / way
        (root / "assets").mkdir(parents=True)
        (root / "assets" / "s.sql").write_text(source(partition, order, 1 + seed % 4))
        for number, (name, rows) in enumerate(files):
            write(root, name, rows, **OTHER_TYPES[(seed + number) % len(OTHER_TYPES)])
        with monkeypatch.context() as patch:
            if way == "spark":
                patch.setattr(filesystem, "layout_of", lambda *_: None)
            found.append(log_of(workbench, root))
    assert found[0] == found[1]
    assert any(files)


@pytest.mark.spark
def test_no_row_passes_through_the_JVM_whatever_the_file_s_types_are(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench.assets(s=source("p", "off", 1))
    rows = [{"p": 1, "q": "a", "off": i, "ts": START + timedelta(seconds=i), "v": 1.0} for i in range(4)]
    write(workbench.root, "0.parquet", rows)
    write(workbench.root, "1.parquet", [r | {"off": r["off"] + 4} for r in rows], off=pa.int32())
    by_spark = []
    judge_frame = Log._judge_frame

    def noted(self: Log, *args: object) -> object:
        by_spark.append(self.progress.epoch + 1)
        return judge_frame(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "_judge_frame", noted)
    session = workbench.session()
    session.run()
    assert sorted(r["off"] for r in session.table("s").collect()) == list(range(8))
    assert by_spark == []


def test_files_of_one_partition_are_one_task_s_in_their_order() -> None:
    files = [("a", ["1"]), ("b", ["2"]), ("c", ["1", "3"]), ("d", ["4"]), ("e", ["3"]), ("f", [])]
    assert tasks_of(files, [9, 5, 9, 3, 9, 1], 2) == [["a", "c", "e"], ["b", "d", "f"]]
    assert tasks_of(files, [1] * 6, 99) == [["a", "c", "e"], ["f"], ["d"], ["b"]]
    assert tasks_of([], [], 2) == []
