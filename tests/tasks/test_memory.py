"""X2 under a real limit: Spark's own, of what its Python workers may take (`spark.executor.pyspark.memory`)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.support.quick import quick
from tidegate.testing.runner import QUICK

pytestmark = [pytest.mark.slow, pytest.mark.long_run]

SOURCE = (
    "CREATE SOURCE {name} (id INT, text VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
    "WITH (connector = 'filesystem', path = 'in/{name}') FORMAT PLAIN ENCODE {encode};\n"
)
FILES, ROWS = 3, 20_000
#: MiB: too little for Python's libraries alone, and more than any task takes.
LEAST, MOST = 600, 3000
#: How near the runs come to the least that is enough, in MiB.
NEAR = 8 if os.environ.get("TIDEGATE_HYPOTHESIS") == "thorough" else 80


def write(root: Path) -> None:
    """Files of 10 MB of text, as lines and as columns; all rows have one time, so that none is late in any order."""
    (root / "assets").mkdir(parents=True)
    sources = [SOURCE.format(name=n, encode=e) for n, e in (("lines", "JSON"), ("columns", "PARQUET"))]
    (root / "assets" / "s.sql").write_text("".join(sources))
    for name in ("lines", "columns"):
        (root / "in" / name).mkdir(parents=True)
    for number in range(FILES):
        texts = [f"{number} {i} ".ljust(450, "x") for i in range(ROWS)]
        lines = [
            json.dumps({"id": i, "text": text, "ts": "2026-01-01 00:00:00"}) for i, text in enumerate(texts)
        ]
        (root / "in" / "lines" / f"{number}.json").write_text("\n".join(lines) + "\n")
        times = pa.array([0] * ROWS, pa.timestamp("us"))
        table = pa.table({"id": pa.array(range(ROWS), pa.int32()), "text": texts, "ts": times})
        pq.write_table(table, root / "in" / "columns" / f"{number}.parquet", compression="none")


def ran(root: Path, limit: int) -> Any:
    """What `tests.tasks.limited` says; `limit`: MiB that a worker may take."""
    shutil.rmtree(root / ".tidegate", ignore_errors=True)
    quick(root, spark={"conf": QUICK | {"spark.executor.pyspark.memory": f"{limit}m"}})
    done = subprocess.run(
        [sys.executable, "-m", "tests.tasks.limited", str(root)],
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (limit, done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def test_property_X2_with_however_little_memory_no_row_is_blamed_and_none_is_lost(tmp_path: Path) -> None:
    """The limits close in on the least that is enough: there, tasks fail in every place where something is loaded."""
    write(tmp_path)
    low, high = LEAST, MOST
    seen: dict[int, set[str | None]] = {}
    while high - low > NEAR:
        limit = (low + high) // 2
        found = ran(tmp_path, limit)
        for name, one in found.items():
            assert one["error"] in (None, "TG513"), (limit, name, one)
            outcomes = {(outcome, reason) for outcome, reason, _ in one["rows"]}
            assert outcomes <= {("on_time", None)}, (limit, name, one)
            count = sum(rows for _, _, rows in one["rows"])
            # Files are committed as a whole; those of a batch that failed are still to come.
            assert count == FILES * ROWS if one["error"] is None else count % ROWS == 0, (limit, name, one)
            # It has tried with less before it gives up.
            assert one["error"] is None or one["sizes"][-1] == 1, (limit, name, one)
        seen[limit] = {one["error"] for one in found.values()}
        low, high = (low, limit) if seen[limit] == {None} else (limit, high)
    assert {None} in seen.values()
    assert any("TG513" in errors for errors in seen.values())
