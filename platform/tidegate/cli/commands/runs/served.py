"""What a worker does for commands that ask it (`warm`): `tidegate run`, `tidegate status`, and statements that only
read.

It is the code of the commands themselves, with the console of whoever has asked, in a session of its own.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tidegate.cli.asked import StatusRequest, project_folder
from tidegate.cli.commands.questions.status_answer import tell_status
from tidegate.cli.commands.runs.run import Run, RunRequest, bring_up_to_date
from tidegate.cli.commands.runs.sql import run_script
from tidegate.cli.invocation import Invocation, tell_error
from tidegate.cli.shell.showing import show_in_shell
from tidegate.console.port import Console
from tidegate.errors import TidegateError
from tidegate.plan.events import Event, StepFailed
from tidegate.project import Project
from tidegate.runtime.lending import with_lent_views
from tidegate.runtime.stored_gates import with_gate_names
from tidegate.session.run import select, select_sinks
from tidegate.session.session import Session, needed_packages, packages
from tidegate.sql.catalog.catalog import Catalog, no_version
from tidegate.sql.statements.questions import only_reads
from tidegate.warm.desk import Asked, Cancelled, Declined, Desk, Work
from tidegate.warm.likeness import Likeness, likeness_of
from tidegate.warm.places import listening
from tidegate.warm.relay import RelayConsole

if TYPE_CHECKING:
    from tidegate.runtime.result import Result, RunReport

OTHER_FILES = (
    "it has read other files in assets/, or other environment variables: tidegate reload, or start it again"
)
OTHER_SETTINGS = (
    "it was started with another release, other files in resources/, other environment variables, or for another "
    "path to the project: restart it"
)

#: Larger results are drawn by the command itself: drawing needs all rows in memory, and this is that of live mode.
_MOST_ROWS = 10_000

#: How long what is under way may take to end.
_END_SECONDS = 20.0

#: Lends a run the groups that write what it writes, while it works: `lends(session, names, asked)`. Raises Declined.
Lends = Callable[[Session, Collection[str], Asked], AbstractContextManager[Callable[[Event], None]]]


@dataclass(frozen=True)
class _Read:
    """The definitions as they were read."""

    likeness: Likeness
    project: Project
    catalog: Catalog


@dataclass(frozen=True)
class _Caller:
    """Who has asked, as far as a command says something to it."""

    console: Console
    json: bool
    debug: bool = False


@dataclass(frozen=True)
class Files:
    """The files of a project, and the variables of this process, as they were `before` the project was loaded, and
    before Spark has added variables of its own."""

    root: Path
    env: str
    environ: Mapping[str, str]
    before: Likeness

    @classmethod
    def of(cls, call: Invocation) -> Files:
        """Of the project of a command."""
        root, environ = project_folder(call), dict(os.environ)
        return cls(root, call.env, environ, likeness_of(root, call.env, environ))

    def now(self) -> Likeness:
        """As the files are now."""
        return likeness_of(self.root, self.env, self.environ)


class Service:
    """Commands on one Spark. `files`: of the project of `session`; `lends`: see `Lends`; None: nobody in this process
    writes anything but the runs that are asked for."""

    def __init__(self, session: Session, files: Files, lends: Lends | None = None) -> None:
        self._session, self._files = session, files
        self._lends: Lends = lends or (lambda session, names, asked: nullcontext(lambda event: None))
        # What changed while it was loaded is of no known state.
        # (A session's own catalog is without the sinks of the environment that it only reads.)
        catalog = session.catalog.copied() if session.project.lender is None else session.project.catalog()
        # (As the files define it, and as commands know it: a session's own finds stored versions, too.)
        catalog.versions = no_version
        #: With what Spark was started.
        self._packages = frozenset(packages(session.project, catalog))
        known = files.before if files.now() == files.before else Likeness(os.urandom(8), os.urandom(8))
        self._read = _Read(known, session.project, catalog)
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(1)
        self._pools = Pools("tidegate-command")

    @contextmanager
    def open_to_commands(self, kind: str) -> Iterator[Desk]:
        """Listen while the block runs. Raises OSError where there can be no socket."""
        project = self._session.project
        with listening(project.state_dir, project.env_name, kind) as made:
            desk = Desk(made, {"sql": self._sql, "run": self._run, "status": self._status}, looks={"status"})
            try:
                yield desk
            finally:
                desk.close()
                desk.wait(_END_SECONDS)

    # -- answers -----------------------------------------------------------------------------------------------

    def _sql(self, asked: Asked) -> int:
        text, name = str(asked.request.get("text")), str(asked.request.get("name"))
        if not only_reads(text):
            raise Declined("it only answers statements that read")
        read, shell = self._definitions(asked), asked.request.get("layout")
        with self._told(asked) as outcome, self._working(asked.work, read) as session:
            if isinstance(shell, str):
                for result in session.execute_all(text, name):
                    show_in_shell(asked.console, result, shell)
            else:
                _run_script(session, asked, text, name)
        return outcome.code

    def _run(self, asked: Asked) -> int:
        request: dict[str, Any] = {key: asked.request.get(key) for key in RunRequest.__dataclass_fields__}
        read, wanted = self._definitions(asked), RunRequest(**request)
        caller = _Caller(asked.console, asked.console.shape.json)
        heard: list[Callable[[Event], None]] = []

        def on_event(event: Event) -> None:
            if isinstance(event, StepFailed):
                # What has failed because it was cancelled is not said.
                asked.work.go_on()
            for hear in heard:
                hear(event)
            asked.console.event(event)

        def work(run: Run) -> RunReport:
            names = _written(read.catalog, wanted)
            with (
                self._working(asked.work, read) as session,
                self._lends(session, names, asked) as hear,
            ):
                heard.append(hear)
                return run(session)

        with self._told(asked) as outcome:
            try:
                outcome.code = bring_up_to_date(caller, read.project, read.catalog, wanted, on_event, work)
            except typer.BadParameter as error:
                raise Declined(str(error)) from None
        return outcome.code

    def _status(self, asked: Asked) -> int:
        request = {key: asked.request.get(key) for key in StatusRequest.__dataclass_fields__}
        read, wanted = self._definitions(asked), StatusRequest(**request)  # type: ignore[arg-type]  # from a command
        # One at a time: the metadata of all tables are in memory meanwhile, and who waits here keeps others out.
        if not self._looking.acquire(blocking=False):
            raise Declined("it is answering another tidegate status")
        try:
            with self._told(asked) as outcome:
                # What a project remembers of its storage may be of an earlier moment.
                project = with_lent_views(replace(read.project))
                try:
                    tell_status(asked.console, project, read.catalog, wanted)
                except TidegateError:
                    raise
                except Exception as error:
                    # Of this process, perhaps: nothing was said yet, and the command can find out by itself.
                    raise Declined("it has failed") from error
            return outcome.code
        finally:
            self._looking.release()

    # -- with a session ----------------------------------------------------------------------------------------

    @contextmanager
    def _working(self, work: Work, read: _Read) -> Iterator[Session]:
        """A session for one command, which can be stopped."""
        tag = f"tidegate-command-{os.getpid()}-{next(self._numbers)}"
        work.go_on()
        with (
            self._session.beside(read.project, read.catalog) as session,
            self._pools.one() as pool,
            session.stoppable(pool, tag) as stop,
        ):
            work.stopping.append(partial(_stop_if_cancelled, work, stop))
            yield session

    @contextmanager
    def _told(self, asked: Asked) -> Iterator[_Outcome]:
        """Whatever the block raises is said, as the command would say it."""
        outcome = _Outcome()
        try:
            yield outcome
        except Declined:
            raise
        except Exception as error:
            # What has failed because it was cancelled is not said.
            asked.work.go_on()
            outcome.code = tell_error(error, asked.console)

    def _definitions(self, asked: Asked) -> _Read:
        """The definitions that the command has, read again if they have changed."""
        with self._lock:
            if self._differs(asked, self._read.likeness):
                self._read = self._read_again(asked)
            return self._read

    def _read_again(self, asked: Asked) -> _Read:
        before = self._files.now()
        if self._differs(asked, before):
            raise Declined(OTHER_FILES)
        try:
            root, env = self._session.project.root, self._session.project.env_name
            project = with_gate_names(Project.load(root, env))
            read = _Read(before, project, project.catalog())
        except TidegateError:
            raise Declined("its project can't be read") from None
        if self._files.now() != before:
            raise Declined("files are changing")
        if not self._packages.issuperset(needed_packages(project, read.catalog)):
            raise Declined("it was started without jars that are needed now: restart it")
        return read

    def _differs(self, asked: Asked, likeness: Likeness) -> bool:
        """Whether the definitions differ. Raises Declined for other settings: these last as long as the process."""
        what = likeness.differs(asked.nonce, asked.proof)
        if what == "settings":
            raise Declined(OTHER_SETTINGS)
        return what is not None


class Pools:
    """Names for those who share the cores. Spark keeps a pool for ever, so that each is used again."""

    def __init__(self, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        self._used: set[int] = set()

    @contextmanager
    def one(self) -> Iterator[str]:
        """Nobody else's while the block runs."""
        with self._lock:
            number = next(n for n in itertools.count(1) if n not in self._used)
            self._used.add(number)
        try:
            yield f"{self._name}-{number}"
        finally:
            with self._lock:
                self._used.discard(number)


