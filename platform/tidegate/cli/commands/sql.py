"""`tidegate sql`: statements from the prompt, from an argument, from a file, from a pipe."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.invocation import Invocation, guarded, in_one_line
from tidegate.cli.statements import is_blank, is_complete
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.engine.result import Result
    from tidegate.engine.session import Session

_SHOWN = 1000
_HELP = """\
Statements end with ; and may span lines. Beside SQL:
  \\d          what is defined       \\d NAME     columns of NAME
  \\e NAME     explain NAME          \\?          this help
  \\q          quit (also Ctrl-D)    Ctrl-C      drop what was typed"""


@guarded
def sql(
    call: Invocation,
    command: Annotated[
        str | None, typer.Option("-c", "--command", help="Run these statements.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Run this file; - is stdin.", show_default=False)
    ] = None,
) -> int:
    """Run SQL: interactively, or with -c, -f, or from a pipe. With --json every row is one object.

    Example: tidegate sql -c 'SELECT * FROM departures_hourly LIMIT 5' --json
    """
    script = _script(command, file)
    if script is not None:
        text, name = script
        if is_blank(text):
            return 0
        with call.session(call.project()) as session:
            run_script(session, call.console, text, name, stream=call.json)
        return 0
    with call.session(call.project()) as session:
        interact(session, call.console)
    return 0


def _script(command: str | None, file: Path | None) -> tuple[str, str] | None:
    """(text, name for errors) of what is to be run, or None for the prompt."""
    if command is not None and file is not None:
        raise TidegateError("TG702", "-c and -f exclude each other", hint="give one of them")
    if command is not None:
        return command, "<command>"
    if file is not None and str(file) != "-":
        try:
            return file.read_text(encoding="utf-8-sig"), str(file)
        except OSError as error:
            raise TidegateError("TG702", f"can't read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise TidegateError("TG702", f"{file} is not UTF-8 text", hint="save it as UTF-8") from None
    if file is not None or not sys.stdin.isatty():
        return sys.stdin.read(), "<stdin>"
    return None


def run_script(session: Session, console: Console, text: str, name: str, *, stream: bool) -> None:
    """Run all statements and show each result; `stream` gives rows out as they come, whatever their
    number.
    """
    for result in session.execute_all(text, name):
        show_result(console, result, stream=stream)


def show_result(console: Console, result: Result, *, limit: int | None = None, stream: bool = False) -> None:
    """Rows as a table, else the message. `limit`: draw at most so many rows, and say if there are more."""
    from tidegate.console.port import Table

    if result.has_rows:
        names, types = [n for n, _ in result.columns], [t for _, t in result.columns]
        rows: Any
        if stream and result.dataframe is not None:
            rows = (tuple(row) for row in result.dataframe.toLocalIterator())
        else:
            rows = result.rows(None if limit is None else limit + 1)
        more = limit is not None and not stream and len(rows) > limit
        console.table(Table(names, rows[:limit] if more else rows, types))
        if more:
            console.note(f"the first {limit:,} rows; tidegate sql -c gives all")
    elif result.message:
        console.note(result.message) if stream else console.document({}, result.message)


def interact(session: Session, console: Console) -> None:
    """The prompt: until \\q or the end of input. Errors are shown, and the next statement may be typed."""
    with _editing(session):
        console.note("tidegate SQL: statements end with ;  \\? helps, \\q quits")
        for text in typed_statements(console):
            try:
                _do(session, console, text)
            except TidegateError as error:
                console.error(error)
            except KeyboardInterrupt:
                _stop_jobs(session)
                console.error("interrupted; what was committed stays")
            except Exception as error:
                # One broken statement must not cost the session.
                console.error(f"unexpected {in_one_line(error)}")


def _stop_jobs(session: Session) -> None:
    """After Ctrl-C the JVM is still at work on what nobody waits for."""
    with contextlib.suppress(Exception):
        session.spark.sparkContext.cancelAllJobs()
    logging.disable(logging.NOTSET)


def typed_statements(console: Console) -> Iterator[str]:
    """Complete statements (or one backslash command), as they are typed."""
    buffer = ""
    while True:
        try:
            line = input("tidegate> " if not buffer else "      ... ")
        except KeyboardInterrupt:
            buffer = ""
            console.note("")
            continue
        except EOFError:
            return
        if not buffer and line.strip().lower().rstrip(";") in ("\\q", "quit", "exit"):
            return
        if not buffer and line.lstrip().startswith("\\"):
            yield line.strip()
            continue
        buffer = f"{buffer}\n{line}" if buffer else line
        if is_complete(buffer):
            yield buffer
            buffer = ""
        elif is_blank(buffer):
            buffer = ""


def _do(session: Session, console: Console, text: str) -> None:
    if not text.startswith("\\"):
        for result in session.execute_all(text):
            show_result(console, result, limit=_SHOWN)
        return
    word, _, name = text[1:].rstrip(";").partition(" ")
    name = name.strip()
    if word == "d" and name:
        show_result(console, session.execute(f"DESCRIBE {name}"))
    elif word == "d":
        _list(session, console)
    elif word == "e" and name:
        from tidegate.plan.explain import explain

        explanation = explain(session.catalog, name)
        console.document(explanation.to_dict(), str(explanation))
    elif word in ("?", "h", "help"):
        console.document({}, _HELP)
    else:
        raise TidegateError("TG702", f"no command \\{word}", hint="\\? lists them")


def _list(session: Session, console: Console) -> None:
    from tidegate.console.port import Table

    rows = [(r.name, r.kind, r.watermark.column if r.watermark else None) for r in session.catalog.relations]
    rows += [(v.name, "materialized view", v.upstream) for v in session.catalog.views]
    console.table(Table(["name", "kind", "watermark column, or what it reads"], rows, unit=None))


@contextlib.contextmanager
def _editing(session: Session) -> Iterator[None]:
    """Line editing, history across sessions, and completion of names; nothing where readline is missing."""
    try:
        import readline
    except ImportError:
        yield
        return
    history = session.project.state_dir / "sql_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(history)

    def complete(prefix: str, index: int) -> str | None:
        names = session.catalog.names()
        found = [n for n in names if n.casefold().startswith(prefix.casefold())] if prefix else []
        return found[index] if index < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_history_length(2000)
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
