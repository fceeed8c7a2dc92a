"""Nothing on the driver grows with data: what brings rows there says what bounds it; tasks read footers."""

from __future__ import annotations

import ast
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT, Workbench
from tidegate.errors import TidegateError
from tidegate.ingest.sources import file_looks

PACKAGE = ROOT / "platform" / "tidegate"
#: What brings rows to the driver; `first()`, `take(n)` and `count()` are bounded by what they are.
BRINGING = {"collect", "toLocalIterator", "toPandas", "toArrow"}
#: How far above the call, in lines, the comment may stand: a frame is built over a few of them.
NEAR = 5


def calls() -> list[tuple[Path, int]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in BRINGING
                # Python's own collector brings nothing.
                and ast.unparse(node.func.value) != "gc"
            ):
                found.append((path, node))
    return [(path, node.lineno) for path, node in found]


@pytest.mark.medium
def test_whatever_brings_rows_to_the_driver_says_what_bounds_it() -> None:
    unsaid = []
    for path, line in calls():
        lines = path.read_text().splitlines()
        above = "\n".join(lines[max(0, line - 1 - NEAR) : line])
        if "Bounded:" not in above:
            unsaid.append(f"{path.relative_to(PACKAGE)}:{line}")
    assert not unsaid, "add `# Bounded: by what` above: " + ", ".join(unsaid)
    assert len(calls()) > 10


def test_footers_of_many_files_are_looked_at_by_tasks(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_looks, "_FEW_FILES", 2)
    workbench.assets(
        s="CREATE SOURCE s (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) "
        "WITH (connector = 'filesystem', path = 'input') FORMAT PLAIN ENCODE PARQUET"
    )
    folder = workbench.root / "input"
    folder.mkdir()
    time = pa.array([datetime(2026, 1, 1)], pa.timestamp("us"))
    for number in range(6):
        pq.write_table(
            pa.table({"id": pa.array([number], pa.int32()), "ts": time}), folder / f"{number}.parquet"
        )
    odd = folder / "odd {1}.parquet"
    pq.write_table(pa.table({"ts": time}), odd)
    with pytest.raises(TidegateError) as caught:
        workbench.session().run()
    assert caught.value.code == "TG504"
    assert 'the file odd {1}.parquet has no column "id"' in str(caught.value)
    odd.write_bytes(b"nothing")
    with pytest.raises(TidegateError) as caught:
        workbench.session().run()
    assert caught.value.code == "TG513"
    assert "odd {1}.parquet is not a Parquet file" in str(caught.value)
    odd.unlink()
    session = workbench.session()
    session.run()
    assert session.table("s").count() == 6