def _run_script(session: Session, asked: Asked, text: str, name: str) -> None:
    """Rows for programs are said as they come. Text is said at the end, since a result may turn out to be too large."""
    if asked.console.shape.json:
        run_script(session, asked.console, text, name, stream=True)
        return
    held: list[dict[str, Any]] = []
    console = RelayConsole(held.append, asked.console.shape)
    try:
        run_script(session, console, text, name, stream=False, fetched=_fetched)
    except (Declined, Cancelled):
        held.clear()
        raise
    finally:
        for document in held:
            asked.work.say(document)


def _fetched(result: Result) -> Result:
    """With its rows. Raises Declined if there are too many."""
    if result.dataframe is None:
        return result
    rows = result.rows(_MOST_ROWS + 1)
    if len(rows) > _MOST_ROWS:
        raise Declined(
            f"a result has more than {_MOST_ROWS:,} rows, which it does not draw; with --json it gives all rows"
        )
    return replace(result, dataframe=None, fixed=rows)


@dataclass
class _Outcome:
    code: int = 0


def _stop_if_cancelled(work: Work, stop: Callable[[], None]) -> None:
    if work.cancelled:
        stop()


def _written(catalog: Catalog, asked: RunRequest) -> set[str]:
    """What a run writes with leases: sources, views and sinks; not tables whose rows come by INSERT."""
    from tidegate.cli.selection import chosen

    names = chosen(catalog, asked.names, asked.select, asked.exclude)
    relations, views = select(catalog, names, not asked.select and not asked.exclude)
    fed = [one for one in relations if one.connector is not None]
    return {*(r.name for r in fed), *(v.name for v in views), *(s.name for s in select_sinks(catalog, names))}
