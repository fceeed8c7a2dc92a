"""`tidegate live` as operators run it: the real command, a real worker with Spark, files dropped while it runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tidegate.project import Project
from tidegate.project.owner import OWNER, Owner
from tidegate.store.metadata import load_table
from tidegate.store.status import read_status
from tidegate.store.writers import running
from tidegate.testing.runner import QUICK

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ASSET = """CREATE SOURCE clicks (
    page VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds'
) WITH (connector = 'filesystem', path = 'in') FORMAT PLAIN ENCODE JSON;

CREATE MATERIALIZED VIEW per_minute AS
SELECT page, window_start, window_end, count(*) AS n
FROM TUMBLE(clicks, ts, INTERVAL '1 minute') GROUP BY page, window_start, window_end
EMIT ON WINDOW CLOSE;
"""
NOON = 1_767_268_800  # 2026-01-01 12:00:00 UTC
_PATIENCE = 300.0


class Live:
    """The command on a project, and what it has said. `more`: of the environment's file; `standby`: it waits for
    another one on the same project; `further`: options."""

    def __init__(
        self,
        root: Path,
        env: str = "local",
        asset: str = ASSET,
        standby: bool = False,
        further: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        self.root, self.env = root, env
        (root / "assets").mkdir(parents=True, exist_ok=True)
        self.assets = root / "assets" / "clicks.sql"
        self.assets.write_text(asset)
        (root / "in").mkdir(exist_ok=True)
        (root / "resources").mkdir(exist_ok=True)
        (root / "resources" / f"{env}.yaml").write_text(json.dumps({"spark": {"conf": QUICK}} | more))
        self.lines = root / f"told_{env}{'_standby' if standby else ''}.jsonl"
        options = ["--port=0", "--interval=0.2s", "--json", f"--env={env}", *further]
        options += ["--standby"] if standby else []
        with self.lines.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate.cli.main", "live", *options],
                cwd=root,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.url = self.until("live_stands_by" if standby else "live_started")["url"]

    def told(self, kind: str) -> list[dict[str, Any]]:
        found = [
            json.loads(line) for line in self.lines.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]
        return [one for one in found if one["event"] == kind]

    def until(self, kind: str, count: int = 1) -> dict[str, Any]:
        """The `count`th event of a kind."""
        self.wait(lambda: len(self.told(kind)) >= count)
        return self.told(kind)[count - 1]

    def wait(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not what():
            assert self.process.poll() is None, self.lines.read_text()
            assert time.monotonic() < deadline, self.lines.read_text()
            # (What is looked at are tables and metrics, and Spark starts meanwhile.)
            time.sleep(0.25)

    def drop(self, name: str, *times: str) -> None:
        """A file of rows, renamed into place."""
        hidden = self.root / "in" / f".{name}"
        hidden.write_text("".join(f'{{"page": "a", "ts": "2026-01-01 {time}"}}\n' for time in times))
        hidden.rename(self.root / "in" / f"{name}.json")

    def say(self, *command: str) -> list[dict[str, Any]]:
        """The lines of another command, which has no Java of its own."""
        environ = {**os.environ, "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
        whole = [sys.executable, "-m", "tidegate.cli.main", *command, f"--env={self.env}"]
        done = subprocess.run(
            whole, cwd=self.root, env=environ, capture_output=True, text=True, timeout=_PATIENCE
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def failing(self) -> list[tuple[str, str, str]]:
        """What `tidegate status --failing` goes by."""
        (record,) = running(self.root / ".tidegate", self.env)
        return [(one.name, one.kind, one.message) for one in record.failing]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.read().decode()

    def metric(self, series: str) -> float | None:
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.get("/metrics"), re.MULTILINE)
        return None if found is None else float(found.group(1))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    found = Live(tmp_path / "project")
    yield found
    if found.process.poll() is None:
        found.process.send_signal(signal.SIGTERM)
        found.process.wait(60)


def test_R2_live_survives_the_deaths_of_worker_jvm_and_supervisor_and_stops_in_order(live: Live) -> None:
    """One life after the other on the same tables: each row is judged and told once, whatever was killed."""
    worker = live.until("worker_started")["pid"]
    assert os.getpgid(worker) == worker
    live.drop("1", "12:00:10", "12:00:50", "12:01:30")
    live.wait(lambda: live.metric('tidegate_view_frontier_seconds{view="per_minute"}') == NOON + 85)
    assert live.metric('tidegate_partition_watermark_seconds{partition=".",source="clicks"}') == NOON + 85
    assert live.metric('tidegate_rows_total{outcome="on_time",source="clicks"}') == 3
    assert live.metric('tidegate_worker_up{group="clicks"}') == 1
    assert live.metric('tidegate_worker_resident_memory_bytes{group="*",process="jvm"}') > 100 << 20
    health = json.loads(live.get("/healthz"))
    assert (health["status"], health["groups"]["clicks"]["pid"]) == ("ok", worker)
    status = json.loads(live.get("/status"))
    assert (status["views"][0]["groups"], status["attention"]) == (1, [])
    # Other commands have their work done by the live process, in the time that they need themselves.
    question = ["sql", "-c", "SELECT page, window_end, n FROM per_minute", "--json"]
    assert live.say(*question) == [{"page": "a", "window_end": "2026-01-01 12:01:00", "n": 2}]
    live.drop("0", "12:01:40")
    *_, finished, report = live.say("run", "--json")
    assert (finished["event"], finished["failed"]) == ("run_finished", [])
    assert report["sources"][0]["watermark"] == "2026-01-01 12:01:35"
    (socket,) = (live.root / ".tidegate" / "workers" / "local").iterdir()
    assert socket.name.endswith(f"-{worker}")

    # A changed definition begins again in the same process; one that is wrong keeps no process from starting again.
    live.assets.write_text(ASSET.replace("page VARCHAR", "page VARCHAR /* of a click */"))
    assert live.say("reload", "--json")[0]["processes"][0]["began"] == ["clicks"]
    assert live.until("worker_started", 2)["pid"] == worker
    live.assets.write_text("CREATE SOURCE clicks (")
    again = _it_is_killed(live, worker)
    live.assets.write_text(ASSET)
    live.drop("2", "12:02:30", "12:00:30")
    live.wait(lambda: live.metric('tidegate_view_rows_total{view="per_minute"}') == 2)
    assert live.metric('tidegate_rows_total{outcome="late",source="clicks"}') == 1
    assert live.metric('tidegate_worker_restarts_total{group="clicks"}') == 1

    _its_jvm_dies(live, again)
    live.drop("3", "12:03:30")
    live.wait(lambda: live.metric('tidegate_view_rows_total{view="per_minute"}') == 3)

    second = Live(live.root, standby=True)
    try:
        _takes_over(live, second)
        last = second.told("worker_started")[-1]["pid"]
        second.drop("5", "12:05:30")
        second.wait(lambda: second.metric('tidegate_view_rows_total{view="per_minute"}') == 5)
    finally:
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(60) == 0
    stopped = second.told("live_stopped")[0]
    assert (stopped["exit_code"], stopped["failed"]) == (0, [])
    assert second.told("worker_stopping")[-1]["why"] == "asked to"
    assert not Path(f"/proc/{last}").exists()

    _each_row_is_judged_and_told_once(live, second)
    assert list(socket.parent.iterdir()) == []


def _each_row_is_judged_and_told_once(live: Live, second: Live) -> None:
    (source,) = read_status(Project.load(live.root)).relations
    assert (source.raw, source.on_time, source.late) == (10, 8, 2)
    first = live.told("batch_committed")
    told = [*first, *second.told("batch_committed")]
    # A batch that was committed while the process died that would have told of it is in the log, and told by nobody.
    dying = {first[-1]["epoch"] + 1} - {e["epoch"] for e in told}
    assert sorted([*dying, *(e["epoch"] for e in told)]) == list(range(1, (source.epoch or 0) + 1))
    assert sum(e["on_time"] + e["late"] + e["rejected"] for e in told) == (8 if dying else 10)


def _it_is_killed(live: Live, worker: int) -> int:
    """Its group has said nothing, and fails until the next worker has started, which is returned."""
    os.kill(worker, signal.SIGKILL)
    live.wait(lambda: live.failing() == [("clicks", "group", f"worker {worker} was killed by SIGKILL")])
    assert len(live.told("worker_started")) == 2
    again: int = live.until("worker_started", 3)["pid"]
    assert again != worker
    live.wait(lambda: live.failing() == [])
    return again


def _its_jvm_dies(live: Live, worker: int) -> None:
    """However quiet its groups are, a worker ends with its JVM, and does not wait for one of them to fail."""
    children = Path(f"/proc/{worker}/task/{worker}/children")
    (jvm,) = (
        int(child)
        for task in Path(f"/proc/{worker}/task").iterdir()
        for child in (task / children.name).read_text().split()
        if Path(f"/proc/{child}/comm").read_text().strip() == "java"
    )
    before = len(live.told("worker_exited"))
    killed = time.monotonic()
    os.kill(jvm, signal.SIGKILL)
    live.until("worker_exited", before + 1)
    assert time.monotonic() - killed < 20
    assert not Path(f"/proc/{worker}").exists()
    assert live.until("worker_started", 4)["pid"] != worker


def _takes_over(live: Live, second: Live) -> None:
    """Within 30 seconds of the first one's death, with rows that waited in that moment."""
    assert "another process runs live mode" in second.told("live_stands_by")[0]["why"]
    assert json.loads(second.get("/healthz")) == {"status": "standby", "groups": {}}
    assert "tidegate_rows_total" not in second.get("/metrics")
    assert not second.told("live_started")
    # It has no Spark: nothing below it.
    assert Path(f"/proc/{second.process.pid}/task/{second.process.pid}/children").read_text() == ""
    # Rows wait in the moment in which the first one dies, with its batch wherever it is.
    live.drop("4", "12:04:30", "12:00:31")
    killed = time.monotonic()
    live.process.kill()
    live.process.wait()
    second.until("live_started")
    assert time.monotonic() - killed < 10
    second.until("tick_finished")
    # (A machine that is busy with other tests starts Spark slowly: the first one says how slowly.)
    began, ticked = (
        datetime.fromisoformat(live.told(kind)[0]["timestamp"]) for kind in ("live_started", "tick_finished")
    )
    assert time.monotonic() - killed < 15 + max(15.0, (ticked - began).total_seconds())
    assert len(second.told("live_stands_by")) == 1


