"""Files on S3 are read to their end although the store's answers break off."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Sequence

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem

from tests.support.faulty_http import FaultyHttp, truncate
from tests.support.s3 import SECRET, storage_on
from tests.support.s3 import s3 as s3
from tests.support.s3 import s3_server as s3_server
from tests.support.s3 import store as store
from tidegate.tasks.parquet.row_groups import open_file

pytestmark = pytest.mark.medium
ROWS = pa.table({"n": np.arange(50_000), "half": np.arange(50_000) / 2})


@pytest.fixture
def lake(s3: FaultyHttp) -> FileSystem:
    return storage_on(s3.url).filesystem()[0]


def test_a_parquet_file_of_which_each_part_breaks_off_once_is_read_as_it_is(
    s3: FaultyHttp, lake: FileSystem
) -> None:
    pq.write_table(ROWS, "lake/rows.parquet", filesystem=lake, row_group_size=10_000)
    s3.seen.clear()
    with open_file(lake, "lake/rows.parquet") as file:
        assert file.read(use_threads=False) == ROWS
    parts = len(s3.targets("GET"))
    assert parts >= 10
    broken = [s3.fail("GET", "rows.parquet", truncate(50), 1, skip) for skip in range(0, parts, 2)]
    # What a task gets is a copy of the client.
    copy = pickle.loads(pickle.dumps(lake))
    with open_file(copy, "lake/rows.parquet") as file:
        assert file.read(use_threads=False) == ROWS
    assert all(fault.met for fault in broken)


def test_a_stream_that_breaks_off_goes_on_where_it_was(s3: FaultyHttp, lake: FileSystem) -> None:
    text = b"\n".join(b"%d" % n for n in range(60_000))
    for name, content in (("a.csv", text), ("a.csv.gz", gzip.compress(text))):
        with lake.open_output_stream(f"lake/{name}", compression=None) as stream:
            stream.write(content)
        faults = [s3.fail("GET", name, truncate(7), 1, skip) for skip in (0, 2)]
        with lake.open_input_stream(f"lake/{name}") as stream:
            got = b"".join(iter(lambda: stream.read(100_000), b""))
        assert got == text
        assert faults[0].met
    with lake.open_input_stream("lake/a.csv.gz", compression=None) as stream:
        assert gzip.decompress(stream.read()) == text


def test_a_store_that_breaks_off_every_answer_is_an_error_of_the_store(
    s3: FaultyHttp, lake: FileSystem
) -> None:
    with lake.open_output_stream("lake/a.csv") as stream:
        stream.write(b"1,2,3\n" * 100)
    s3.fail("GET", "a.csv", truncate(7), None)
    with lake.open_input_file("lake/a.csv") as file, pytest.raises(OSError, match="AWS Error"):
        file.read()


def test_the_store_s_words_of_a_file_and_its_missing_are_passed_on(lake: FileSystem) -> None:
    with lake.open_output_stream("lake/a.csv") as stream:
        stream.write(b"1,2,3\n")
    with lake.open_input_file("lake/a.csv") as file:
        assert file.metadata()["ETag"]
        assert (file.size(), file.read_at(3, 2)) == (6, b"2,3")
    with pytest.raises(FileNotFoundError):
        lake.open_input_file("lake/b.csv")
    with pytest.raises(FileNotFoundError):
        lake.open_input_stream("lake/b.csv")


def test_what_is_removed_leaves_no_object_in_the_place_of_its_folder(
    s3: FaultyHttp, lake: FileSystem
) -> None:
    """Where another client removes it (in the driver that of the JVM, see `tests/iceberg/test_object_store.py`)."""
    client = boto3.client("s3", endpoint_url=s3.url, aws_access_key_id="k", aws_secret_access_key=SECRET)
    lent = True

    def remove(paths: Sequence[str]) -> bool:
        if lent:
            keys = [{"Key": path.removeprefix("lake/")} for path in paths]
            client.delete_objects(Bucket="lake", Delete={"Objects": keys})
        return lent

    def keys() -> list[str]:
        return [found["Key"] for found in client.list_objects_v2(Bucket="lake").get("Contents", [])]

    lake.remover = remove
    for name in ("one/a", "one/b", "two/deep/c", "two/d"):
        with lake.open_output_stream(f"lake/{name}") as stream:
            stream.write(name.encode())
    client.put_object(Bucket="lake", Key="two/deep/")
    lake.move("lake/one/a", "lake/there")
    assert lake.open_input_stream("lake/there").read() == b"one/a"
    lake.delete_file("lake/one/b")
    lake.delete_dir("lake/two/")
    assert keys() == ["there"]
    # Whoever can't, such as a client of a Spark that was stopped, says so; then pyarrow does it.
    lent = False
    lake.delete_file("lake/there")
    assert keys() == []
    lake.remover = None
