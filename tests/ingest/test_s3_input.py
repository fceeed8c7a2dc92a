"""Sources and sinks on S3 whose server fails: a run that can't go on says why, and the next one goes on; nothing is
lost, nothing is twice, and a store that fails has not damaged a file."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyarrow.fs import FileSelector

from tests.conftest import Workbench
from tests.support.faulty_http import FaultyHttp, lose_answer, lose_request, refuse_key, s3_error, truncate
from tests.support.s3 import KEY, settings_of, storage_on
from tests.support.s3 import s3 as s3
from tests.support.s3 import s3_server as s3_server
from tests.support.s3 import store as store
from tidegate.errors import TidegateError
from tidegate.ingest.sources import file_rows
from tidegate.tasks.parquet.footers import EDGE

pytestmark = pytest.mark.runner("inprocess")


@pytest.fixture(autouse=True)
def _no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks read with pyarrow; the jars that a Spark with S3 must have are asked for in a JVM."""
    monkeypatch.setattr(file_rows, "require_s3", lambda spark, what: None)


SQL = """
CREATE SOURCE readings (id INT, meter VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH (connector = 'filesystem', path = 's3://lake/in', partition.columns = 'meter', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, meter, count(*) AS n
FROM TUMBLE(readings, ts, INTERVAL '1 minute') GROUP BY window_start, window_end, meter EMIT ON WINDOW CLOSE;

CREATE SINK to_files FROM per_minute WITH (connector = 'filesystem', path = 's3://lake/out')
FORMAT PLAIN ENCODE JSON;
"""
ROWS = [
    {"id": n, "meter": "ab"[n % 2], "ts": f"2026-01-01 00:{n // 6:02d}:{n % 6 * 10:02d}"} for n in range(60)
]
#: All of them but those of the last minutes, which are open.
WINDOWS = [(f"00:{minute:02d}:00", meter, 3) for minute in range(9) for meter in "ab"]


