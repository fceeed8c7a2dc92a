"""The prompt's loop: read, run, show, and go on whatever happens."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli.invocation import in_one_line
from tidegate.cli.shell.meta import COMMANDS, help_text
from tidegate.cli.shell.showing import show_in_shell
from tidegate.cli.statements import is_blank, is_quit, read_script
from tidegate.errors import TidegateError, did_you_mean

if TYPE_CHECKING:
    from tidegate.cli.shell.elsewhere import OtherProcess, SessionAtNeed
    from tidegate.console.port import Console, Layout
    from tidegate.project import Project
    from tidegate.session.session import Session
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Sink


@dataclass
class Shell:
    """What the prompt's commands have set: `layout` of tables, and whether to say how long things take.
    `elsewhere`: who else may answer."""

    session: Session | SessionAtNeed
    console: Console
    layout: Layout = "grid"
    timing: bool = False
    elsewhere: OtherProcess | None = None

    def run(self, read: Callable[[], str]) -> None:
        """Until `\\q` or the end of input. Errors are shown, and the next statement may be typed."""
        self.console.note("tidegate SQL: statements end with ;  \\? helps, \\q quits")
        while True:
            try:
                text = read()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if is_quit(text):
                return
            if not is_blank(text):
                self._survive(text)

    def _survive(self, text: str) -> None:
        started = time.monotonic()
        # On a thread of its own: Ctrl-C then never breaks into a call to the JVM, which would cost the connection.
        work: Future[None] = Future()
        try:
            # Ctrl-C may come as early as here: the thread is started, and this one still waits to hear of it.
            threading.Thread(target=self._carry_out, args=(work, text), daemon=True).start()
            work.result()
        except TidegateError as error:
            self.console.error(error)
        except KeyboardInterrupt:
            self._cancel(work)
            self.console.error("interrupted; what was committed is kept")
        except Exception as error:
            # One broken statement must not cost the session.
            self.console.error(f"unexpected {in_one_line(error)}")
        if self.timing:
            self.console.note(f"time: {(time.monotonic() - started) * 1000:,.0f} ms")

    def _carry_out(self, work: Future[None], text: str) -> None:
        if not work.set_running_or_notify_cancel():
            return
        try:
            self._do(text)
        except BaseException as error:
            work.set_exception(error)
        else:
            work.set_result(None)

    def _cancel(self, work: Future[None]) -> None:
        """Stop the jobs of a statement until it has ended: it may be between two of them. One that has not begun never
        will. A second Ctrl-C leaves."""
        while not work.cancel() and not work.done():
            if self.elsewhere is not None:
                self.elsewhere.stop()
            with contextlib.suppress(Exception):
                self.session.spark.sparkContext.cancelAllJobs()
            with contextlib.suppress(Exception):
                work.exception(timeout=0.5)
        logging.disable(logging.NOTSET)

    def _do(self, text: str) -> None:
        if text.lstrip().startswith("\\"):
            self._command(text.strip())
        else:
            self._statements(text, "<sql>")

    def _statements(self, text: str, name: str) -> None:
        if self.elsewhere is not None and self.elsewhere.answers(text, name, self.layout):
            return
        for result in self.session.execute_all(text, name):
            show_in_shell(self.console, result, self.layout)

    def _command(self, text: str) -> None:
        word, _, argument = text.rstrip(";").partition(" ")
        argument = argument.strip()
        if word == "\\d" and argument:
            self._statements(f"DESCRIBE {_identifier(argument)}", "<sql>")
            if sink := self.session.catalog.sinks.find(argument.strip('"')):
                self.console.note(f"sink: {_delivery(self.session.catalog, sink)}")
        elif word == "\\d":
            self._list()
        elif word == "\\e" and argument:
            from tidegate.plan.explain import explain
            from tidegate.runtime.kafka_reading import read_by

            reading = partial(read_by, master=self.session.project.env.spark.master)
            explanation = explain(self.session.catalog, argument.strip('"'), reading=reading)
            self.console.document(explanation.to_dict(), str(explanation))
        elif word == "\\x":
            layouts: dict[str, Layout] = {"on": "blocks", "off": "grid", "auto": "auto"}
            turned = "off" if self.layout == "blocks" else "on"
            self.layout = layouts[_one_of(argument or turned, layouts)]
            self.console.note(
                {"blocks": "rows as blocks", "grid": "rows as a table"}.get(
                    self.layout, "the width of the terminal decides"
                )
            )
        elif word == "\\timing":
            turned = "off" if self.timing else "on"
            self.timing = _one_of(argument or turned, ("on", "off")) == "on"
            self.console.note(f"timing is {'on' if self.timing else 'off'}")
        elif word == "\\i" and argument:
            self._statements(read_script(Path(argument)), argument)
        elif word in ("\\?", "\\h", "\\help"):
            self.console.document({}, help_text())
        else:
            known = [c.word for c in COMMANDS]
            what = f"{word} needs a name" if word in known else f"there is no command {word}"
            raise TidegateError("TG702", what, hint=did_you_mean(word, known) or "\\? lists them")

    def _list(self) -> None:
        from tidegate.console.port import Table

        catalog = self.session.catalog
        rows = [(r.name, r.kind, r.watermark.column if r.watermark else None) for r in catalog.relations]
        rows += [(v.name, "materialized view", ", ".join(v.reads)) for v in catalog.views]
        rows += [(s.name, "sink", _delivery(catalog, s)) for s in catalog.sinks]
        names = ["name", "kind", "watermark column, or what it reads"]
        self.console.table(Table(names, rows, unit=None, layout=self.layout))


def interact(
    session: Session | SessionAtNeed, console: Console, elsewhere: OtherProcess | None = None
) -> None:
    """The prompt on this terminal."""
    from tidegate.cli.shell.prompt import reader

    shell = Shell(session, console, elsewhere=elsewhere)
    shell.run(reader(lambda: session.catalog, history_file(session.project)))


def history_file(project: Project) -> Path:
    """What was typed is kept with the project; with the user where the project is a temporary one."""
    if not project.is_temporary:
        return project.state_dir / "shell_history"
    state = os.environ.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path.home() / ".local" / "state"
    return folder / "tidegate" / "shell_history"


def _delivery(catalog: Catalog, sink: Sink) -> str:
    """What it delivers, and where to."""
    from tidegate.sql.catalog.lineage import reads_of

    connector = sink.connector.connector
    to = connector if sink.place == connector else f"{connector} {sink.place}"
    return f"{', '.join(o.name for o in reads_of(catalog, sink))} to {to}"


def _identifier(name: str) -> str:
    plain = name.strip('"')
    return '"' + plain.replace('"', '""') + '"'


def _one_of(word: str, known: Collection[str]) -> str:
    if word not in known:
        raise TidegateError("TG702", f'"{word}" is not one of {", ".join(known)}')
    return word
