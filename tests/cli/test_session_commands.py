"""`run` and `sql` on a fake session: events, exit codes, interrupts, the prompt."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fake import RUN, FakeSession
from tidegate.cli.invocation import asked as _asked
from tidegate.cli.shell.loop import Shell, history_file
from tidegate.cli.statements import is_complete, is_finished
from tidegate.console import CaptureConsole
from tidegate.errors import Location, TidegateError
from tidegate.plan.events import StepFailed, StepSkipped
from tidegate.project import Project
from tidegate.runtime.result import Failure, RunReport, Skipped, SourceReport

Call = Callable[..., Any]


def test_run_tells_events_and_where_late_rows_are(tidegate: Call, fake: type[FakeSession]) -> None:
    result = tidegate("run", "orders_hourly", "--max-rows-per-batch", "7")
    assert result.exit_code == 0
    assert fake.calls == [(["orders_hourly"], 7)]
    assert "orders: up to date, 14 rows = 12 on time, 1 late, 1 rejected" in result.stdout
    assert "tidegate late orders" in result.stderr


def test_run_json_is_events_then_the_report(tidegate: Call, fake: type[FakeSession]) -> None:
    lines = [json.loads(line) for line in tidegate("run", "--json").stdout.splitlines()]
    assert [line["event"] for line in lines] == [*[e.to_dict()["event"] for e in RUN], "report"]
    assert lines[-1]["sources"][0]["late"] == 1
    assert fake.calls == [(None, None)]


def test_run_of_an_unknown_name_starts_nothing(tidegate: Call, fake: type[FakeSession]) -> None:
    result = tidegate("run", "order")
    assert (result.exit_code, fake.opened) == (2, [])
    assert 'did you mean "orders"?' in result.stderr


@pytest.mark.medium
def test_ctrl_c_exits_with_130_and_says_what_is_committed(tidegate: Call, fake: type[FakeSession]) -> None:
    fake.events = [*RUN[:4], KeyboardInterrupt()]
    result = tidegate("run")
    assert result.exit_code == 130
    assert "orders: 14 rows, batch 1, watermark 2026-03-01 11:10:00" in result.stderr
    fake.events = [RUN[0], KeyboardInterrupt()]
    assert "nothing was committed" in tidegate("run").stderr


def test_a_real_ctrl_c_while_spark_runs_is_ours_and_not_pyspark_s(
    tidegate: Call, fake: type[FakeSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(self: FakeSession, *_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr(FakeSession, "run", pressed)
    result = tidegate("run")
    assert (result.exit_code, "interrupted" in result.stderr) == (130, True)


@pytest.mark.medium
def test_a_selection_runs_just_what_it_says_and_a_name_what_it_reads_too(
    tidegate: Call, fake: type[FakeSession]
) -> None:
    tidegate("run", "orders_hourly")
    tidegate("run", "--select", "orders+", "--exclude", "orders_daily")
    tidegate("run", "-s", "orders_hourly", "-s", "orders_daily")
    assert fake.calls == [
        (["orders_hourly"], None),
        (["orders", "orders_hourly"], None),
        (["orders_hourly", "orders_daily"], None),
    ]
    assert fake.upstream == [True, False, False]
    both = tidegate("run", "orders", "--select", "orders_hourly")
    assert (both.exit_code, "write --select orders" in both.stderr) == (2, True)
    wrong = tidegate("run", "--select", "orders_hurly")
    assert (wrong.exit_code, 'did you mean "orders_hourly"?' in wrong.stderr) == (2, True)


def test_a_run_that_could_not_do_everything_says_what_was_done_and_what_was_not(
    tidegate: Call, fake: type[FakeSession]
) -> None:
    error = TidegateError(
        "TG505", "1.json had 2 bytes", hint="new files", location=Location("a.sql", 1, 1, 6, "CREATE")
    )
    fake.report = RunReport(
        [SourceReport("orders", 1, 12, 1, 1), SourceReport("prices")],
        failed=[
            Failure("prices", "source", error.to_dict()),
            Failure("x", "view", {"code": None, "message": "Oops"}),
        ],
        skipped=[Skipped("prices_daily", "view", "it reads x")],
    )
    fake.events = [
        *RUN[:-1],
        StepFailed("prices", "source", error.to_dict()),
        StepSkipped("y", "view", "it reads x"),
    ]
    result = tidegate("run")
    assert result.exit_code == 1
    assert (
        "prices: source failed: error TG505: 1.json had 2 bytes\n --> a.sql:1:1\n1 | CREATE\n    ^^^^^^"
        in result.stdout
    )
    assert "y: view skipped: it reads x\n" in result.stdout
    assert result.stderr.splitlines()[-6:] == [
        "not everything succeeded: 2 failed, 1 skipped, 1 done",
        "  failed    prices (source): TG505: 1.json had 2 bytes (a.sql:1:1)",
        "            hint: new files",
        "  failed    x (view): Oops",
        "  skipped  prices_daily (view): it reads x",
        "what was committed is kept; the same command continues from there",
    ]
    told = tidegate("run", "--json", "--fail-fast")
    assert told.exit_code == 1
    assert fake.fail_fast == [False, True]
    *events, report = [json.loads(line) for line in told.stdout.splitlines()]
    assert events[-2]["event"] == "step_failed"
    assert events[-2]["error"]["location"]["file"] == "a.sql"
    assert [one["name"] for one in report["failed"]] == ["prices", "x"]
    assert report["skipped"] == [{"name": "prices_daily", "kind": "view", "why": "it reads x"}]


def test_a_failed_run_is_an_exit_code(tidegate: Call, fake: type[FakeSession]) -> None:
    fake.events = [RUN[0], TidegateError("TG505", "a file has changed")]
    result = tidegate("run")
    assert (result.exit_code, "error TG505: a file has changed" in result.stderr) == (2, True)


def test_unexpected_exceptions_are_one_line_and_a_traceback_with_debug(
    tidegate: Call, fake: type[FakeSession]
) -> None:
    result = tidegate("sql", "-c", "BOOM")
    assert result.exit_code == 1
    assert "unexpected RuntimeError: java.lang.Oops: the JVM says\n" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in tidegate("--debug", "sql", "-c", "BOOM").stderr


@pytest.mark.medium
def test_sql_from_argument_file_and_pipe(tidegate: Call, fake: type[FakeSession], tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("SELECT 2;")
    for arguments, piped in (
        (["-c", "SELECT 2"], None),
        (["-f", str(tmp_path / "a.sql")], None),
        (["-f", "-"], "SELECT 2;"),
        ([], "SELECT 2;"),
    ):
        result = tidegate("sql", *arguments, input=piped)
        assert result.stdout == "n\n─\n0\n1\n(2 rows)\n"
    rows = tidegate("sql", "--json", "-c", "SELECT 2; FLUSH").stdout
    assert [json.loads(line) for line in rows.splitlines()] == [{"n": 0}, {"n": 1}]


def test_sql_stops_at_the_first_error_and_names_the_file(
    tidegate: Call, fake: type[FakeSession], tmp_path: Path
) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1; BAD; SELECT 3;")
    result = tidegate("sql", "-f", str(tmp_path / "a.sql"))
    assert (result.exit_code, fake.statements) == (2, ["SELECT 1", "BAD"])
    assert f"{tmp_path / 'a.sql'}:1:1" in result.stderr


def test_sql_input_that_cannot_be_read(tidegate: Call, fake: type[FakeSession], tmp_path: Path) -> None:
    (tmp_path / "b.sql").write_bytes(b"\xff")
    for arguments in (["-f", "nowhere.sql"], ["-f", str(tmp_path / "b.sql")], ["-f", "x", "-c", "y"]):
        result = tidegate("sql", *arguments)
        assert (result.exit_code, "TG702" in result.stderr) == (2, True)
    assert fake.opened == []


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT ';';", True),
        ("SELECT 'it''s;", False),
        ('SELECT "a;b" FROM t;  -- done', True),
        ("SELECT 1 -- not yet;", False),
        ("SELECT 1 /* ; */", False),
        ("SELECT 1; /* open", False),
        ("SELECT 1; SELECT 2", False),
        ("SELECT `a;b`;\n", True),
        (r"SELECT 'it\'s';", True),
        (r"SELECT 'a\';", False),
        ("SELECT 1;\n-- it's over", True),
        ("", False),
        (";", True),
    ],
)
def test_when_a_statement_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("", True),
        ("\\d", True),
        ("\\q", True),
        ("exit", True),
        ("quit;", True),
        ("-- a comment", False),
    ],
)
def test_when_enter_runs_what_is_typed(text: str, finished: bool) -> None:
    assert is_finished(text) is finished


def typed(*inputs: str | type[BaseException]) -> Callable[[], str]:
    """What a person types (or presses), and then the end of input."""
    waiting = iter(inputs)

    def read() -> str:
        given = next(waiting, EOFError)
        if isinstance(given, str):
            return given
        raise given

    return read


def test_the_prompt_survives_everything(shop: Path, fake: type[FakeSession], tmp_path: Path) -> None:
    (tmp_path / "two.sql").write_text("SELECT 1; SELECT 2;")
    console = CaptureConsole()
    inputs = [
        "BAD;",
        "BOOM;",
        KeyboardInterrupt,
        "STOP;",
        "",
        "\\z",
        "\\d",
        "\\d orders",
        "\\e",
        "\\e orders",
    ]
    inputs += ["\\?", f"\\i {tmp_path / 'two.sql'}", "\\i nowhere.sql", "SELECT 1001;", "\\q", "SELECT 5;"]
    Shell(FakeSession(Project.load(shop)), console).run(typed(*inputs))  # type: ignore[arg-type]
    errors = [e.code if isinstance(e, TidegateError) else e for e in console.errors]
    assert errors == [
        "TG103",
        "unexpected RuntimeError: java.lang.Oops: the JVM says",
        "interrupted; what was committed is kept",
        *["TG702"] * 3,
    ]
    assert [row[0] for row in console.tables[0][1]] == ["orders", "orders_hourly", "orders_daily"]
    assert fake.statements[3:] == ['DESCRIBE "orders"', "SELECT 1", "SELECT 2", "SELECT 1001"]
    assert len(console.tables[-1][1]) == 1000
    assert "the first 1,000 rows" in console.notes[-1]


@pytest.mark.parametrize("begun", [True, False])
def test_ctrl_c_while_a_statement_begins_stops_it(
    shop: Path, fake: type[FakeSession], monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """It comes between the start of the statement's thread and the wait for its end; `begun`: the thread was faster."""
    start, late = threading.Thread.start, []

    def interrupted(thread: threading.Thread) -> None:
        if getattr(thread, "_target", None) is None or thread._target.__name__ != "_carry_out":
            start(thread)
            return
        monkeypatch.setattr(threading.Thread, "start", start)
        if begun:
            thread.start()
            thread.join(10)
        else:
            late.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    console = CaptureConsole()
    Shell(FakeSession(Project.load(shop)), console).run(typed("SELECT 1;", "SELECT 2;"))  # type: ignore[arg-type]
    for thread in late:
        thread.start()
        thread.join(10)
    assert console.errors == ["interrupted; what was committed is kept"]
    assert fake.statements == (["SELECT 1", "SELECT 2"] if begun else ["SELECT 2"])


