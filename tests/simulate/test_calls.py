"""Every I/O goes through a port that the simulator can fail at; what does not stands here, with its reason."""

from __future__ import annotations

import pytest

from tests.simulate.world.calls import PACKAGE, ROOMS, calls, outside

#: By reason: the files, and their calls.
REVIEWED: dict[str, dict[str, str]] = {
    "The Spark side of a port: iceberg/tables.py and upkeep, runtime/topics.py. Iceberg's Java and "
    "Kafka's client are on the other side; the conformance suites hold the models to them.": {
        "iceberg/conditions.py": "tidegate.jvm.java.java_class",
        "iceberg/table_change.py": "tidegate.jvm.java.java_class",
        "iceberg/commit.py": "_jvm tidegate.jvm.java.java_class ….exists",
        "iceberg/own_metadata.py": "tidegate.jvm.java.java_class",
        "iceberg/planned.py": "_jvm tidegate.jvm.java.java_class",
        "iceberg/statement.py": "_jvm tidegate.jvm.java.java_class uuid.uuid4 ….exists",
        "iceberg/table_commit.py": "_jvm tidegate.jvm.java.java_class",
        "iceberg/tables.py": "….read.option",
        "iceberg/upkeep_table.py": "_jvm tidegate.jvm.java.java_class",
        "iceberg/versions/swap.py": "_jvm tidegate.jvm.java.java_class",
        "jvm/conditional.py": "_jvm tidegate.jvm.java.java_class",
        "runtime/kafka_jobs.py": "_jdf _jsc _jvm tidegate.jvm.java.java_class uuid.uuid4",
        "runtime/kafka_broker.py": "_jvm tidegate.jvm.java.java_class time.sleep",
        "runtime/kafka_topics.py": "….read.format ….write.format",
        "sinks/iceberg.py": "_jvm ….writeTo",
    },
    "The side of a port that reaches the outside: Storage.filesystem, Runner.clock, Runner.lease.": {
        "project/object_store.py": "time.sleep uuid.uuid4",
        "s3_files.py": "time.sleep ….open_input_file ….delete_file ….delete_dir ….move",
        "project/storage.py": "pyarrow.fs.LocalFileSystem ….expanduser ….read_bytes",
        "runtime/lease.py": "datetime.datetime.now fcntl.flock open os.getpid socket.gethostname ….read_text",
        "runtime/runner.py": "datetime.datetime.now",
    },
    "How long something took: it is told, and decides nothing.": {
        "ingest/ingest.py": "time.monotonic",
        "maintenance/upkeep.py": "time.monotonic",
        "session/run.py": "time.monotonic",
        "session/up_to_date.py": "time.monotonic",
        "sinks/deliver.py": "time.monotonic",
        "views/amend/amend.py": "time.monotonic",
        "views/amend/at_time.py": "time.monotonic",
        "views/amend/promote.py": "time.monotonic",
        "views/amend/rebuild.py": "time.monotonic",
        "views/amend/rollback.py": "time.monotonic",
        "views/view_table.py": "time.monotonic",
    },
    "The name of a new file, which nobody has used; the simulator gives it by its seed.": {
        "iceberg/data_files.py": "uuid.uuid4",
        "ingest/erased.py": "uuid.uuid4",
        "iceberg/retire.py": "uuid.uuid4",
        "sinks/filewriter.py": "uuid.uuid4",
        "sinks/statefile.py": "uuid.uuid4",
        "store/places.py": "uuid.uuid4",
        "tasks/memories.py": "uuid.uuid4",
        "views/revisions/erased_windows.py": "uuid.uuid4",
        "tasks/writer.py": "uuid.uuid4",
    },
    "Of a file that the port has opened, or of bytes in memory.": {
        "audit/memory_files.py": "pyarrow.parquet.ParquetFile",
        "audit/stored_files.py": "pyarrow.parquet.read_metadata ….glob",
        "iceberg/data_files.py": "pyarrow.parquet.ParquetFile",
        "sinks/filewriter.py": "pyarrow.parquet.ParquetWriter",
        "tasks/crashes/parquet_crashes.py": "pyarrow.parquet.ParquetFile pyarrow.parquet.write_table",
        "tasks/decode/text/decoders.py": "pyarrow.csv.read_csv pyarrow.json.read_json",
    },
    "Only has to be greater than what stands in the same commit, or stands on record and decides nothing.": {
        "plan/resets.py": "time.time_ns",
        "maintenance/erase.py": "time.monotonic uuid.uuid4",
        "maintenance/erasing.py": "os.getuid",
        "runtime/owners.py": "datetime.datetime.now",
        "session/live.py": "os.getpid random.Random",
    },
    "How long a registry that is not needed is not asked again: what it says of new fields is shown only.": {
        "ingest/sources/message_fields.py": "time.monotonic",
    },
    "A copy for people, outside of the warehouse: `tidegate verify` checks it, and tests make real ones.": {
        "audit/backup.py": "pyarrow.fs.LocalFileSystem shutil.rmtree time.time ….exists ….glob ….is_dir ….iterdir "
        "….lstat ….read_bytes ….resolve ….unlink",
        "audit/backup_place.py": "fcntl.flock open os.link os.listdir os.path.lexists os.rmdir os.stat os.sync os.walk "
        "shutil.copy2 shutil.copystat shutil.rmtree ….exists ….is_file ….is_symlink ….rename ….resolve ….stat "
        "….unlink ….write_bytes",
    },
    "How long live mode leaves a view to the builder of its next version; a tick of the simulator's is never faster.": {
        "views/versions/finish.py": "time.monotonic",
    },
    "A statement in the shell asks a real process of live mode, and waits for it.": {
        "evolve/beside_live.py": "time.monotonic time.sleep ….read_bytes",
        "store/writers.py": "time.monotonic time.sleep time.time ….is_file",
    },
    "A folder of the machine that runs the engine: which links lead where (X1). Object stores have none.": {
        "ingest/sources/files.py": "os.path.realpath os.scandir ….is_dir ….is_symlink",
        "project/reach.py": "os.path.realpath ….expanduser",
        "runtime/borrowed.py": "os.path.realpath",
    },
    "A recording is made ready once, before the first batch; it is for demonstrations.": {
        "ingest/sources/files.py": "….is_file ….touch",
        "ingest/sources/replay.py": "….read.schema ….write.mode",
    },
    "Reads the project's definitions when it is opened, before anything is asked of the outside.": {
        "project/disk.py": "tempfile.TemporaryFile tempfile.gettempdir time.time uuid.uuid4 ….exists ….glob ….mkdir "
        "….replace ….stat ….touch ….unlink ….write_bytes",
        "project/expectations.py": "….glob ….read_text",
        "project/folder.py": "os.path.abspath ….expanduser ….glob ….is_dir",
        "project/java.py": "shutil.which subprocess.run",
        "project/jobs/amendments.py": "….is_file",
        "project/jobs/jobs.py": "….glob",
        "project/jobs/maintenance.py": "….is_file",
        "project/kept_definitions.py": "os.fdopen os.fstat os.getuid os.open os.path.realpath os.utime ….is_file "
        "….read_bytes ….rglob ….stat",
        "project/lint.py": "….exists ….is_file",
        "project/project.py": "os.getcwd os.path.abspath shutil.rmtree tempfile.mkdtemp ….expanduser "
        "….glob ….is_dir ….is_file ….mkdir ….read_text ….replace ….rglob ….unlink",
        "project/reading/yamlfile.py": "….read_text",
        "project/schemas.py": "tempfile.TemporaryDirectory ….is_file ….read_bytes",
    },
    "The tables of a catalog in SQLite are made before Iceberg opens it; to look into them changes nothing. The model "
    "of the catalog stands for it.": {
        "store/sqlite_catalog.py": "sqlite3.connect ….is_file",
    },
    "Moves a catalog: a command of its own, which no run contains, and which is tested by being repeated.": {
        "maintenance/catalog_move.py": "….glob",
        "project/edit.py": "….exists ….mkdir ….read_text",
    },
    "Starts and watches the JVM, which tests without one do not have.": {
        "jvm/attempts.py": "_jvm tidegate.jvm.java.java_class",
        "jvm/calls.py": "_jvm",
        "jvm/compiled.py": "tidegate.jvm.java.java_class",
        "jvm/endings.py": "_jvm tidegate.jvm.java.java_class",
        "jvm/class_archive.py": "os.access os.path.realpath os.utime time.time ….mkdir ….open ….stat",
        "jvm/core_jobs.py": "_jvm tidegate.jvm.java.java_class",
        "jvm/gathered.py": "_jsc _jvm",
        "jvm/local_files.py": "_jsc _jvm tidegate.jvm.java.java_class",
        "jvm/jars.py": "….open ….read_text ….stat",
        "jvm/packages.py": "….expanduser ….glob ….is_file",
        "jvm/secrecy.py": "_jvm tempfile.TemporaryDirectory tidegate.jvm.java.java_class ….open ….write_text",
        "jvm/spark.py": "_jsc _jvm os.close os.cpu_count os.dup os.dup2 os.write socket.create_connection "
        "tempfile.mkdtemp tidegate.jvm.java.java_class ….is_file ….open ….read_text ….resolve ….rglob",
        "jvm/within.py": "_jsc _jvm tidegate.jvm.java.java_class",
        "jvm/ui_token.py": "os.fdopen os.open secrets.token_bytes ….mkdir ….unlink",
    },
    "The supervisor's shell: processes, logs, the page of metrics. What follows from them is live/schedule.py, which "
    "the simulator steps itself.": {
        "live/catalog_lease.py": "datetime.datetime.now os.getpid socket.gethostname time.sleep uuid.uuid4",
        "live/http.py": "socket.getaddrinfo time.monotonic ….read_text",
        "live/logs.py": "datetime.datetime.now",
        "live/metrics.py": "datetime.datetime.now",
        "live/reloading.py": "time.monotonic",
        "live/screen.py": "time.monotonic",
        "live/process.py": "os.killpg os.sysconf subprocess.Popen ….iterdir ….read_text",
    },
    "Leases of live mode in a catalog that machines share, with a port of its own (live/catalog_lease.py), whose steps "
    "tests play in the place of several machines. What is written is held together by the fence of commits.": {
        "iceberg/lease_tables.py": "pyiceberg.catalog.load_catalog",
    },
    "Only for people: status without a JVM, and what a process of live mode says of itself. No run goes on from it.": {
        "store/brokers/broker.py": "kafka.admin.ConfigResource socket.create_connection",
        "store/brokers/broker_access.py": "os.fdopen os.unlink tempfile.mkstemp",
        "store/brokers/broker_client.py": "kafka.KafkaAdminClient kafka.net.compat.KafkaNetClient "
        "kafka.net.selector.NetworkSelector",
        "store/folder_catalog.py": "….exists ….glob ….is_dir ….is_file ….read_text",
        "store/listing.py": "….is_dir ….iterdir",
        "store/metadata.py": "pyarrow.parquet.ParquetFile pyiceberg.catalog.load_catalog",
        "store/status.py": "datetime.datetime.now",
        "store/writers.py": "fcntl.flock open os.kill os.sysconf socket.gethostname ….glob ….read_text ….stat "
        "….unlink",
    },
    "How busy the CPU is: it decides when a group ticks, no more; the simulator's driver has cores to spare.": {
        "store/machine.py": "os.sysconf ….read_text",
    },
    "Fresh processes in which a row that ends its worker is narrowed down (X2); tests of their own end them.": {
        "tasks/crashes/crashes.py": "mmap.mmap os._exit os.dup os.dup2 os.fdopen os.fork os.waitpid subprocess.Popen",
        "tasks/decode/limits.py": "signal.setitimer",
    },
    "The memory of a real worker of Spark: the simulator has none, and no row depends on it.": {
        "tasks/daemon.py": "os.sysconf ….read_text",
    },
    "A broker's answers to tasks, with patience of their own: whatever fails there, Java's client reads the batch. "
    "tests/runtime/test_kafka_in_tasks.py ends connections, and the broker.": {
        "tasks/kafka/connection.py": "socket.create_connection",
        "tasks/kafka/login.py": "secrets.token_bytes",
        "tasks/kafka/reader.py": "time.monotonic time.sleep",
    },
    "A schema registry's HTTP, with patience of its own; sources with one are tested on a server that fails.": {
        "tasks/decode/binary/registry.py": "time.monotonic time.sleep",
        "tasks/decode/binary/registry_http.py": "time.monotonic urllib.request.HTTPDefaultErrorHandler "
        "urllib.request.HTTPErrorProcessor urllib.request.HTTPHandler urllib.request.HTTPSHandler "
        "urllib.request.OpenerDirector urllib.request.ProxyHandler urllib.request.UnknownHandler ….open",
    },
}