def as_json(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_gzip(rows: list[dict[str, Any]]) -> bytes:
    return gzip.compress(as_json(rows), 0)


def project(workbench: Workbench, s3: FaultyHttp, name: str, content: Callable[..., bytes]) -> None:
    workbench.assets(all=SQL)
    (workbench.root / "resources").mkdir()
    environment = {
        "allow": {"folders": ["s3://lake/in", "s3://lake/out"]},
        "warehouse": {"storage": settings_of(s3.url)},
    }
    (workbench.root / "resources" / "local.yaml").write_text(json.dumps(environment))
    filesystem, _ = storage_on(s3.url).filesystem()
    for number in range(2):
        with filesystem.open_output_stream(f"lake/in/{number}.{name}", compression=None) as file:
            file.write(content(ROWS[number * 30 : number * 30 + 30]))
    s3.seen.clear()


def delivered(s3: FaultyHttp) -> list[tuple[str, str, int]]:
    filesystem, _ = storage_on(s3.url).filesystem()
    files = [f.path for f in filesystem.get_file_info(FileSelector("lake/out")) if f.path.endswith(".jsonl")]
    texts = [filesystem.open_input_stream(path).read().decode() for path in files]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    return sorted((row["window_start"][11:19], row["meter"], row["n"]) for row in rows)


def judged(workbench: Workbench) -> list[tuple[int, str, str | None]]:
    raw = workbench.session().table("readings$raw").select("id", "outcome", "reason")
    return sorted((row[0] if row[0] is not None else -1, row[1], row[2]) for row in raw.collect())


ALL = [(n, "on_time", None) for n in range(60)]


@pytest.mark.parametrize(
    ("name", "content", "act", "times", "skip"),
    [
        ("json.gz", as_gzip, truncate(300), 3, 1),
        ("json.gz", as_gzip, truncate(300), 3, 2),
        ("json.gz", as_gzip, lose_request, 6, 2),
        ("json", as_json, truncate(300), 3, 2),
    ],
    ids=["first look", "truncated", "nothing", "plain"],
)
def test_W5_a_store_that_fails_while_a_file_is_read_has_not_damaged_the_file(
    workbench: Workbench,
    s3: FaultyHttp,
    name: str,
    content: Callable[..., bytes],
    act: Callable,
    times: int,
    skip: int,
) -> None:
    """It fails as often as the client repeats a request; then it answers as ever."""
    project(workbench, s3, name, content)
    fault = s3.fail("GET", f"in/1.{name}", act, times, skip)
    with pytest.raises(TidegateError) as caught:
        workbench.session().run()
    assert caught.value.code == "TG624"
    assert "curlCode" in caught.value.message
    # A connection that is closed without a word is used again once by the client itself, unseen.
    assert fault.met in range(3, times + 1)
    s3.heal()
    workbench.session().run()
    assert judged(workbench) == ALL
    assert delivered(s3) == WINDOWS


def test_a_large_file_that_is_put_again_unchanged_is_the_one_that_was_read(
    workbench: Workbench, s3: FaultyHttp
) -> None:
    """Its time is another one, and its edges are not all of it: its store says that it is the same."""
    project(workbench, s3, "json", as_json)
    filesystem, _ = storage_on(s3.url).filesystem()
    large = as_json(ROWS * (2 * EDGE // len(as_json(ROWS)) + 2))

    def put(content: bytes) -> None:
        with filesystem.open_output_stream("lake/in/2.json") as file:
            file.write(content)

    put(large)
    workbench.session().run()
    rows = judged(workbench)
    time.sleep(1.1)  # S3's times are whole seconds
    put(large)
    workbench.session().run()
    assert judged(workbench) == rows
    middle = len(large) // 2
    put(large[:middle] + large[middle:].replace(b"a", b"b", 1))
    with pytest.raises(TidegateError, match="may contain other rows") as caught:
        workbench.session().run()
    assert caught.value.code == "TG505"


EXPIRED, LOST, SLOW = refuse_key(KEY), lose_answer, s3_error(503, "SlowDown")


@pytest.mark.parametrize(
    "faults",
    [
        [(EXPIRED, 4), (LOST, 9)],
        *(
            pytest.param([(act, skip) for skip in range(0, 30, 3)], marks=pytest.mark.long_run)
            for act in (EXPIRED, LOST, SLOW)
        ),
    ],
    ids=["some", "expired", "answer", "503"],
)
def test_R2_a_delivery_that_breaks_off_at_any_request_is_finished_once_by_the_next_run(
    workbench: Workbench, s3: FaultyHttp, faults: list[tuple[Callable, int]]
) -> None:
    """Credentials that expire in the middle; a server that did what it was asked for, and does not say so."""
    project(workbench, s3, "json", as_json)
    workbench.session().run()
    assert delivered(s3) == WINDOWS
    filesystem, _ = storage_on(s3.url).filesystem()
    codes, expected = [], list(WINDOWS)
    # Staging, the position, the move of each file, the position again, and what is removed.
    for number, (act, skip) in enumerate(faults, 2):
        minute = 10 + number
        rows = [
            {"id": minute * 10 + n, "meter": meter, "ts": f"2026-01-01 00:{minute:02d}:1{n}"}
            for n, meter in enumerate("ab")
        ]
        with filesystem.open_output_stream(f"lake/in/{number}.json") as file:
            file.write(as_json(rows))
        s3.fail("*", "lake/out", act, None, skip)
        try:
            workbench.session().run()
        except TidegateError as error:
            codes.append(error.code)
        s3.heal()
        workbench.session().run()
        # What is final by the rows of this minute: the one before, and what was open at first.
        expected += [("00:09:00", meter, 3) for meter in "ab"] if number == 2 else []
        expected += [(f"00:{minute - 1:02d}:00", meter, 1) for meter in "ab"] if number > 2 else []
        assert delivered(s3) == sorted(expected), skip
    assert set(codes) == {"TG624"}
    assert len(codes) > len(faults) // 2