SINKS = """
CREATE SINK exported FROM orders_hourly WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE CSV;
CREATE SINK shown AS SELECT ordered_at FROM orders EMIT ON WINDOW CLOSE WITH (connector = 'console');
"""


def test_the_prompt_lists_sinks_and_says_where_they_deliver_to(shop: Path, fake: type[FakeSession]) -> None:
    (shop / "assets" / "sinks.sql").write_text(SINKS)
    console = CaptureConsole()
    Shell(FakeSession(Project.load(shop)), console).run(typed("\\d", "\\d exported"))  # type: ignore[arg-type]
    assert console.tables[0][1][-2:] == [
        ("exported", "sink", "orders_hourly to filesystem out"),
        ("shown", "sink", "orders to console"),
    ]
    assert fake.statements == ['DESCRIBE "exported"']
    assert console.notes[-1] == "sink: orders_hourly to filesystem out"


def test_commands_that_change_the_prompt(shop: Path, fake: type[FakeSession]) -> None:
    console = CaptureConsole()
    shell = Shell(FakeSession(Project.load(shop)), console)  # type: ignore[arg-type]
    shell.run(typed("\\x", "\\timing", "SELECT 1;"))
    assert (shell.layout, shell.timing) == ("blocks", True)
    assert "time: " in console.notes[-1]
    shell.run(typed("\\x", "\\timing off"))
    assert (shell.layout, shell.timing) == ("grid", False)
    shell.run(typed("\\x auto", "\\timing maybe"))
    assert (shell.layout, str(console.errors[-1])) == ("auto", 'error TG702: "maybe" is not one of on, off')


