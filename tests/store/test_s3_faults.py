"""Files on S3 whose server fails: what is written is whole or not there, what is read is whole, and no rename is relied
on. Without a JVM."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.support.faulty_http import (
    FaultyHttp,
    delay,
    lose_answer,
    lose_request,
    refuse_key,
    s3_error,
    truncate,
)
from tests.support.s3 import KEY, settings_of, storage_on
from tests.support.s3 import s3 as s3
from tests.support.s3 import s3_server as s3_server
from tests.support.s3 import store as store
from tidegate.audit.stored_files import VerifiedTable, verify
from tidegate.cli.diagnosis import warehouse
from tidegate.errors import TidegateError
from tidegate.iceberg.lease_tables import LeaseTables
from tidegate.ingest.connector import BatchPlan
from tidegate.ingest.stream import PlanInbox
from tidegate.project import Project
from tidegate.project.catalog_failures import NO_ANSWER
from tidegate.project.disk import trouble
from tidegate.sinks.statefile import StateFile
from tidegate.store.metadata import load_table
from tidegate.tasks.writer import FileWriter, WriteTarget

pytestmark = pytest.mark.medium

PLAN = BatchPlan(7, "2026-01-01T00:00:00+00:00", [{"path": "a.json", "size": 3}])
SLOW = s3_error(503, "SlowDown", "Please reduce your request rate.")


def inbox(s3: FaultyHttp) -> PlanInbox:
    return PlanInbox(storage_on(s3.url), "s3://lake/tidegate/_streams/main/s/plans")


def position(s3: FaultyHttp) -> StateFile:
    return StateFile(storage_on(s3.url), "s3://lake/out/_tidegate/position.json")


def copies(s3: FaultyHttp) -> list[str]:
    """What was renamed: in S3 that is a copy, and then a removal."""
    return [asked.target for asked in s3.seen if "x-amz-copy-source" in asked.headers]


@pytest.mark.parametrize(
    ("act", "times"),
    [(SLOW, 2), (lose_answer, 2), (lose_request, 1), (delay(0.2), 1)],
    ids=["503", "answer", "request", "slow"],
)
def test_R2_a_state_file_is_written_by_one_request_that_may_be_repeated(
    s3: FaultyHttp, act: Callable, times: int
) -> None:
    for write, read in (
        (lambda: inbox(s3).write(PLAN), lambda: inbox(s3).read(7) == PLAN),
        (lambda: position(s3).write({"tick": 3}), lambda: position(s3).read() == {"tick": 3}),
    ):
        s3.heal()
        s3.seen.clear()
        fault = s3.fail("PUT", "lake/", act, times)
        write()
        # One object, under its own name: nothing beside it, and nothing that would have to be renamed.
        assert fault.met == times
        assert len(set(s3.targets("PUT"))) == 1
        assert not s3.targets("POST") + s3.targets("DELETE") + copies(s3)
        s3.fail("GET", "lake/", act, times)
        assert read()


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (SLOW, "does not answer, or answers with an error"),
        (lose_request, "does not answer, or answers with an error"),
        (refuse_key(KEY), "they have expired"),
        (s3_error(403, "AccessDenied"), "refuses the credentials, or they do not permit this"),
        (s3_error(403, "SignatureDoesNotMatch"), "refuses the credentials"),
        (s3_error(404, "NoSuchBucket"), "has no such bucket"),
        (s3_error(301, "PermanentRedirect"), "has this bucket in another region"),
        (s3_error(400, "AuthorizationHeaderMalformed"), "has this bucket in another region"),
    ],
    ids=["503", "nothing", "expired", "denied", "signature", "bucket", "region", "header"],
)
def test_R2_a_state_file_that_cannot_be_written_is_the_old_one_and_the_error_says_why(
    s3: FaultyHttp, act: Callable, said: str
) -> None:
    position(s3).write({"tick": 3})
    s3.fail("PUT", "", act, None)
    for write in (lambda: position(s3).write({"tick": 4}), lambda: inbox(s3).write(PLAN)):
        with pytest.raises(OSError) as caught:
            write()
        found = trouble(caught.value)
        assert found is not None
        assert found.code == "TG624"
        assert said in found.message
        assert "run the same command again" in (found.hint or "")
    s3.heal()
    assert position(s3).read() == {"tick": 3}
    assert inbox(s3).read(7) is None
    position(s3).write({"tick": 4})
    assert position(s3).read() == {"tick": 4}


@pytest.mark.parametrize("length", [pytest.param(0, marks=pytest.mark.long_run), 10])
def test_R2_a_truncated_answer_is_never_taken_for_a_whole_file(s3: FaultyHttp, length: int) -> None:
    position(s3).write({"tick": 3})
    inbox(s3).write(PLAN)
    for read in (position(s3).read, lambda: inbox(s3).read(7)):
        s3.heal()
        s3.fail("GET", "", truncate(length), 2)
        assert read() is not None
        s3.fail("GET", "", truncate(length), None)
        with pytest.raises(OSError, match="AWS Error"):
            read()


@pytest.mark.parametrize("act", [SLOW, s3_error(403, "AccessDenied"), refuse_key(KEY), lose_request])
def test_R2_what_is_there_is_not_taken_for_missing_while_the_store_refuses(
    s3: FaultyHttp, act: Callable
) -> None:
    """Who took it for missing would plan a batch anew, or deliver everything again."""
    position(s3).write({"tick": 3})
    inbox(s3).write(PLAN)
    # A HEAD tells its status, and not why.
    s3.fail("*", "", act, None)
    for read in (position(s3).read, lambda: inbox(s3).read(7)):
        with pytest.raises(OSError) as caught:
            read()
        found = trouble(caught.value)
        assert found is not None
        assert found.code == "TG624"


def target(s3: FaultyHttp) -> WriteTarget:
    filesystem, path = storage_on(s3.url).filesystem("s3://lake/tidegate/main/s/data")
    fields = [("_outcome", pa.string()), ("n", pa.int64()), ("text", pa.binary())]
    numbered = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate(fields, 1)
    ]
    return WriteTarget(filesystem, path, f"s3://{path}", pa.schema(numbered), "_outcome", None, ("n",))


#: More than S3's clients send as one part.
LARGE = pa.table(
    {"_outcome": ["on_time"] * 12, "n": range(12), "text": [os.urandom(1 << 20) for _ in range(12)]}
)


@pytest.mark.parametrize(
    ("method", "part", "act"),
    [
        ("PUT", "partNumber=2", SLOW),
        ("POST", "?uploadId", SLOW),
        ("POST", "?uploadId", refuse_key(KEY)),
    ],
)
def test_R1_an_upload_in_parts_that_breaks_off_leaves_no_file_and_is_no_file_of_a_batch(
    s3: FaultyHttp, method: str, part: str, act: Callable
) -> None:
    goal = target(s3)
    s3.fail(method, part, act, None)
    writer = FileWriter(goal, 1 << 22)

    def write() -> None:
        writer.add(LARGE)
        writer.close()

    with pytest.raises(OSError) as caught:
        write()
    found = trouble(caught.value)
    assert found is not None
    assert found.code == "TG624"
    s3.heal()
    folder = pafs.FileSelector(goal.data_path, allow_not_found=True)
    assert not goal.filesystem.get_file_info(folder)
    # The task that is started again writes all of it.
    again = FileWriter(goal, 1 << 22)
    again.add(LARGE)
    (file,) = again.close()
    read = pq.read_table(file["uri"].removeprefix("s3://"), filesystem=goal.filesystem)
    assert (file["rows"], read.num_rows) == (12, 12)
    assert read.column("text").to_pylist() == LARGE.column("text").to_pylist()
    assert [info.path for info in goal.filesystem.get_file_info(folder)] == [
        file["uri"].removeprefix("s3://")
    ]


@pytest.mark.parametrize("part", ["partNumber=2", "?uploadId"])
def test_R1_an_upload_in_parts_whose_answers_are_lost_is_whole(s3: FaultyHttp, part: str) -> None:
    goal = target(s3)
    fault = s3.fail("*", part, lose_answer, 1)
    writer = FileWriter(goal, 1 << 22)
    writer.add(LARGE)
    (file,) = writer.close()
    assert fault.met == 1
    path = file["uri"].removeprefix("s3://")
    assert goal.filesystem.get_file_info(path).size == file["bytes"]
    assert pq.read_table(path, filesystem=goal.filesystem).num_rows == 12


def test_a_client_of_s3_is_made_once_and_reaches_the_tasks_whole(s3: FaultyHttp) -> None:
    """A new one would ask whoever gives credentials again, each time that a file is opened."""
    storage = storage_on(s3.url)
    first, _ = storage.filesystem()
    assert storage.filesystem("s3://lake/elsewhere")[0] is first
    elsewhere = storage.settings.storage.model_copy(update={"region": "eu-central-1"})
    other = storage.settings.model_copy(update={"storage": elsewhere})
    assert dataclasses.replace(storage, settings=other).filesystem()[0] is not first
    sent = pickle.loads(pickle.dumps(first))
    assert sent.__reduce__()[1] == first.__reduce__()[1]


def test_a_host_that_nobody_knows_is_named_with_what_is_often_missing() -> None:
    said = (
        "When listing objects under key 't/' in bucket 'lake': AWS Error NETWORK_CONNECTION during ListObjectsV2 "
        "operation: curlCode: 6, Could not resolve hostname; Details: Could not resolve host: lake.minio.example"
    )
    found = trouble(OSError(said))
    assert found is not None
    assert "is not found under its name" in found.message
    assert "path_style: true" in (found.hint or "")


@pytest.fixture
def project(s3: FaultyHttp, tmp_path: Path) -> Project:
    """With a table on S3, `t`, which has two snapshots of a row each."""
    from pyiceberg.catalog import load_catalog

    catalog = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    settings = {"path": "s3://lake/tidegate", "catalog": catalog, "storage": settings_of(s3.url)}
    for folder in ("resources", "assets"):
        (tmp_path / folder).mkdir()
    (tmp_path / "resources" / "local.yaml").write_text(json.dumps({"warehouse": settings}))
    made = Project.load(tmp_path)
    properties = made.storage.pyiceberg_properties() | {"init_catalog_tables": "true"}
    there = load_catalog("tidegate", **properties)
    there.create_namespace("main")
    rows = pa.table({"n": [1]})
    table = there.create_table(("main", "t"), rows.schema)
    for _ in range(2):
        table.append(rows)
    return made


def verified(project: Project) -> VerifiedTable:
    table = load_table(project.storage, "t")
    assert table is not None
    return verify(project.storage, table)


@pytest.mark.parametrize("act", [SLOW, s3_error(403, "AccessDenied"), refuse_key(KEY)])
def test_whoever_asks_a_store_that_refuses_says_so(s3: FaultyHttp, project: Project, act: Callable) -> None:
    """Nobody takes it for a damaged file, for a catalog that does not answer, or for a lease that nobody has."""
    table = load_table(project.storage, "t")
    assert table is not None
    leases = LeaseTables(project.storage)
    assert leases.make("a$live_1", {"count": "1"})
    s3.fail("*", "", act, None)
    for ask in (
        lambda: load_table(project.storage, "t"),
        lambda: leases.properties("a$live_1"),
        lambda: leases.make("a$live_2", {}),
    ):
        with pytest.raises(TidegateError) as caught:
            ask()
        assert caught.value.code == "TG624"
    assert "TG624" in NO_ANSWER
    found = warehouse(project)
    assert (found.state, "object storage" in found.found) == ("bad", True)
    assert "run the same command again" in (found.todo or "")
    # Also where only the files of rows can't be read.
    s3.heal()
    s3.fail("*", "/data/", act, None)
    with pytest.raises(TidegateError) as caught:
        verified(project)
    assert caught.value.code == "TG624"
    s3.heal()
    assert (verified(project).problems, verified(project).files) == ([], 2)


def test_what_pyiceberg_reads_is_asked_for_again_where_an_answer_breaks_off(
    s3: FaultyHttp, project: Project
) -> None:
    faults = [
        s3.fail("GET", part, truncate(10), 2) for part in (".metadata.json", "snap-", "-m0.avro", ".parquet")
    ]
    found = verified(project)
    assert (found.problems, found.files, found.rows) == ([], 2, 2)
    assert [fault.met for fault in faults] == [2, 2, 2, 2]


def test_a_catalog_that_refuses_a_place_is_no_store_that_refuses() -> None:
    said = "ForbiddenException: main.orders may not be at s3://lake/orders: Forbidden"
    assert trouble(RuntimeError(said)) is None
    found = trouble(RuntimeError(f"{said} (Service: S3, Status Code: 403)"))
    assert found is not None
    assert found.code == "TG624"