#: Its table is in the environment's own namespace, as everything else.
SENT = "CREATE SINK sent FROM per_minute WITH (connector = 'iceberg', table = 'sent');\n"


@pytest.mark.parametrize(
    ("catalog", "neighbours"),
    [
        pytest.param("hadoop", [("shop", "local"), ("shop", "staging")], marks=pytest.mark.long_run),
        pytest.param("jdbc", [("shop", "local"), ("rival", "local")], marks=pytest.mark.long_run),
    ],
)
def test_X3_projects_and_environments_live_in_one_warehouse_and_change_nothing_of_each_other(
    tmp_path: Path, catalog: str, neighbours: list[tuple[str, str]]
) -> None:
    """A project in two environments, and two projects, all of it called the same, in one warehouse at the same time."""
    warehouse: dict[str, Any] = {"path": str(tmp_path / "warehouse")}
    if catalog == "jdbc":
        warehouse["catalog"] = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    members: list[Live] = []
    codes = []
    try:
        for root, env in neighbours:
            own = {"warehouse": warehouse | {"namespace": f"{root}_{env}"}}
            members.append(Live(tmp_path / root, env, ASSET + SENT, **own))
        # A minute in each commit; each project has rows of its own: as many as its name has letters.
        for minute in range(2):
            for project in {member.root: member for member in members}.values():
                times = (f"12:0{minute}:{10 + n}" for n in range(len(project.root.name)))
                project.drop(str(minute), *times)
            for member in members:
                member.until("batch_committed", minute + 1)
        for member in members:
            member.wait(lambda member=member: sum(e["rows"] for e in member.told("sink_delivered")) == 1)
    finally:
        for member in members:
            member.process.send_signal(signal.SIGTERM)
        codes = [member.process.wait(120) for member in members]
    assert codes == [0] * len(members)
    for member in members:
        sent, told = len(member.root.name), member.told("batch_committed")
        assert [e["on_time"] for e in told] == [sent, sent]
        assert not [*member.told("member_failed"), *member.told("worker_failed")]
        # What is stored is what this one has committed, and nobody else: rows, commits, owner.
        project = Project.load(member.root, member.env)
        source = read_status(project).relations[0]
        assert (source.on_time, source.raw, source.epoch) == (2 * sent, 2 * sent, 2)
        commits = {"clicks": 2, "per_minute": len(member.told("slice_committed")), "sent": None}
        for table, count in commits.items():
            state = load_table(project.storage, table)
            assert state is not None
            assert Owner.of_text(state.properties[OWNER]) == Owner(member.root.name, member.env)
            assert count is None or len(state.commits) == count, table
            assert table != "sent" or state.summary["total-records"] == "1"
    found = {p.name for p in (tmp_path / "warehouse").iterdir() if p.name[0] != "_"}
    assert found == {f"{root}_{env}" for root, env in neighbours}
