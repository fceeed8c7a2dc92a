"""Files on S3 are read to their end although the store's answers break off."""

from __future__ import annotations

import gzip
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSystem

from tests.support.faulty_http import FaultyHttp, truncate
from tests.support.s3 import s3 as s3
from tests.support.s3 import s3_server as s3_server
from tests.support.s3 import storage_on
from tests.support.s3 import store as store
from tidegate.tasks.parquet.parquet import open_file

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
