"""`tidegate run` and `tidegate sql` that a live worker carries out, on the runner without a JVM: the same output as by
themselves, and live mode goes on with the next row."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.inprocess.session import open_session, without_a_jvm
from tests.session.test_live_driver import Heard, opening
from tests.session.test_live_driver import project as written
from tidegate.cli.commands.runs import served
from tidegate.cli.commands.runs.live_worker import LiveWorker
from tidegate.cli.commands.runs.served import Files, Pools, Service
from tidegate.cli.main import app
from tidegate.console import CaptureConsole
from tidegate.errors import TidegateError
from tidegate.plan import events
from tidegate.project import Project
from tidegate.session.hands import Threads
from tidegate.session.live_driver import LiveDriver, Pace
from tidegate.session.session import Session
from tidegate.session.visits import Visit
from tidegate.warm import places
from tidegate.warm.asking import Conversation
from tidegate.warm.desk import Declined
from tidegate.warm.likeness import likeness_of

pytestmark = pytest.mark.runner("inprocess")

_PATIENCE = 300.0


def say(*arguments: object) -> Any:
    """Call `tidegate`, in this process."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        return CliRunner().invoke(app, [str(one) for one in arguments])
    finally:
        signal.signal(signal.SIGINT, handler)
        logging.disable(logging.NOTSET)


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sessions that need no JVM."""
    monkeypatch.setattr(Session, "open", lambda project, **_: open_session(project.root))
    monkeypatch.setattr(
        Session, "beside", lambda self, project=None, catalog=None: open_session(self.project.root)
    )
    monkeypatch.setattr(Session, "stoppable", lambda self, pool, tag: nullcontext(lambda: None))
    monkeypatch.setattr("tidegate.cli.invocation.Invocation.require_java", lambda self: None)
    with without_a_jvm():
        yield


class OneThreadAtATime(Threads):
    """Each piece of work has a thread that ends with it: none is left with a session of the engine in this process."""

    def start(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work).start()


class Worker(LiveWorker):
    """Of the groups `a` and `b`, whose events `heard` has; ticks come once an hour."""

    def __init__(self, root: Path) -> None:
        environ = dict(os.environ)
        files = Files(root, "local", environ, likeness_of(root, "local", environ))
        super().__init__("*", Project.load(root), files, Pace(), None, False)
        self.session, self.heard = open_session(root), Heard()
        self._lines = self.heard  # type: ignore[assignment]  # who is told in its place
        pace = Pace(interval=3600.0, upkeep=False, threads=1)
        self._driver = LiveDriver(OneThreadAtATime(time.monotonic), self.heard, pace)
        self.heard.driver = self._driver

    @contextmanager
    def running(self, *groups: str) -> Iterator[Worker]:
        self.heard.left = set(groups)
        assert self._driver is not None
        for name in groups:
            self._members[name] = frozenset((name, f"{name}_minutes"))
            self._likeness[name] = self._files.before
            self._driver.open(name, opening(open_session(self.session.project.root), name))
        thread = threading.Thread(target=self._driver.run)
        thread.start()
        try:
            self.wait(partial(self.have_ticked, dict.fromkeys(groups, 1)))
            with Service(self.session, self._files, self._lends).open_to_commands("live"):
                yield self
        finally:
            self._driver.close()
            thread.join(_PATIENCE)
        assert not thread.is_alive()

    def ticks(self, name: str) -> int:
        return len(self.heard.of(name, events.TickFinished))

    def have_ticked(self, times: dict[str, int]) -> bool:
        return all(self.ticks(name) >= count for name, count in times.items())

    def wait(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not what():
            assert time.monotonic() < deadline, self.heard.told
            time.sleep(0.01)


def more(workbench: Workbench, name: str, number: int, *minutes: str) -> None:
    rows = [{"page": "a", "ts": f"2026-01-01 {minute}:30"} for minute in minutes]
    workbench.json_lines(f"in/{name}/{number}.json", rows)


def plain(text: str) -> str:
    """Without durations."""
    text = re.sub(r'"((?:commit_)?seconds)": [\d.e-]+', r'"\1": 0', text)
    return re.sub(r"[\d.]+ s\b(, [\d,]+ rows/s)?|[–\d,]+ rows/s", "0 s", text)


#: What a person or a program asks for, and the groups that are lent to it: new rows have come, one of them is late.
COMMANDS: list[tuple[list[str], str]] = [
    (["run", "a_minutes"], "a"),
    (["run"], "ab"),
    (["run", "--json"], "ab"),
    (["run", "--select", "a", "--json"], "a"),
    (["run", "nothing"], ""),
    (["run", "--select", "nothing"], ""),
    (["run", "a", "--max-rows-per-batch", "1"], "a"),
    (["sql", "-c", "SELECT window_start, n FROM a_minutes ORDER BY 1"], ""),
    (["sql", "-c", "SELECT window_start, n FROM a_minutes ORDER BY 1", "--json"], ""),
    (["sql", "-c", "SELECT 1 AS x; SHOW MATERIALIZED VIEWS; SELECT nope FROM a"], ""),
    (["sql", "-c", "SELECT 1 AS x; SHOW MATERIALIZED VIEWS; SELECT nope FROM a", "--json"], ""),
    (["sql", "-c", "DESCRIBE a; EXPLAIN a_minutes; SHOW timezone"], ""),
]


def test_R4_commands_say_the_same_with_and_without_a_worker(tmp_path: Path) -> None:
    alone, beside = Workbench(tmp_path / "x" / "p", None), Workbench(tmp_path / "y" / "p", None)
    for bench in (alone, beside):
        written(bench, "a", "b")
    first = say("run", "--project", alone.root)
    assert first.exit_code == 0, first.output + first.stderr
    worker = Worker(beside.root)
    with worker.running("a", "b"):
        # The first run finds nothing that waits; live mode has read it.
        worker.wait(partial(worker.have_ticked, {"a": 3, "b": 3}))
        for number, (command, lent) in enumerate(COMMANDS, 10):
            said, ticks = [], {name: worker.ticks(name) + 1 for name in lent}
            for bench in (alone, beside):
                for name in lent:
                    more(bench, name, number, f"12:{number}", "12:00")
                said.append(say(*command, "--project", bench.root))
            one, other = said
            assert plain(other.stdout) == plain(one.stdout), command
            assert other.exit_code == one.exit_code, command
            assert "not used" not in other.stderr, other.stderr
            assert plain(other.stderr) == plain(one.stderr.replace("starting Spark …\n", "")), command
            # What was lent ticks at once; where there is no live mode, the same is done by hand.
            worker.wait(partial(worker.have_ticked, ticks))
            for name in lent:
                assert say("run", f"{name}_minutes", "--project", alone.root).exit_code == 0
    # Each row once, whoever has read it; the events of a run are told to live mode, too.
    assert sum(told.rows for told in worker.heard.of("a", events.BatchCommitted)) == 3 + 2 * 5
    # All that are lent are told to be at work, also while the run is not working on them.
    assert {"a", "b"} == set(worker.heard.lent_out)
    assert counted(beside.root) == counted(alone.root)


def counted(root: Path) -> list[tuple[Any, ...]]:
    with open_session(root) as session:
        columns = {"a_minutes": ["*"], "b_minutes": ["*"], "a$late": ["page", "ts", "watermark"]}
        return [
            sorted(map(tuple, session.table(name).select(*wanted).collect()))
            for name, wanted in columns.items()
        ]


def test_R2_live_mode_goes_on_after_a_run(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "p", None)
    written(bench, "a")
    worker = Worker(bench.root)
    with worker.running("a"):
        worker.wait(lambda: worker.ticks("a") >= 3)
        more(bench, "a", 10, "12:10")
        before = worker.ticks("a")
        assert say("run", "a", "--project", bench.root).exit_code == 0
        # It ticks at once, and closes what the run has left open.
        worker.wait(lambda: worker.ticks("a") > before)
        assert worker.heard.of("a", events.MemberFailed) == []
        closed = worker.heard.of("a", events.SliceCommitted)[-1]
        assert closed.frontier == "2026-01-01 12:10:25"


def test_R4_a_worker_of_other_definitions_reads_them_again_for_questions_and_is_not_used_for_runs(
    tmp_path: Path,
) -> None:
    bench = Workbench(tmp_path / "p", None)
    written(bench, "a")
    with Worker(bench.root).running("a"):
        bench.assets(c="CREATE TABLE c (n INT) APPEND ONLY;")
        asked = say("sql", "-c", "DESCRIBE c", "--project", bench.root)
        assert (asked.exit_code, asked.stderr) == (0, "")
        more(bench, "a", 10, "12:10")
        refused = say("run", "a", "--project", bench.root)
        assert "the running Spark of this project is not used: it has read other files" in refused.stderr
        # As ever: live mode has the lease.
        assert (refused.exit_code, "TG508" in refused.stderr) == (1, True)
        bench.allow(variables=["X"])
        asked = say("sql", "-c", "DESCRIBE c", "--project", bench.root)
        assert "it was started with another release, other files in resources/" in asked.stderr
        assert asked.exit_code == 0


def test_a_run_of_what_live_mode_does_not_run_is_carried_out_unless_another_process_writes_it(
    tmp_path: Path,
) -> None:
    bench = Workbench(tmp_path / "p", None)
    written(bench, "a", "b")
    with Worker(bench.root).running("a"):
        done = say("run", "b", "--project", bench.root)
        assert (done.exit_code, done.stderr) == (0, "")
        more(bench, "b", 10, "12:10")
        # A group with a process of its own: that one is asked for it.
        (places.folder_of(bench.root / ".tidegate", "local") / "live-elsewhere-7").touch()
        with open_session(bench.root).lease("b"):
            done = say("run", "b", "--project", bench.root)
        assert (done.exit_code, 'another process is writing "b"' in done.stderr) == (1, True)
        done = say("run", "b", "--project", bench.root)
        assert (done.exit_code, done.stderr) == (0, "")


def test_X1_a_worker_declines_what_changes_something(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "p", None)
    written(bench, "a")
    with Worker(bench.root).running("a"):
        console = CaptureConsole()
        text = "SELECT 1; DROP SOURCE a"
        assert Conversation(bench.root, "local", console).ask({"ask": "sql", "text": text}) is None
        assert "only answers statements that read" in console.notes[0]


def test_a_result_that_is_too_large_to_be_drawn_is_drawn_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_MOST_ROWS", 2)
    bench = Workbench(tmp_path / "p", None)
    written(bench, "a")
    question = ["sql", "--project", bench.root, "-c"]
    with Worker(bench.root).running("a"):
        two, three = "SELECT 1 AS x UNION ALL SELECT 2", "SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 3"
        assert say(*question, two).stderr == ""
        # Nothing was said of the first statement yet: it would be said twice.
        done = say(*question, f"{two}; {three}")
        assert "is not used: a result has more than 2 rows" in done.stderr
        assert (done.exit_code, done.stdout.count("rows)")) == (0, 2), done.stdout
        done = say(*question, f"{two}; {three}", "--json")
        assert (done.stderr, len(done.stdout.splitlines())) == ("", 5)


def test_names_of_pools_are_used_again() -> None:
    pools = Pools("p")
    with pools.one() as one:
        with pools.one() as two:
            assert (one, two) == ("p-1", "p-2")
        with pools.one() as two:
            assert two == "p-2"
    with pools.one() as one, pools.one() as two:
        assert (one, two) == ("p-1", "p-2")


class Busy:
    """A group of the driver that ticks until it is told."""

    def __init__(self) -> None:
        self.ticking, self.free = threading.Event(), threading.Event()


def test_a_run_waits_for_a_tick_and_gives_way_to_the_end_of_a_group(tmp_path: Path) -> None:
    workbench = Workbench(tmp_path / "p", None)
    written(workbench, "a")
    session, heard, busy = workbench.session(), Heard(), Busy()
    heard.left = {"a"}
    driver = LiveDriver(OneThreadAtATime(time.monotonic), heard, Pace(interval=3600.0, upkeep=False))
    heard.driver = driver

    @contextmanager
    def slow(stopping: Callable[[], bool]) -> Iterator[Any]:
        with opening(session, "a")(stopping) as group:
            tick = group.tick

            def waits(notify: Any, waited: float = 0.0, lends: bool = False) -> bool:
                busy.ticking.set()
                assert busy.free.wait(_PATIENCE)
                return tick(notify, lends=lends)

            group.tick = waits  # type: ignore[method-assign]  # a tick that takes as long as the test wants
            yield group

    driver.open("a", slow)
    thread = threading.Thread(target=driver.run)
    thread.start()
    assert busy.ticking.wait(_PATIENCE)
    looks: list[int] = []
    left = threading.Event()
    # Within the time that a run waits, the group has not come: the run goes on without it, and meets its lease.
    with driver.visit(Visit(["a", "gone"]), 0.3, lambda: looks.append(1)) as lent:
        assert (lent, bool(looks)) == ({}, True)
        with pytest.raises(TidegateError, match="another process"), workbench.session().lease("a"):
            pass

    def cancelled() -> None:
        raise Declined

    with pytest.raises(Declined), driver.visit(Visit(["a"]), 30.0, cancelled):
        pass
    busy.free.set()
    with driver.visit(Visit(["a"], left.set), 60.0, lambda: None) as lent:
        assert list(lent) == ["a"]
        assert "a" in heard.at_work
        ticks = len(heard.of("a", events.TickFinished))
        driver.close()
        assert left.wait(_PATIENCE)
        assert len(heard.of("a", events.TickFinished)) == ticks
        assert thread.is_alive()
    thread.join(_PATIENCE)
    assert not thread.is_alive()
    assert heard.told[-1] == ("a", 0)


def test_a_warm_process_works_for_others_until_it_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Workbench(tmp_path / "p", None)
    written(bench, "a")
    monkeypatch.setattr("tidegate.jvm.endings.when_gone", lambda spark, call: None)
    console, asked = CaptureConsole(), list[int | None]()
    talk = Conversation(bench.root, "local", console)

    def asks() -> None:
        deadline = time.monotonic() + _PATIENCE
        while not places.found(bench.root / ".tidegate", "local"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        asked.append(talk.ask({"ask": "run", "names": ["a_minutes"]}))
        asked.append(talk.ask({"ask": "sql", "text": "SELECT count(*) AS n FROM a_minutes", "name": "x"}))

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    other = threading.Thread(target=asks)
    other.start()
    done = say("warm", "--idle", "1s", "--project", bench.root, "--json")
    other.join(_PATIENCE)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert (done.exit_code, asked) == (0, [0, 0]), done.output
    assert json.loads(done.stdout) == {"event": "warm_ready", "pid": os.getpid(), "idle_seconds": 1.0}
    assert console.texts == ["n\n─\n2\n(1 row)"]
    assert console.notes == []
    assert places.found(bench.root / ".tidegate", "local") == []


def test_a_warm_process_that_nobody_could_reach_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Workbench(tmp_path / "p", None)
    written(bench, "a")
    monkeypatch.setattr("tidegate.jvm.endings.when_gone", lambda spark, call: None)
    (bench.root / ".tidegate").mkdir()
    (bench.root / ".tidegate" / "workers").write_text("")
    done = say("warm", "--project", bench.root)
    assert (done.exit_code, "TG708" in done.stderr) == (2, True)
