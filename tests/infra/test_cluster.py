"""A standalone cluster of real processes: the shipped `resources/cluster.yaml` gives what a local run gives."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.conftest import ROOT, Workbench
from tests.support.environments import without_tidegate
from tidegate.errors import TidegateError
from tidegate.jvm.class_archive import ANY_PURPOSE
from tidegate.jvm.packages import jar_settings
from tidegate.jvm.spark import start
from tidegate.project import Environment
from tidegate.project.storage import S3A_PACKAGES
from tidegate.session.session import Session
from tidegate.testing.runner import QUICK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tests.support.kafka import Broker

CLUSTER = ROOT / "infra" / "cluster.py"

SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, kwh DOUBLE, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds')
WITH (connector = 'filesystem', path = 'input', partition.columns = 'meter', max_files_per_batch = '2')
FORMAT PLAIN ENCODE JSON;

CREATE SOURCE orders (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '20 seconds')
WITH (connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{servers}', idle_timeout = 'off')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, meter, count(*) AS n, sum(kwh) AS total FROM TUMBLE(readings, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE SINK to_files FROM per_minute
WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE CSV (without_header = true);
"""
#: What `make property` asks for, too.
MORE = """
CREATE TABLE newest (meter VARCHAR, kwh DOUBLE, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds' WITH TTL, PRIMARY KEY (meter))
WITH (connector = 'filesystem', path = 'input', partition.columns = 'meter', max_files_per_batch = '4')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW ordered AS
SELECT window_start, count(*) AS n, sum(id) AS ids FROM TUMBLE(orders, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;

CREATE MATERIALIZED VIEW steps AS
SELECT ts, meter, id, lag(id) OVER w AS before, count(*) OVER w AS nth
FROM readings WINDOW w AS (PARTITION BY meter ORDER BY ts) EMIT ON WINDOW CLOSE;

CREATE SINK to_lake FROM per_minute WITH (connector = 'iceberg');
"""
FILES, ROWS_PER_FILE = 4, 90
ON_EXECUTORS = {"spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"]}


def project(workbench: Workbench, topic: str, servers: str, more: str) -> Workbench:
    """Two meters, each a partition of the source; late, rejected and on-time rows of both."""
    workbench.assets(readings=SQL.replace("{topic}", topic).replace("{servers}", servers) + more)
    rows = readings()
    for file in range(FILES):
        workbench.json_lines(
            f"input/{file:03d}.json", rows[file * ROWS_PER_FILE : (file + 1) * ROWS_PER_FILE]
        )
    return workbench


def readings() -> list[dict[str, Any]]:
    rng, rows = random.Random(11), []
    for n in range(FILES * ROWS_PER_FILE):
        second = n * 2 + (120 if n > 200 else 0) - rng.choice([0, 0, 5, 30, 90])
        ts = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_767_225_600 + max(second, 0)))
        rows.append({"id": n, "meter": rng.choice("ab"), "kwh": n / 8, "ts": ts if n % 97 else None})
    return rows


def orders(kafka: Broker) -> str:
    """A topic with the readings in two partitions, with a message that is no JSON; its name."""
    topic = kafka.topic("orders", partitions=2)
    messages = [
        ("ab".index(r["meter"]), None, json.dumps({"id": r["id"], "ts": r["ts"]}), None) for r in readings()
    ]
    kafka.send(topic, [*messages, (0, None, '{"id": 1, ', None)])
    return topic


def facts(session: Session) -> dict[str, list]:
    """All that the two runs must agree on: every row with its judgement, tables, views and sinks."""
    out: dict[str, list] = {}
    catalog = session.catalog
    for name in [relation.name for relation in catalog.relations]:
        raw = session.table(f"{name}$raw").select(
            "partition", "offset", "ts", "outcome", "watermark", "reason"
        )
        out[f"{name}$raw"] = sorted(map(tuple, raw.collect()), key=str)
        marks = session.table(f"{name}$watermarks").select(
            "partition", "watermark", "on_time", "late", "rejected"
        )
        out[f"{name}$watermarks"] = sorted(map(tuple, marks.collect()), key=str)
    for name in [name for name in ("newest", "per_minute", "ordered", "steps") if name in catalog]:
        out[name] = sorted(map(tuple, session.table(name).collect()), key=str)
    files = sorted(path for path in (session.project.root / "out").iterdir() if path.is_file())
    out["to_files"] = sorted(line for path in files for line in path.read_text().splitlines())
    if "steps" in catalog:
        out["to_lake"] = sorted(map(tuple, session.tables.rows("tidegate.main.to_lake").collect()), key=str)
    return out


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def control(
    action: str, folder: Path, ports: tuple[int, int], workers: int
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CLUSTER), action, "--port", str(ports[0]), "--ui-port", str(ports[1])]
    command += ["--dir", str(folder), "--workers", str(workers), "--cores", "1", "--memory", "1g"]
    environment = os.environ | {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=180
    )


@pytest.fixture
def workers(more: str) -> int:
    """How many the cluster has."""
    return 2 if more else 1


