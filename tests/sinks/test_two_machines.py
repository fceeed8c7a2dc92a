"""Two machines that do not see each other's leases deliver into the same folder on S3, or into the same topic: what
decides is a conditional write of the position. The one that comes second with it has delivered nothing into a folder;
into a topic it has sent nothing but messages whose ids the first one gives them, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector

from tests.conftest import Workbench
from tests.inprocess import session
from tests.inprocess.broker import Broker
from tests.inprocess.topics import running
from tests.support.faulty_http import Answer, Asked, FaultyHttp, Forward, lose_answer, lose_request
from tests.support.s3 import conditional_put, settings_of, storage_on
from tests.support.s3 import s3 as s3
from tests.support.s3 import s3_server as s3_server
from tests.support.s3 import store as store
from tidegate.errors import TidegateError
from tidegate.runtime.runner import Runner
from tidegate.sinks import kafka as kafka_sink

pytestmark = pytest.mark.runner("inprocess", only=True)

SQL = """
CREATE SOURCE readings (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'filesystem', path = '{input}', max_files_per_batch = '1') FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS SELECT window_start, count(*) AS n
FROM TUMBLE(readings, ts, INTERVAL '1 minute') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;

CREATE SINK to_files FROM per_minute WITH (connector = 'filesystem', path = 's3://lake/out')
FORMAT PLAIN ENCODE JSON;
"""


@pytest.fixture
def machines(
    new_workbench: Callable[[], Workbench],
    s3: FaultyHttp,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> tuple[Workbench, Workbench]:
    """Two checkouts of a project, each with leases of its own, and one warehouse."""
    put = conditional_put(s3.url)
    monkeypatch.setattr(session, "Runner", partial(Runner, conditions=lambda storage: put))
    found = []
    for _ in range(2):
        bench = new_workbench().assets(all=SQL.replace("{input}", str(tmp_path / "input")))
        (bench.root / "resources").mkdir()
        environment = {
            "project": "shop",
            "allow": {"folders": [str(tmp_path / "input"), "s3://lake/out"]},
            "warehouse": {"path": str(tmp_path / "warehouse"), "storage": settings_of(s3.url)},
        }
        (bench.root / "resources" / "local.yaml").write_text(json.dumps(environment))
        found.append(bench)
    return found[0], found[1]


def close(folder: Path, minute: int) -> None:
    """A row that closes the window of the minute before."""
    folder.mkdir(exist_ok=True)
    row = {"id": minute, "ts": f"2026-01-01 00:{minute:02d}:00"}
    (folder / f"{minute}.json").write_text(json.dumps(row) + "\n")


def delivered(s3: FaultyHttp) -> list[str]:
    filesystem, _ = storage_on(s3.url).filesystem()
    files = [f.path for f in filesystem.get_file_info(FileSelector("lake/out")) if f.path.endswith(".jsonl")]
    texts = [filesystem.open_input_stream(path).read().decode() for path in files]
    return sorted(json.loads(line)["window_start"][14:16] for text in texts for line in text.splitlines())


def run(bench: Workbench) -> str | None:
    try:
        bench.session().run()
    except TidegateError as error:
        return error.code
    return None


@pytest.mark.parametrize("second", ["delivers", "breaks off"])
@pytest.mark.parametrize(
    "requests",
    [
        [("PUT", "position.json", 0), ("PUT", "position.json", 1), ("*", "lake/out", 6)],
        pytest.param([("*", "lake/out", skip) for skip in range(18)], marks=pytest.mark.long_run),
    ],
    ids=["some", "all"],
)
def test_R2_two_machines_that_deliver_at_once_lose_nothing_and_deliver_nothing_twice(
    machines: tuple[Workbench, Workbench],
    s3: FaultyHttp,
    tmp_path: Path,
    requests: Sequence[tuple[str, str, int]],
    second: str,
) -> None:
    """The second one begins at one of the first one's requests, and has more to deliver."""
    one, other = machines
    folder, minute, codes = tmp_path / "input", 1, []
    close(folder, 0)
    close(folder, 1)
    assert run(one) is None
    assert delivered(s3) == ["00"]
    for method, part, skip in requests:
        minute += 1
        close(folder, minute)

        def meanwhile(asked: Asked, forward: Forward, minute: int = minute + 1) -> Answer | None:
            close(folder, minute)
            if second == "breaks off":
                # Once it has removed what the first one has staged.
                s3.fail("PUT", "_tidegate/staging/", lose_request, None, 1)
            codes.append(run(other))
            s3.heal()
            return forward(asked)

        fault = s3.fail(method, part, meanwhile, 1, skip)
        codes.append(run(one))
        minute += fault.met
        s3.heal()
        assert run(one) is None
        expected = [f"{closed:02d}" for closed in range(minute)]
        assert delivered(s3) == expected, (skip, codes)
    assert "TG502" in codes
    assert set(codes) <= {None, "TG502", "TG624"}


