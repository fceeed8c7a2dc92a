"""The process that does the work of `tidegate live`, with one Spark for all of its groups.

It reads from its standard input, a JSON document in each line, which definitions it goes by (`{"definitions": [[FILE,
TEXT], …], "likeness": DIGEST, "changed": [GROUP, …]}`: those of the supervisor, whatever the files say meanwhile), its
groups (`{"open": NAME, "members": […], "interval": SECONDS, "priority": N, "hung": {MEMBER: TIMES, …}}`), and which are
to end (`{"stop": NAME}`); when that ends, all groups end. Its standard output is for the supervisor alone: a line for
each event, for each time that it begins to work for a group, and that this work is done, and for each group that has
ended.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TextIO

from tidegate.cli.commands.runs.served import OTHER_FILES, Files, Service
from tidegate.cli.invocation import Invocation, show_traceback
from tidegate.errors import TidegateError
from tidegate.jvm.endings import when_gone
from tidegate.jvm.failures import one_line
from tidegate.jvm.spark import cores
from tidegate.plan.events import BatchCommitted, Event, SinkDelivered, SliceCommitted, WorkerFailed
from tidegate.project import Project
from tidegate.runtime.codes import is_curable
from tidegate.session.collector import set_aside
from tidegate.session.hands import Threads
from tidegate.session.live import LiveGroup, settled
from tidegate.session.live_driver import LiveDriver, Pace
from tidegate.session.session import Session
from tidegate.session.visits import Visit, lent
from tidegate.store.machine import CpuMeter
from tidegate.warm.desk import Asked, Declined, Desk
from tidegate.warm.likeness import Likeness
from tidegate.warm.places import found

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog

#: How long a group waits for leases that a process before this one may still hold.
_LEASE_SECONDS = 30.0
#: How long a worker without a supervisor waits for its groups.
_ORPHANED_SECONDS = 120.0
#: How many more groups than cores work at a time: most of the time, one of them waits for the store or the broker.
_MORE_THAN_CORES = 2
_FIRST_GROUPS = 0.5
#: In the mean of so many seconds the CPU is fully used, or not.
_FULL_SECONDS = 10.0
#: How long a run waits for groups that are ticking, and after how many seconds it says so.
_VISIT_SECONDS, _PATIENT_SECONDS = 60.0, 5.0

#: Who is told of the events of a run.
Hear = Callable[[Event], None]


def be_worker(
    call: Invocation,
    name: str,
    max_rows: int | None,
    once_idle: bool,
    no_upkeep: bool,
    hangs_after: float,
) -> int:
    """Do the work of groups, in the process that the supervisor has started for it. `name`: as of `LiveWorker`."""
    pace = Pace(upkeep=not no_upkeep, hangs_after=hangs_after)
    if once_idle:
        pace = replace(pace, over=settled)
    files = Files.of(call)
    return LiveWorker(name, call.project(), files, pace, max_rows, call.debug).run()


@dataclass(frozen=True)
class _Definitions:
    """The definitions by which groups are opened, and of which files they are."""

    project: Project
    likeness: Likeness

    @cached_property
    def catalog(self) -> Catalog:
        """Read once for all groups."""
        return self.project.catalog()


class LiveWorker:
    """`name`: of the only group that it will have, `*`: it may have many."""

    def __init__(
        self, name: str, project: Project, files: Files, pace: Pace, max_rows: int | None, debug: bool
    ) -> None:
        self._name, self._project, self._pace, self._files = name, project, pace, files
        self._max_rows, self._debug = max_rows, debug
        self._before = threading.Lock()
        self._asked: list[dict[str, Any] | None] = []
        self._driver: LiveDriver | None = None
        self._desk: Desk | None = None
        self._now, self._defined = _Definitions(project, files.before), threading.Event()
        #: By group: its members, and of which files it is.
        self._members: dict[str, frozenset[str]] = {}
        self._likeness: dict[str, Likeness] = {}
        self._numbers = itertools.count()

    def run(self) -> int:
        """Until it is told to end. Exit codes: 0; 1 if Spark does not start, or is gone."""
        # Whatever Spark or a library prints must not get between the lines. (An error's text may have a file's name in
        # it, which need not be UTF-8.)
        lines = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
        self._lines = Lines(lines, self._stop, self._debug)
        os.dup2(2, 1)
        self._take_signals()
        threading.Thread(target=self._read, daemon=True).start()
        self._defined.wait()
        files = replace(self._files, before=self._now.likeness)
        several = self._name == "*"
        log = "live" if several else f"live-{self._name}"
        try:
            session = Session.open(self._now.project, log=log, lasting=True, several=several)
        except Exception as error:
            self._refuse(error)
            return 1
        # PySpark has taken SIGINT for itself.
        self._take_signals()
        if not self._drive(session, files):
            # There is nothing left to close, and whatever still waits for Spark must not keep this process: as long as
            # it is there, no other one begins.
            print("tidegate: Spark is gone; this worker process ends", file=sys.stderr, flush=True)
            os._exit(1)
        # Of a JVM that is gone by now nothing is heard but that, and every group has ended.
        with contextlib.suppress(Exception):
            session.close(stop_spark=True)
        return 0

    def _drive(self, session: Session, files: Files) -> bool:
        threads = cores(session.spark) + _MORE_THAN_CORES
        meter = CpuMeter(_FULL_SECONDS, session.runner.elapsed)
        held = replace(self._pace, warm=set_aside, full=lambda: meter.is_full)
        pace = replace(held, threads=threads, patience=_LEASE_SECONDS)
        driver = LiveDriver(Threads(session.runner.elapsed), self._lines, pace, session.runner.answers)
        self._session = session
        when_gone(session.spark, driver.lost)
        with self._before:
            self._driver = driver
            # Before anything that is told from here on.
            for document in self._asked:
                self._do(driver, document)
        service = Service(session, files, self._lends)
        with contextlib.ExitStack() as opened:
            try:
                self._desk = opened.enter_context(service.open_to_commands("live"))
            except OSError as error:
                print(f"tidegate: other commands can't use this Spark: {error}", file=sys.stderr, flush=True)
            return driver.run()

    # -- what it is told ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Standard input, which ends with the supervisor: without that nobody would ever stop this process."""
        parent = os.getppid()
        with open(0, encoding="utf-8", errors="backslashreplace", closefd=False) as lines:
            for line in lines:
                if (document := order_of(line)) is not None:
                    self._told(document)
                else:
                    print(f"tidegate: not understood: {line.rstrip()[:200]}", file=sys.stderr, flush=True)
        self._told(None)
        # (Of a process that is to be replaced the supervisor closes it, too, and waits as long as it was told to.)
        while os.getppid() == parent:
            time.sleep(1.0)
        # As long as this process is there, no other one has the leases of a group that hangs.
        time.sleep(_ORPHANED_SECONDS)
        print("tidegate: the supervisor is gone, and a group does not end", file=sys.stderr, flush=True)
        os._exit(1)

    def _told(self, document: dict[str, Any] | None) -> None:
        if document is not None and "definitions" in document:
            self._go_by(document)
            return
        self._defined.set()
        with self._before:
            if self._driver is None:
                self._asked.append(document)
            else:
                self._do(self._driver, document)

    def _do(self, driver: LiveDriver, document: dict[str, Any] | None) -> None:
        if document is None:
            if self._desk is not None:
                self._desk.close()
            driver.close()
        elif (name := document.get("open")) is not None:
            members, hung = document["members"], document["hung"]
            self._members[name] = frozenset(members)
            pace = interval, _ = document["interval"], document["priority"]
            driver.open(
                name, lambda stopping: self._group(name, members, interval, hung, stopping), *pace, hung
            )
        else:
            driver.stop(document["stop"])

    def _go_by(self, document: dict[str, Any]) -> None:
        texts = tuple((file, text) for file, text in document["definitions"])
        known = Likeness(self._files.before.settings, bytes.fromhex(document["likeness"]))
        # A group that begins again does not see one of them without the other.
        self._now = _Definitions(replace(self._project, texts=texts), known)
        # All others are of the new definitions, too.
        for name in self._likeness.keys() - set(document.get("changed", ())):
            self._likeness[name] = known
        self._defined.set()

    def _stop(self) -> None:
        self._told(None)

    def _take_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            # Not in the handler: it may interrupt the thread that holds the lock.
            signal.signal(number, lambda *_: threading.Thread(target=self._stop).start())

    # -- groups ------------------------------------------------------------------------------------------------

    @contextmanager
    def _group(
        self,
        name: str,
        members: list[str],
        interval: float,
        hung: dict[str, int],
        stopping: Callable[[], bool],
    ) -> Iterator[LiveGroup]:
        """A group, with a session of its own."""
        now = self._now
        self._likeness[name] = now.likeness
        # Who ends when nothing waits has looked for it in the last tick.
        interval = 0.0 if self._pace.over is settled else interval
        with self._session.beside(now.project, now.catalog) as session:
            aside = None if self._pace.over is settled else partial(self._aside, name, now)
            given = session, members, name, self._max_rows, stopping
            yield LiveGroup(*given, interval=interval, beside=aside, hung=hung)

    @contextmanager
    def _aside(self, name: str, now: _Definitions) -> Iterator[tuple[Session, Callable[[], None]]]:
        """A session for what the group does beside its ticks."""
        tag = f"tidegate-beside-{os.getpid()}-{next(self._numbers)}"
        with (
            self._session.beside(now.project, now.catalog) as session,
            session.stoppable(f"{name} beside", tag) as stop,
        ):
            yield session, stop

    @contextmanager
    def _lends(self, session: Session, names: Collection[str], asked: Asked) -> Iterator[Hear]:
        """Let a run that somebody asks for write what groups write."""
        groups = {name: members for name, members in self._members.items() if not members.isdisjoint(names)}
        self._leave_to_others(session, sorted(set(names).difference(*groups.values())))
        for name in groups:
            if name in self._likeness and self._likeness[name].differs(asked.nonce, asked.proof):
                raise Declined(OTHER_FILES)
        of = {member: name for name, members in groups.items() for member in members}
        started, told = session.runner.elapsed(), False

        def waits() -> None:
            nonlocal told
            asked.work.go_on()
            if not told and session.runner.elapsed() - started > _PATIENT_SECONDS:
                told = True
                asked.console.note("waiting for live mode, which is working on the same objects")

        def hear(event: Event) -> None:
            name = next(
                (getattr(event, key) for key in ("source", "view", "sink") if hasattr(event, key)), ""
            )
            if name in of and isinstance(event, BatchCommitted | SliceCommitted | SinkDelivered):
                self._lines.event(of[name], event)
            signs()

        def signs() -> None:
            # All that are lent are healthy for as long as the run goes on.
            for name in visit.begin():
                self._lines.lent(name)

        assert self._driver is not None
        visit = Visit(groups, asked.work.break_off)
        with (
            self._driver.visit(visit, _VISIT_SECONDS, waits) as lenders,
            lent(lenders.values(), session),
        ):
            signs()
            yield hear

    def _leave_to_others(self, session: Session, names: list[str]) -> None:
        """Decline a run for which another process of live mode has the leases: a group may have its own process."""
        if not names or len(found(self._files.root / ".tidegate", self._files.env)) < 2:
            return
        for name in names:
            try:
                with session.lease(name):
                    pass
            except TidegateError as error:
                if error.code == "TG508":
                    raise Declined(f'another process is writing "{name}"') from None
                raise

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


def order_of(line: str) -> dict[str, Any] | None:
    """What a line of the supervisor asks for; None if that is not understood."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("definitions"), list) and isinstance(document.get("likeness"), str):
        return document
    name, interval, members = (document.get(key) for key in ("open", "interval", "members"))
    paced = isinstance(interval, int | float) and isinstance(document.get("priority"), int)
    paced = paced and isinstance(document.get("hung"), dict)
    opens = isinstance(name, str) and isinstance(members, list) and paced
    return document if opens or isinstance(document.get("stop"), str) else None


class Lines:
    """What the supervisor is told (`Told`). If it is gone the groups stop; a commit is never broken off by it."""

    def __init__(self, out: TextIO, stop: Callable[[], None], debug: bool) -> None:
        self._out, self._stop, self._debug = out, stop, debug
        self._lock = threading.Lock()

    def event(self, group: str, event: Event) -> None:
        self._write({"of": group, "event": event.to_dict()})

    def begins(self, group: str) -> None:
        self._write({"of": group, "begins": True})

    def rests(self, group: str) -> None:
        self._write({"of": group, "rests": True})

    def lent(self, group: str) -> None:
        """A run that works in the place of the group gives a sign."""
        self._write({"of": group, "lent": True})

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
