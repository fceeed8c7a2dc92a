"""A warehouse on S3 with a JDBC catalog gives what a local disk gives, and a second run goes on from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyarrow.fs import FileSelector
from pyiceberg.catalog import load_catalog

from tests.conftest import ROOT, Workbench
from tests.store.tables import PROGRESS, progress_row
from tests.support.faulty_http import (
    Answer,
    Asked,
    FaultyHttp,
    Forward,
    lose_answer,
    lose_request,
    refuse_key,
    s3_error,
    truncate,
)
from tests.support.s3 import bucket, storage_on
from tests.support.s3 import s3 as s3
from tests.support.s3 import s3_server as s3_server
from tests.support.s3 import store as store
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.storage import CATALOG
from tidegate.store.metadata import load_table, read_progress
from tidegate.testing.runner import QUICK

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.session.session import Session

SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, kwh DOUBLE, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds')
WITH (connector = 'filesystem', path = 'input', partition.columns = 'meter', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;

CREATE SOURCE bills (id INT, meter VARCHAR, cents INT, ts TIMESTAMP,
    WATERMARK FOR ts AS ts - INTERVAL '20 seconds')
WITH (connector = 'filesystem', path = '{bills}', partition.columns = 'meter')
FORMAT PLAIN ENCODE CSV;

CREATE MATERIALIZED VIEW per_minute AS
SELECT window_start, meter, count(*) AS n, sum(kwh) AS total FROM TUMBLE(readings, ts, INTERVAL '1 minute')
GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE SINK to_files FROM per_minute
WITH (connector = 'filesystem', path = '{out}') FORMAT PLAIN ENCODE CSV (without_header = true);
"""
FILES, ROWS_PER_FILE = 1, 90
LATER = [{"id": 999, "meter": meter, "kwh": 1.0, "ts": "2026-01-01 01:00:00"} for meter in "ab"]

SCRIPT = """
import json, tidegate
from tests.iceberg.test_object_store import LATER, facts
session = tidegate.connect(project=".", env="lake")
session.run()
put = session.runner.conditions(session.project.storage)
first = put("lake/condition", b"1", None)
second = put("lake/condition", b"2", first)
# By an answer that was lost the client would ask again; and by another version nothing is put.
again = put("lake/condition", b"2", first) == second, put("lake/condition", b"2", None) == second
refused = put("lake/condition", b"3", first), put("lake/condition", b"4", None)
print("PUT", json.dumps([bool(first), bool(second), *again, *refused]))
print("FIRST", json.dumps(facts(session), default=str))
with open("input/999.json", "w") as file:
    file.writelines(json.dumps(row) + chr(10) for row in LATER)
print("EPOCHS", sum(source.epochs for source in session.run().sources))
print("SECOND", json.dumps(facts(session), default=str))
"""


def facts(session: Session) -> dict[str, list]:
    """Every row with its judgement, the view, and what the sink has delivered."""
    out: dict[str, list] = {}
    for name in ("readings", "bills"):
        raw = session.table(f"{name}$raw").select(
            "partition", "offset", "ts", "outcome", "watermark", "reason"
        )
        out[name] = sorted(map(tuple, raw.collect()), key=str)
    out["per_minute"] = sorted(map(tuple, session.table("per_minute").collect()), key=str)
    (sink,) = session.catalog.sinks
    filesystem, folder = session.project.storage.filesystem(sink.place)
    files = [f.path for f in filesystem.get_file_info(FileSelector(folder)) if f.path.endswith(".csv")]
    texts = [filesystem.open_input_stream(path).read().decode() for path in files]
    out["to_files"] = sorted(line for text in texts for line in text.splitlines())
    return out


def demo(workbench: Workbench, bills: str, out: str) -> Workbench:
    workbench.assets(all=SQL.replace("{bills}", bills).replace("{out}", out))
    for file in range(FILES):
        rows = []
        for i in range(ROWS_PER_FILE):
            n = file * ROWS_PER_FILE + i
            second = n * 3 - (90 if n % 13 == 0 else 0)
            ts = f"2026-01-01 00:{second // 60 % 60:02d}:{second % 60:02d}" if second >= 0 else None
            rows.append({"id": n, "meter": "ab"[n % 2], "kwh": n / 8, "ts": ts})
        workbench.json_lines(f"input/{file:03d}.json", rows)
    return workbench


def bills() -> bytes:
    lines = [f"{n},{'ab'[n % 2]},{n * 7},2026-01-01 00:{n // 20:02d}:{n * 3 % 60:02d}" for n in range(100)]
    return "\n".join(["id,meter,cents,ts", *lines, "oh,no,not,a row", ""]).encode()