@pytest.mark.parametrize("times", [1, 2])
def test_R2_a_position_whose_answer_is_lost_is_its_writers_own(
    machines: tuple[Workbench, Workbench], s3: FaultyHttp, tmp_path: Path, times: int
) -> None:
    """The client asks again, and is told that the condition does not hold: by what it has stored itself."""
    one, _ = machines
    close(tmp_path / "input", 0)
    close(tmp_path / "input", 1)
    fault = s3.fail("PUT", "position.json", lose_answer, times, 1)
    assert run(one) is None
    assert fault.met == times
    assert delivered(s3) == ["00"]


TO_TOPIC = """
CREATE SINK to_topic FROM per_minute WITH (connector = 'kafka', topic = 'out',
properties.bootstrap.server = '{servers}', key.columns = 'window_start') FORMAT PLAIN ENCODE JSON;
"""


@pytest.mark.parametrize(
    "requests",
    [
        [("PUT", 0), ("PUT", 1), ("*", 4)],
        pytest.param([("*", skip) for skip in range(12)], marks=pytest.mark.long_run),
    ],
    ids=["some", "all"],
)
def test_R2_two_machines_that_send_at_once_keep_one_position_and_repeat_only_ids(
    machines: tuple[Workbench, Workbench],
    s3: FaultyHttp,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    requests: Sequence[tuple[str, int]],
) -> None:
    """The second one runs inside a request about the position of the first one, and has more to send."""
    # Tables of this runner are on a disk; where they are on S3, the position is, too.
    monkeypatch.setattr(kafka_sink, "position_file", lambda storage, sink: f"s3://lake/at/{sink.name}.json")
    folder, minute, codes = tmp_path / "input", 1, []
    with running(Broker()) as broker:
        broker.create("out", 2)
        for bench in machines:
            without_files = SQL.partition("CREATE SINK")[0].replace("{input}", str(folder))
            bench.assets(all=without_files + TO_TOPIC.format(servers=broker.bootstrap))

        def sent() -> list[tuple[str, bytes | None]]:
            """(minute, id) of every message."""
            found = [message for _, message in broker.stored("out")]
            return [(json.loads(m.value or b"")["window_start"][14:16], m.headers[0][1]) for m in found]

        one, other = machines
        close(folder, 0)
        close(folder, 1)
        assert run(one) is None
        for method, skip in requests:
            minute += 1
            close(folder, minute)

            def meanwhile(asked: Asked, forward: Forward, minute: int = minute + 1) -> Answer | None:
                close(folder, minute)
                codes.append(run(other))
                return forward(asked)

            fault = s3.fail(method, "lake/at/", meanwhile, 1, skip)
            codes.append(run(one))
            minute += fault.met
            s3.heal()
            assert run(one) is None
            assert len({id_ for _, id_ in sent()}) == minute, codes
            assert {at for at, _ in sent()} == {f"{closed:02d}" for closed in range(minute)}
        many = len(sent())
        assert (run(other), run(one), len(sent())) == (None, None, many)
    assert "TG502" in codes
    assert set(codes) <= {None, "TG502"}