@pytest.fixture
def cluster(tmp_path: Path, workers: int) -> Iterator[tuple[str, Path]]:
    """URL of the master of a running cluster, and its folder."""
    folder, ports = tmp_path / "cluster", (free_port(), free_port())
    services = ", ".join(["master", *(f"worker-{n + 1}" for n in range(workers))])
    started = control("start", folder, ports, workers)
    try:
        assert started.returncode == 0, started.stderr
        again = control("start", folder, ports, workers)
        assert again.returncode == 1
        assert f"it runs already ({services})" in again.stderr
        yield f"spark://127.0.0.1:{ports[0]}", folder
    finally:
        stopped = control("stop", folder, ports, workers)
    assert stopped.stdout == f"stopped {services}\n"
    assert not list(folder.glob("*.pid"))
    assert (
        str(folder) not in subprocess.run(["ps", "-eo", "args", "-ww"], capture_output=True, text=True).stdout
    )
    assert control("status", folder, ports, workers).returncode == 1


@pytest.mark.long_run
@pytest.mark.slow
@pytest.mark.parametrize("more", ["", MORE], ids=["some", "all"])
def test_a_standalone_cluster_gives_the_same_and_needs_no_installation(
    cluster: tuple[str, Path],
    kafka: Broker,
    new_workbench: Callable[[], Workbench],
    tmp_path: Path,
    spark: SparkSession,
    more: str,
    workers: int,
) -> None:
    master, folder = cluster
    topic = orders(kafka)
    alone = project(new_workbench(), topic, kafka.bootstrap, more).session()
    alone.run()
    wanted = facts(alone)

    bench = project(new_workbench(), topic, kafka.bootstrap, more)
    python = without_tidegate(tmp_path / "executors")
    bare = subprocess.run(
        [str(python), "-c", "import tidegate"], capture_output=True, check=False, cwd=tmp_path
    )
    assert bare.returncode != 0
    settings = yaml.safe_load((ROOT / "resources" / "cluster.yaml").read_text())
    settings["spark"]["master"] = master
    settings["spark"]["conf"]["spark.pyspark.python"] = str(python)
    settings["spark"]["conf"] |= QUICK | ON_EXECUTORS | {"spark.executor.memory": "512m"}
    (bench.root / "resources").mkdir()
    (bench.root / "resources" / "cluster.yaml").write_text(yaml.safe_dump(settings))

    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "PYTHONPATH"))}
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", "run", "--env", "cluster"],
        cwd=bench.root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Each worker had an executor of this application, whose logs are there.
    executors = sorted(path.name for path in (folder / "work").glob("app-*/*") if path.is_dir())
    assert {str(n) for n in range(workers)} <= set(executors)

    got = facts(Session.open(project=bench.root, env="cluster", spark=spark))
    assert len(got["readings$raw"]) == FILES * ROWS_PER_FILE
    assert len(got["orders$raw"]) == FILES * ROWS_PER_FILE + 1
    for name in ("readings", "orders"):
        assert {row[3] for row in got[f"{name}$raw"]} == {"on_time", "late", "rejected"}
    assert all(wanted.values())
    assert got == wanted


def test_a_master_that_is_not_there_is_an_error_at_once() -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    environment = Environment.model_validate({"spark": {"master": master}})
    with pytest.raises(TidegateError) as caught:
        start(environment, [], "nobody")
    assert caught.value.code == "TG514"
    assert f"the Spark master {master} does not answer" in str(caught.value)
    assert "make cluster" in str(caught.value.hint)


def test_jars_of_an_environment_are_added_to_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_JARS", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there-1.0.jar").touch()
    given = {"spark.jars": "/own.jar", "spark.jars.packages": "their:own:3"}
    found = jar_settings(["a.b:there:1.0", "a.b:missing:2.0"], given, local=False, purpose=ANY_PURPOSE)
    assert found["spark.jars"] == f"{tmp_path}/there-1.0.jar,/own.jar"
    assert found["spark.jars.packages"] == "a.b:missing:2.0,their:own:3"
    assert "spark.jars.excludes" not in found
    # What Iceberg's bundle has already is not fetched a second time: 600 MB.
    excluded = jar_settings(S3A_PACKAGES, given, local=False, purpose=ANY_PURPOSE)["spark.jars.excludes"]
    assert "software.amazon.awssdk:bundle" in excluded
    there = f"{tmp_path}/there-1.0.jar"
    assert jar_settings(["a.b:there:1.0"], {}, local=False, purpose=ANY_PURPOSE) == {"spark.jars": there}


@pytest.mark.jvm
def test_on_local_spark_jars_are_on_the_class_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_JARS", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_CLASS_ARCHIVES", str(tmp_path / "archives"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there-1.0.jar").touch()
    given = {
        "spark.jars": "/own.jar",
        "spark.driver.extraClassPath": "/theirs.jar",
        "spark.driver.defaultJavaOptions": "-Done=1",
    }
    found = jar_settings(["a.b:there:1.0"], given, local=True, purpose=ANY_PURPOSE)
    assert found["spark.driver.extraClassPath"] == f"{tmp_path}/there-1.0.jar:/theirs.jar"
    assert "spark.jars" not in found, "theirs stays as it is"
    options = found["spark.driver.defaultJavaOptions"].split()
    assert options[-1] == "-Done=1"
    assert any(option.startswith(f"-XX:ArchiveClassesAtExit={tmp_path}/archives/") for option in options)
    # What has to be resolved first is nobody's class path yet.
    assert "spark.driver.defaultJavaOptions" not in jar_settings(
        ["a.b:no:1"], {}, local=True, purpose=ANY_PURPOSE
    )