def environment(root: Path, store: str, monkeypatch: pytest.MonkeyPatch, keys: bool = True) -> Project:
    """The project in `root` with a bucket `lake` of its own, a catalog in SQLite, and secrets from the environment.
    `keys`: else those of Amazon's default chain."""
    monkeypatch.setenv("LAKE_KEY", "key-visible")
    monkeypatch.setenv("LAKE_SECRET", "secret-visible")
    settings = {
        "spark": {"master": "local[2]", "conf": {**QUICK, "spark.driver.memory": "1g"}},
        "allow": {"folders": [".", "s3://lake/bills", "s3://lake/out"]},
        "warehouse": {
            "path": "s3://lake/tidegate",
            "catalog": {"type": "jdbc", "uri": f"jdbc:sqlite:{root}/catalog.db"},
            "storage": {
                "endpoint": store,
                "region": "us-east-1",
                "access_key_id": "${LAKE_KEY}",
                "secret_access_key": "${LAKE_SECRET}",
                "path_style": True,
            },
        },
    }
    if not keys:
        del (
            settings["warehouse"]["storage"]["access_key_id"],
            settings["warehouse"]["storage"]["secret_access_key"],
        )
    for folder in ("resources", "assets"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "resources" / "lake.yaml").write_text(yaml.safe_dump(settings))
    project = Project.load(root, "lake")
    if keys:
        bucket(project.storage, "lake")
    return project