def _reviewed() -> list[tuple[str, str]]:
    return [
        (file, call)
        for files in REVIEWED.values()
        for file, listed in files.items()
        for call in listed.split()
    ]


def test_what_does_not_go_through_a_port_has_a_reason() -> None:
    found = {one for room in ROOMS for one in outside(room)}
    reviewed = _reviewed()
    assert len(reviewed) == len(set(reviewed))
    new, gone = sorted(found - set(reviewed)), sorted(set(reviewed) - found)
    assert not new, f"go through a port (docs/decisions/simulator.md), or say here why not: {new}"
    assert not gone, f"these are no longer there: {gone}"


def test_every_room_is_looked_at_or_no_part_of_a_run() -> None:
    """What a person sees, what asks, and what only holds values."""
    seen = {
        "advise",
        "alerts",
        "cli",
        "console",
        "dagster",
        "findings",
        "pages",
        "plots",
        "quality",
        "show",
        "testing",
        "warm",
    }
    values = {"confidential", "errors", "masking", "page", "sql", "wording"}
    there = {
        path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert there - {"__init__", "__main__"} == {*ROOMS, *seen, *values}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import os\nos.replace(a, b)", {"os.replace"}),
        ("from os import path\npath.join(a, b)", set()),
        ("import time as t\nt.sleep(1)", {"time.sleep"}),
        ("from time import monotonic\nmonotonic()", {"time.monotonic"}),
        ("from datetime import datetime\ndatetime.now(zone).isoformat()", {"datetime.datetime.now"}),
        ("import uuid\nuuid.uuid4()\nuuid.UUID(text)", {"uuid.uuid4"}),
        ("with open(path) as file: pass", {"open"}),
        ("self.tables.open(name)\ncontext.tables.exists(name)", set()),
        ("self._filesystem.move(a, b)\nfilesystem.delete_file(a)", set()),
        ("self._store.move(a, b)", {"….move"}),
        ("(folder / name).read_text()", {"….read_text"}),
        ("text.replace('a', 'b')\npath.replace(target)", {"….replace"}),
        ("scope.resolve(name)\nPath(name).resolve()", {"….resolve"}),
        ("import pyarrow.parquet as pq\npq.read_table(path)", {"pyarrow.parquet.read_table"}),
        ("import pyarrow.parquet as pq\npq.read_table(path, filesystem=where)", set()),
        (
            "spark.read.parquet(path)\nframe.write.mode('append').parquet(path)",
            {"….read.parquet", "….write.mode"},
        ),
        ("self._spark._jvm.java.lang.System.exit(1)", {"_jvm"}),
        ("def open(self): pass\nself.open()", set()),
    ],
)
def test_calls_are_found(text: str, found: set[str]) -> None:
    assert calls(text) == found
