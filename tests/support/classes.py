"""`make test` begins with this: a short run that ends in order, and so leaves an archive of its JVM's classes.

All Sparks of the tests start from it, whatever their work (`class_archive.Purpose`). Those that are killed, and live
workers, would never leave one themselves, pytest's own only when everything is over, and others would each make theirs:
a start costs 20 CPU seconds more without. Archives themselves are tested in tests/jvm/test_class_archive.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import CLASSES
from tests.support.quick import quick
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.jvm.class_archive import _identity, _is_whole
from tidegate.jvm.packages import ICEBERG_PACKAGE, USUAL_PACKAGES, cached_jars, spark_jars
from tidegate.jvm.spark import start
from tidegate.project import Project
from tidegate.project.java import find_java
from tidegate.session.session import Session
from tidegate.sql.options.option_types import ConnectorOptions

SQL = """
CREATE TABLE a (k INT, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE TABLE b (k INT PRIMARY KEY, v INT);
CREATE SOURCE s (k INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
    WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;
CREATE MATERIALIZED VIEW m AS SELECT window_start, k, count(*) AS n FROM TUMBLE(a, ts, INTERVAL '1 minute')
    GROUP BY window_start, k EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW visits AS SELECT window_start, window_end, sum(n) AS n
    FROM SESSION(m, window_start, INTERVAL '5 minutes') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW o AS SELECT a.k, a.ts, b.v, lag(a.v) OVER (PARTITION BY a.k ORDER BY a.ts) AS before
    FROM a JOIN b ON a.k = b.k EMIT ON WINDOW CLOSE;
CREATE SINK f FROM m WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
INSERT INTO b VALUES (1, 1);
INSERT INTO a VALUES (1, 1, '2026-01-01 00:00:00'), (1, 2, '2026-01-01 00:09:00');
FLUSH;
"""


def archive(work: str = "") -> Path | None:
    """Where Spark looks for that of some work; None where its jars are not on this machine yet."""
    jars = cached_jars([ICEBERG_PACKAGE, *USUAL_PACKAGES])
    if jars is None:
        return None
    return CLASSES / f"{_identity(find_java(), [*map(Path, jars), *spark_jars()], work)}.jsa"


def connectors(kind: type = ConnectorOptions) -> Iterator[str]:
    """The names of which those of a project are its work (`session.purpose`)."""
    for one in kind.__subclasses__():
        yield one.__name__
        yield from connectors(one)


def run(root: Path) -> None:
    """A bit of everything."""
    quick(root)
    (root / "assets").mkdir()
    (root / "in").mkdir()
    (root / "in" / "1.json").write_text('{"k": 1, "ts": "2026-01-01 00:00:00"}\n')
    project = Project.load(root)
    session = Session.open(project, spark=start(project.env, USUAL_PACKAGES, "classes"))
    session.execute(SQL)
    session.run()
    assert audit_source(session, "a").ok
    assert audit_view(session, "m").ok
    assert len(session.table("m").collect()) == 1


def make() -> None:
    """The archive, unless it is there, under the names of all work."""
    if not ((found := archive()) and _is_whole(found)):
        shutil.rmtree(CLASSES, ignore_errors=True)
        # A first run on a machine only brings the jars there.
        for _ in range(1 if found else 2):
            environ = os.environ | {"TIDEGATE_CLASS_ARCHIVES": str(CLASSES)}
            if subprocess.run(
                [sys.executable, "-m", "tests.support.classes", "run"], env=environ, check=False
            ).returncode:
                return  # nothing depends on it
        # The JVM writes it when Python is gone: in half a minute, beside much other work in three.
        deadline = time.monotonic() + 300
        while not ((found := archive()) and _is_whole(found)):
            if time.monotonic() > deadline:
                return
            time.sleep(0.2)
    names = sorted(set(connectors()))
    for work in (" ".join(some) for n in (1, 2, 3) for some in combinations(names, n)):
        if (other := archive(work)) and not other.exists():
            os.link(found, other)


if __name__ == "__main__":
    if sys.argv[1:] == ["run"]:
        with TemporaryDirectory() as folder:
            run(Path(folder) / "project")
    else:
        make()
