"""R1, R2: a short `make chaos`: real brokers, a real live process with two groups, and kill -9 of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.export import export
from tests.chaos.pipeline import LiveLog
from tests.chaos.processes import Process, spark_pythons
from tests.chaos.project import make_groups
from tests.chaos.report import Options, summary
from tests.chaos.run import parse, run
from tidegate.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.long_run
def test_R2_chaos_changes_no_row_no_decision_and_no_window(tmp_path: Path, spark: SparkSession) -> None:
    options = Options(
        rows=12_000,
        groups=2,
        kills=2,
        broker_kills=1,
        target_outages=1,
        seed=3,
        idle_seconds=3,
        keep=tmp_path / "chaos",
        seconds_per_kill=4.0,
        small=True,
    )
    report = run(
        options, lambda root, folder, count: export(Session.open(project=root, spark=spark), folder, count)
    )
    text = summary(report)
    print(text)
    assert report.differences == 0, text
    assert sum(report.kills.values()) == options.kills + options.broker_kills
    assert [outage.how for outage in report.outages] == ["gone"]
    assert report.verdict["rows"] == report.in_topics >= options.rows
    assert report.verdict["messages"] > 0


def test_one_group_needs_the_first_broker_alone_and_only_the_second_one_has_a_sink() -> None:
    for count in (1, 2, 3, 5):
        groups = make_groups(count, "near", "far")
        assert len({name for g in groups for name in (g.source, g.topic, g.sink)}) == 3 * count
        assert [g.number for g in groups if g.target] == ([2] if count > 1 else [])
        assert [g.number for g in groups if g.bootstrap == "far"] == ([count] if count > 2 else [])
        assert not groups[0].needs("far")
        assert all(("CREATE SINK" in g.sql(5)) == (g.target is not None) for g in groups)


def test_an_outage_needs_two_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([])[0] == Options()
    assert parse(["--groups", "1"])[0].target_outages == 0
    with pytest.raises(SystemExit):
        parse(["--groups", "1", "--target-outages", "2"])
    assert "--groups 2" in capsys.readouterr().err


def test_python_workers_are_told_from_the_daemon_that_forks_them() -> None:
    words = ("python", "-m", "tidegate.tasks.daemon", "pyspark.worker")
    jvm = Process(10, 9, 0, ("/usr/bin/java", "org.apache.spark.deploy.SparkSubmit"))
    daemon, *workers = (Process(pid, parent, 0, words) for pid, parent in ((11, 10), (12, 11), (13, 11)))
    nursery = Process(
        14, 12, 0, ("python", "-c", "from tidegate.tasks.crashes.crashes import serve; serve()")
    )
    driver = Process(9, 8, 0, ("python", "-m", "tidegate.cli.main"))
    assert spark_pythons([driver, jvm, daemon, *workers, nursery]) == (workers, [daemon])


def test_a_log_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "live.log"
    path.write_text('{"event": "before"}\n')
    log = LiveLog(path, at_end=True)
    assert log.events() == []
    with path.open("a") as file:
        file.write('no JSON\n{"event": "member_failed"}\n{"event": "mem')
    assert log.events() == [{"event": "member_failed"}]