def test_history_is_kept_with_the_project_or_the_user(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file(Project.load(shop)) == shop / ".tidegate" / "shell_history"
    temporary = Project.temporary()
    assert history_file(temporary) == tmp_path / "tidegate" / "shell_history"
    temporary.remove()


def test_sql_without_a_project_runs_in_a_temporary_one(
    tidegate: Call, fake: type[FakeSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = tidegate("sql", "-c", "SELECT 1")
    assert (result.exit_code, result.stdout) == (0, "n\n─\n0\n(1 row)\n")
    assert "this folder is not a project" in result.stderr
    assert fake.opened[0].is_temporary
    fake.opened[0].remove()
    # One that was asked for must be there.
    for option in (["--project", str(tmp_path)], ["--env", "local"]):
        result = tidegate("sql", "-c", "SELECT 1", *option)
        assert (result.exit_code, "TG601" in result.stderr) == (2, True)


def test_run_in_an_empty_project(tidegate: Call, fake: type[FakeSession], shop: Path) -> None:
    (shop / "assets" / "orders.sql").unlink()
    result = tidegate("run")
    assert (result.exit_code, fake.opened) == (0, [])
    assert "no definitions yet" in result.stderr


def test_T2_cleanup_says_what_it_did(tidegate: Call, fake: type[FakeSession], shop: Path) -> None:
    nothing = tidegate("cleanup")
    assert (nothing.exit_code, fake.opened) == (0, [])
    assert "no table has a PRIMARY KEY" in nothing.stderr
    prices = "CREATE TABLE prices (item VARCHAR PRIMARY KEY, price DECIMAL);"
    (shop / "assets" / "prices.sql").write_text(prices, encoding="utf-8")
    result = tidegate("cleanup", "prices")
    assert (result.exit_code, result.stdout) == (0, "prices: 12 files before, 3 after\n")
    assert fake.calls == [(["prices"], None)]
    document = json.loads(tidegate("cleanup", "--json").stdout)
    assert document == {"cleaned": [{"table": "prices", "files_before": 12, "files_after": 3}]}
    assert tidegate("cleanup", "price").exit_code == 2


@pytest.mark.parametrize(("answer", "agrees"), [("y", True), (" Yes ", True), ("", False), ("n", False)])
def test_W9_the_prompt_asks_before_results_stay_behind_a_reset(
    answer: str, agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    assert _asked("these results stay") is agrees
    assert asked == ["these results stay\nContinue? [y/N] "]


def test_W9_a_script_agrees_with_yes_and_is_not_asked(
    tidegate: Call, fake: type[FakeSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(fake, "close", lambda self: asked.append(self.confirm))
    for arguments in (["--yes"], []):
        assert tidegate("sql", "-c", "SELECT 1", *arguments).exit_code == 0
    agreed, nobody = asked
    assert callable(agreed)
    assert agreed("these results stay") is True
    assert nobody is None
