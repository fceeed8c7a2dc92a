"""The process that does the work of `tidegate live`, with one Spark for all of its groups.

It reads from its standard input which groups it has (`{"open": NAME, "members": […], "interval": SECONDS}`) and which
are to end (`{"stop": NAME}`); when that ends, all groups end. Its standard output is for the supervisor alone: a line
for each event, for each time that it begins to work for a group, and for each group that has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TextIO

from tidegate.cli.invocation import show_traceback
from tidegate.errors import TidegateError
from tidegate.jvm.failures import one_line
from tidegate.jvm.spark import cores
from tidegate.plan.events import Event, WorkerFailed
from tidegate.project import Project
from tidegate.runtime.codes import is_curable
from tidegate.session.live import LiveGroup
from tidegate.session.live_driver import LiveDriver, Pace, Threads
from tidegate.session.session import Session

#: How long a group waits for leases that a process before this one may still hold.
_LEASE_SECONDS = 30.0
#: How many more groups than cores work at a time: most of the time, one of them waits for the store or the broker.
_MORE_THAN_CORES = 2
_FIRST_GROUPS = 0.5


class LiveWorker:
    """`name`: of the only group that it will have, `*`: it may have many."""

    def __init__(self, name: str, project: Project, pace: Pace, max_rows: int | None, debug: bool) -> None:
        self._name, self._project, self._pace = name, project, pace
        self._max_rows, self._debug = max_rows, debug
        self._before = threading.Lock()
        self._asked: list[dict[str, Any] | None] = []
        self._driver: LiveDriver | None = None
        self._opened: set[str] = set()

    def run(self) -> int:
        """Until it is told to end. Exit codes: 0; 1 if Spark does not start, or is gone."""
        # Whatever Spark or a library prints must not get between the lines.
        self._lines = Lines(os.fdopen(os.dup(1), "w", encoding="utf-8"), self._stop, self._debug)
        os.dup2(2, 1)
        self._take_signals()
        threading.Thread(target=self._read, daemon=True).start()
        log = "live" if self._name == "*" else f"live-{self._name}"
        try:
            session = Session.open(self._project, log=log, lasting=True)
        except Exception as error:
            self._refuse(error)
            return 1
        with session:
            # PySpark has taken SIGINT for itself.
            self._take_signals()
            try:
                return 0 if self._drive(session) else 1
            finally:
                # Of a JVM that is gone already nothing is heard but that; why it went was told before.
                with contextlib.suppress(Exception):
                    session.close(stop_spark=True)

    def _drive(self, session: Session) -> bool:
        threads = cores(session.spark) + _MORE_THAN_CORES
        driver = LiveDriver(
            Threads(session.runner.elapsed), self._lines, replace(self._pace, threads=threads)
        )
        self._session = session
        with self._before:
            self._driver, waiting = driver, self._asked
        for document in waiting:
            self._do(driver, document)
        return driver.run()

    # -- what it is told ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Standard input, which ends with the supervisor: without that nobody would ever stop this process."""
        with open(0, encoding="utf-8", closefd=False) as lines:
            for line in lines:
                self._told(json.loads(line))
        self._told(None)

    def _told(self, document: dict[str, Any] | None) -> None:
        with self._before:
            driver = self._driver
            if driver is None:
                self._asked.append(document)
        if driver is not None:
            self._do(driver, document)

    def _do(self, driver: LiveDriver, document: dict[str, Any] | None) -> None:
        if document is None:
            driver.close()
        elif (name := document.get("open")) is not None:
            members = document["members"]
            driver.open(name, lambda stopping: self._group(name, members, stopping), document["interval"])
        else:
            driver.stop(document["stop"])

    def _stop(self) -> None:
        self._told(None)

    def _take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not in the handler: it may interrupt the thread that holds the lock.
            signal.signal(number, lambda *_: threading.Thread(target=self._stop).start())

    # -- groups ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _group(self, name: str, members: list[str], stopping: Callable[[], bool]) -> Iterator[LiveGroup]:
        """Open a group, by a session of its own."""
        again = name in self._opened
        self._opened.add(name)
        # What is started again takes up definitions that have changed.
        project = Project.load(self._project.root, self._project.env_name) if again else None
        with (
            self._session.beside(project) as session,
            LiveGroup(session, members, name, self._max_rows, stopping, patience=_LEASE_SECONDS) as group,
        ):
            yield group

    def _refuse(self, error: Exception) -> None:
        """Tell each group for which this process was started why there is no Spark."""
        known = error if isinstance(error, TidegateError) else None
        code, hint = (known.code, known.hint) if known else (None, None)
        # Groups are told right after the start, and Spark can be refused before the first of them is read.
        time.sleep(_FIRST_GROUPS)
        with self._before:
            names = [document["open"] for document in self._asked if document and "open" in document]
        for name in names:
            self._lines.event(name, WorkerFailed(name, code, one_line(error), hint, is_curable(error)))
            self._lines.ended(name, 2 if known else 1, error)


class Lines:
    """What the supervisor is told (`Told`). If it is gone the groups stop; a commit is never broken off by it."""

    def __init__(self, out: TextIO, stop: Callable[[], None], debug: bool) -> None:
        self._out, self._stop, self._debug = out, stop, debug
        self._lock = threading.Lock()

    def event(self, group: str, event: Event) -> None:
        self._write({"of": group, "event": event.to_dict()})

    def begins(self, group: str) -> None:
        self._write({"of": group, "begins": True})

    def ended(self, group: str, code: int, error: Exception | None) -> None:
        if error is not None and (self._debug or not isinstance(error, TidegateError)):
            show_traceback(error)
        self._write({"of": group, "exit": code})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=False, default=str) + "\n"
        with self._lock:
            try:
                self._out.write(text)
                self._out.flush()
                return
            except (OSError, ValueError):
                pass
        self._stop()