@pytest.mark.medium
def test_a_table_on_s3_and_its_progress_are_read_without_a_jvm(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = environment(tmp_path, store, monkeypatch).storage
    # Before the first run the catalog has no tables of its own yet.
    assert load_table(storage, "readings") is None
    rows = [
        progress_row("b", watermark=7, next_offset=3, on_time=3),
        progress_row("a", watermark=9, next_offset=2, on_time=1, late=1),
        progress_row(None, watermark=7, published=7, on_time=4, late=1),
    ]
    data = pa.Table.from_pylist(
        rows,
        pa.schema([("_outcome", pa.string()), ("_source_partition", pa.string()), ("_progress", PROGRESS)]),
    )
    filesystem, path = storage.filesystem("s3://lake/tidegate/main/readings/data/progress-1.parquet")
    pq.write_table(data, path, filesystem=filesystem)
    catalog = load_catalog(CATALOG, **(storage.pyiceberg_properties() | {"init_catalog_tables": "true"}))
    catalog.create_namespace("main")
    table = catalog.create_table(("main", "readings"), data.schema)
    noted = {"tidegate.epoch": "1", "tidegate.watermark": "7", "tidegate.progress": f"s3://{path}"}
    table.append(data, snapshot_properties=noted)

    state = load_table(storage, "readings")
    assert state is not None
    assert state.location == "s3://lake/tidegate/main/readings"
    assert (state.integer("tidegate.epoch"), state.integer("tidegate.watermark")) == (1, 7)
    found = [(p.partition, p.watermark, p.on_time, p.late) for p in read_progress(storage, state)]
    assert found == [("a", 9, 1, 1), ("b", 7, 3, 0), (None, 7, 4, 1)]
    assert load_table(storage, "bills") is None


def test_an_object_store_that_does_not_answer_is_an_error_with_a_hint(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(tmp_path, store, monkeypatch)
    settings = yaml.safe_load((tmp_path / "resources" / "lake.yaml").read_text())
    settings["warehouse"]["catalog"] = {"type": "rest", "uri": "http://127.0.0.1:1/nobody"}
    (tmp_path / "resources" / "lake.yaml").write_text(yaml.safe_dump(settings))
    with pytest.raises(TidegateError) as caught:
        load_table(Project.load(tmp_path, "lake").storage, "readings")
    assert caught.value.code == "TG620"
    assert "the rest catalog does not answer" in str(caught.value)
    assert "visible" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.long_run
def test_a_warehouse_on_s3_that_fails_gives_the_same_and_needs_no_jvm_to_tell(
    s3: FaultyHttp, new_workbench: Callable[[], Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are refused for now, answers get lost or are cut: each is repeated, and nothing is lost or twice."""
    bench = demo(new_workbench(), "s3://lake/bills", "s3://lake/out")
    filesystem, _ = environment(bench.root, s3.url, monkeypatch).storage.filesystem()
    with filesystem.open_output_stream("lake/bills/a b.csv") as file:
        file.write(bills())

    slow = s3_error(503, "SlowDown")
    faults = [
        s3.fail(method, "lake/tidegate", act, 1, skip)
        for method, acts in (("GET", (truncate(90), slow, lose_request)), ("PUT", (slow, lose_answer)))
        for skip, act in zip(range(4, 40, 5), cycle(acts), strict=False)
    ]
    done = run([sys.executable, "-c", SCRIPT], bench.root)
    got = dict(
        line.split(" ", 1)
        for line in done.splitlines()
        if line.startswith(("PUT", "FIRST", "EPOCHS", "SECOND"))
    )

    assert sum(fault.met for fault in faults) > 8
    assert json.loads(got["PUT"]) == [True, True, True, True, None, None]
    (local_bills := bench.root.parent / "bills").mkdir()
    (local_bills / "a b.csv").write_bytes(bills())
    alone = demo(new_workbench(), str(local_bills), "out").allow(folders=[".", str(local_bills)])
    session = alone.session()
    session.run()
    assert json.loads(got["FIRST"]) == json.loads(json.dumps(facts(session), default=str))
    assert {row[3] for row in facts(session)["readings"]} == {"on_time", "late", "rejected"}
    # What is stored is found again: the second run reads the new file and nothing else.
    alone.json_lines("input/999.json", LATER)
    session.run()
    assert got["EPOCHS"] == "1"
    assert json.loads(got["SECOND"]) == json.loads(json.dumps(facts(session), default=str))
    assert len(json.loads(got["SECOND"])["per_minute"]) > len(json.loads(got["FIRST"])["per_minute"])

    # Nobody has put an object in the place of a folder.
    assert [target for target in s3.targets("PUT") if target.partition("?")[0].endswith("/")] == []
    assert [found.path for found in filesystem.get_file_info(FileSelector("lake/out/_tidegate"))] == [
        "lake/out/_tidegate/position.json"
    ]
    # Nothing of it is on the local disk, and `status` finds it without Java.
    assert not (bench.root / ".tidegate" / "warehouse").exists()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    status = run([sys.executable, "-m", "tidegate.cli.main", "status", "--env", "lake", "--json"], bench.root)
    assert "visible" not in done + status
    shown = {relation["name"]: relation for relation in json.loads(status)["relations"]}
    assert shown.keys() == {"readings", "bills"}
    for name, relation in shown.items():
        totals = [relation[outcome] for outcome in ("on_time", "late", "rejected")]
        assert sum(totals) == len(json.loads(got["SECOND"])[name])
        assert {"a", "b"} <= {p["partition"] for p in relation["partitions"]}


GIVES = """#!{python}
import json, time
ends = int(time.time()) + 20
expiration = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
key = dict(AccessKeyId=f"KEY{{ends}}", SecretAccessKey="s", SessionToken="t")
print(json.dumps(key | dict(Version=1, Expiration=expiration)))
"""
RENEWED = (
    SCRIPT.replace("with open(", "import time; time.sleep(25)\nwith open(")
    + """
from pathlib import Path
with open("input/a.json", "w") as file:
    file.writelines(json.dumps(row | {"ts": "2026-01-01 02:00:00"}) + chr(10) for row in LATER)
for after in (3, 12, 25):
    Path("refuse").write_text(str(after))
    try:
        session.run()
        print("CODE none")
    except tidegate.TidegateError as error:
        print("CODE", error.code, error.message)
    Path("refuse").unlink()
session.run()
rows, lines = session.table("readings$raw").count(), len(facts(session)["to_files"])
print("LAST", rows, lines, session.table("per_minute").count())
"""
)


@pytest.mark.slow
@pytest.mark.long_run
def test_credentials_that_expire_in_the_middle_of_a_run_are_renewed_by_all_who_ask_s3(
    s3: FaultyHttp, new_workbench: Callable[[], Workbench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a profile's `credential_process`, whose keys live for 20 seconds; the server refuses them afterwards."""
    bench = demo(new_workbench(), "s3://lake/bills", "s3://lake/out")
    filesystem, _ = storage_on(s3.url).filesystem()
    with filesystem.open_output_stream("lake/bills/a b.csv") as file:
        file.write(bills())
    (gives := bench.root / "gives").write_text(GIVES.format(python=sys.executable))
    gives.chmod(0o700)
    (bench.root / "profile").write_text(f"[default]\ncredential_process = {gives}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(bench.root / "profile"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(bench.root / "nothing"))
    environment(bench.root, s3.url, monkeypatch, keys=False)

    refuse, passed = bench.root / "refuse", []

    def expiring(asked: Asked, forward: Forward) -> Answer | None:
        """Refuses old keys; and every key after so many requests, while the script wants it."""
        passed.append(asked) if refuse.exists() else passed.clear()
        if passed and len(passed) > int(refuse.read_text() or 0):
            return refuse_key(asked.key)(asked, forward)
        ends = int(asked.key.removeprefix("KEY"))
        # A client takes a key as good until it ends, and its request may arrive a moment later.
        return forward(asked) if time.time() <= ends + 2 else refuse_key(asked.key)(asked, forward)

    s3.seen.clear()
    s3.fail("*", "", expiring, None)
    done = run([sys.executable, "-c", RENEWED], bench.root)
    assert "EPOCHS 1" in done
    codes = [line.split(" ", 2)[1:] for line in done.splitlines() if line.startswith("CODE")]
    assert codes[0][0] == "TG624"
    assert {code for code, *_ in codes} <= {"TG624", "none"}, codes
    # Nothing of the file is lost, or twice, and all windows that it has closed are delivered.
    last = next(line.split() for line in done.splitlines() if line.startswith("LAST"))
    assert last[1:] == [str(FILES * ROWS_PER_FILE + 2 * len(LATER)), last[3], last[3]]
    for library in ("aws-sdk-java", "aws-sdk-cpp"):
        keys = {asked.key for asked in s3.seen if library in asked.headers["user-agent"]}
        assert len(keys) >= 2, library


def run(command: list[str], root: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")} | {
        "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}"
    }
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout
