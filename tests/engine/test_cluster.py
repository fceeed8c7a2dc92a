"""Executors in processes of their own, without tidegate installed: the package reaches them, results are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT, Workbench
from tests.engine.test_kill import FILES, ROWS_PER_FILE, facts, project
from tests.environments import without_tidegate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCRIPT = """
import json, sys, tidegate
from tests.engine.test_kill import facts
session = tidegate.connect(project=sys.argv[1], env="cluster")
session.run()

def probe(batches):
    import pyarrow, tidegate
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"path": [tidegate.__file__] * batch.num_rows})

found = session.spark.range(2, numPartitions=2).mapInArrow(probe, "path string")
print("PATHS", json.dumps(sorted({row[0] for row in found.collect()})))
print("FACTS", json.dumps(facts(session), default=str))
"""


@pytest.mark.slow
def test_a_cluster_gives_the_same_and_needs_no_installation(
    new_workbench: Callable[[], Workbench], tmp_path: Path
) -> None:
    alone = project(new_workbench())
    session = alone.session()
    session.run()

    bench = project(new_workbench())
    python = without_tidegate(tmp_path / "executors")
    bare = subprocess.run(
        [str(python), "-c", "import tidegate"], capture_output=True, check=False, cwd=tmp_path
    )
    assert bare.returncode != 0
    (bench.root / "resources").mkdir()
    (bench.root / "resources" / "cluster.yaml").write_text(
        "spark:\n  master: local-cluster[2,1,1024]\n  conf:\n"
        f"    spark.pyspark.python: {python}\n    spark.pyspark.driver.python: {sys.executable}\n"
        "    spark.sql.shuffle.partitions: '2'\n    spark.ui.enabled: 'false'\n"
        "    spark.driver.host: 127.0.0.1\n    spark.driver.bindAddress: 127.0.0.1\n"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(bench.root)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers = dict(
        line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("PATHS", "FACTS"))
    )
    # Where the executors found the package: in what Spark brought them.
    assert all("tidegate.zip" in path for path in json.loads(answers["PATHS"]))
    got = json.loads(answers["FACTS"])
    assert len(got["raw"]) == FILES * ROWS_PER_FILE
    assert got == json.loads(json.dumps(facts(session), default=str))
