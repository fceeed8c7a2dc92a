"""A group of live mode: a family of sources, views and sinks kept up to date, tick by tick.

In a tick each source advances by at most one batch, then every view closes what that allows, then the sinks deliver.
Logs, connectors and view tables stay open in between, and so do the leases: nobody else writes what a group writes.

What fails is opened anew before its next try, with growing pauses; the others go on meanwhile: a view that Spark
refuses does not stop its source. A source ends the group by an error that no other try can cure, and by its
`source_tries`th failure in a row: a fresh process may fare better.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.apply import open_log
from tidegate.ingest.sources.log import LogConnector, advance
from tidegate.ingest.stream import SourceFeed
from tidegate.jvm.failures import one_line, refused
from tidegate.plan.events import (
    BatchCommitted,
    Event,
    MemberFailed,
    MemberRecovered,
    SliceCommitted,
    TickFinished,
    WorkerStarted,
)
from tidegate.project.disk import trouble
from tidegate.runtime.claim import Claim, claimed
from tidegate.runtime.codes import is_curable
from tidegate.runtime.steps import together
from tidegate.session.run import connect, resolve, select, select_sinks
from tidegate.session.turns import (
    Advance,
    Advanced,
    EndGroup,
    Failed,
    Listings,
    Pass,
    Reached,
    Retries,
    TryAgain,
    Turn,
    step,
)
from tidegate.sinks.deliver import begin, deliver
from tidegate.sql.catalog.objects import Relation, View, reads
from tidegate.sql.options.connectors import FilesystemOptions
from tidegate.views.versions.in_force import open_current

if TYPE_CHECKING:
    from tidegate.ingest.connector import Connector
    from tidegate.ingest.ingest import Log
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink
    from tidegate.views.view_table import ViewTable

Listener = Callable[[Event], None]


#: Seconds between two looks of a sink for amendments, where nothing else makes it look.
_AMENDMENTS_EVERY = 30.0
#: Seconds that a batch of a source with a backlog is to take at most.
_LONGEST_BATCH = 5.0


class GroupMember:
    """A source, view or sink of a group. `upstream`: casefolded names of what it reads inside the project."""

    kind = ""

    def __init__(self, context: Context, item: Relation | View | Sink, upstream: Iterable[str]) -> None:
        self.context, self.item, self.name = context, item, item.name
        self.upstream = frozenset(name.casefold() for name in upstream)
        self.turn = Turn(self.upstream, isinstance(self, SourceMember))
        self.error: Exception | None = None
        #: Inputs that it has left as they are (`Connector.problems`), as they were told last.
        self.left: TidegateError | None = None

    @property
    def watches(self) -> bool:
        """Whether it looks for input outside of the project now."""
        return False

    def prepare(self) -> None:
        """What has to be right before the first row is read."""

    def step(self, notify: Listener) -> tuple[bool, bool]:
        """Advance; whether something was committed, and whether more waits."""
        raise NotImplementedError

    def problems(self) -> list[TidegateError]:
        """What is wrong with single inputs, while all others are taken in; with a view that continues all the same."""
        return []

    def close(self) -> None:
        """Forget what is open: the next step opens it anew."""


class SourceMember(GroupMember):
    """A source, or the implicit relation of a WATERMARK(…) (W14)."""

    kind = "source"

    def __init__(
        self,
        context: Context,
        relation: Relation,
        max_rows: int | None,
        clock: Callable[[], float],
        interval: float,
    ) -> None:
        super().__init__(context, relation, reads(relation))
        self.relation, self._max_rows, self._clock = relation, max_rows, clock
        self._listings = Listings(interval, clock())
        self._open: tuple[Log, Connector, SourceFeed | None] | None = None

    @property
    def watches(self) -> bool:
        """What a folder holds costs the same to find out whether or not something has come."""
        in_folder = isinstance(self.relation.connector, FilesystemOptions)
        return not self.upstream and (not in_folder or self._listings.due(self._clock()))

    def step(self, notify: Listener) -> tuple[bool, bool]:
        if self._open is None:
            self._open = self._opened(notify)
        log, connector, feed = self._open
        log.progress.enumerate(connector.pending().partitions)
        before, started = log.progress.epoch, self._clock()
        if feed is not None:
            more = feed.advance(notify)
        else:
            assert isinstance(connector, LogConnector)
            more = advance(log, connector, notify, self.context.clock)
        committed = log.progress.epoch != before
        self._listings = self._listings.after(started, committed or more)
        if committed:
            # Other groups wait for a thread and the cores meanwhile.
            connector.size.took(self._clock() - started, _LONGEST_BATCH)
        return committed, more

    def problems(self) -> list[TidegateError]:
        return [] if self._open is None else self._open[1].problems()

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
        self._open = None

    def _opened(self, notify: Listener) -> tuple[Log, Connector, SourceFeed | None]:
        log = open_log(self.context, self.relation, notify)
        connector = connect(self.context, log, self._max_rows)
        assert connector is not None  # `LiveGroup` leaves out what has none
        if isinstance(connector, LogConnector):
            return log, connector, None
        folder = self.context.work_folder(self.name)
        storage, clock = self.context.project.storage, self.context.clock
        return log, connector, SourceFeed(storage, log, connector, folder, clock, notify)


class ViewMember(GroupMember):
    """A materialized view."""

    kind = "view"

    def __init__(self, context: Context, view: View) -> None:
        super().__init__(context, view, view.reads)
        self.view = view
        self._table: ViewTable | None = None

    def prepare(self) -> None:
        resolve(self.context, self.view)

    def step(self, notify: Listener) -> tuple[bool, bool]:
        # (What it reads may have gone on with another version since, for which it is understood anew.)
        if self._table is None or self.context.catalog.get(self.name) is not self.view:
            self._table = open_current(self.context, self.view)
            self.view = self._table.view
        event = self._table.tick()
        if event is not None:
            notify(event)
        return event is not None, False

    def problems(self) -> list[TidegateError]:
        undecided = self.context.undecided.get(self.name)
        return [] if self._table is None or undecided is None else [undecided]

    def close(self) -> None:
        self._table = None


class SinkMember(GroupMember):
    """A sink."""

    kind = "sink"

    def __init__(self, context: Context, sink: Sink, clock: Callable[[], float]) -> None:
        super().__init__(context, sink, [sink.upstream])
        self.sink, self._clock, self._looked = sink, clock, clock()
        self._has_begun = False

    @property
    def watches(self) -> bool:
        """An amendment comes from another process, whether or not the view closes anything (B2)."""
        return self.sink.connector.upserts and self._clock() - self._looked >= _AMENDMENTS_EVERY

    def prepare(self) -> None:
        # One that wants only what is new wants what comes from here on.
        begin(self.context, self.sink)
        self._has_begun = True

    def step(self, notify: Listener) -> tuple[bool, bool]:
        self._looked = self._clock()
        if not self._has_begun:
            # What had failed then; one that has not begun would deliver everything.
            self.prepare()
        deliver(self.context, self.sink, notify)
        return False, False


class LiveGroup:
    """A group, open: use it in a `with` block, which takes the leases (TG508 names who has one) and gives them back.

    `names`: sources, views and sinks, each with what it comes from (None: everything). Tables without a connector get
    their rows by INSERT, from whoever has their lease then; the group only reads them.
    `stopping`: asked between two commits; a tick ends early once it says True. `patience`: seconds to wait for leases:
    a worker whose supervisor was killed may still be finishing its commit. `interval`: as of `Listings`.
    """

    def __init__(
        self,
        context: Context,
        names: Iterable[str] | None = None,
        name: str = "live",
        max_rows_per_batch: int | None = None,
        stopping: Callable[[], bool] = lambda: False,
        retries: Retries | None = None,
        clock: Callable[[], float] | None = None,
        patience: float = 0.0,
        interval: float = 0.0,
    ) -> None:
        self.context, self.name = context, name
        clock = clock or context.runner.elapsed
        self._patience = patience
        self.ticks = 0
        self._stopping, self._clock = stopping, clock
        self._chance = random.Random()
        names = None if names is None else list(names)
        relations, views = select(context.catalog, names)
        #: The sources and views whose leases it holds.
        fed = [r for r in relations if r.connector is not None]
        self.written: tuple[Relation | View, ...] = (*fed, *views)
        members: list[GroupMember] = [
            SourceMember(context, r, max_rows_per_batch, clock, interval) for r in fed
        ]
        members += [ViewMember(context, view) for view in views]
        members += [SinkMember(context, sink, clock) for sink in select_sinks(context.catalog, names)]
        for member in members:
            member.turn = replace(member.turn, retries=retries or Retries())
        self.members = tuple(members)
        self._tables = frozenset(r.name.casefold() for r in relations if r.connector is None)
        self._leases = ExitStack()

    def __enter__(self) -> LiveGroup:
        names = tuple(member.name for member in self.members)
        runner = self.context.runner
        claim = Claim(names, runner.elapsed() + self._patience)
        self._leases = claimed(claim, self.context.lease, self._stopping, runner.elapsed, runner.wait)
        return self

    def __exit__(self, *_: object) -> None:
        # Each member is closed, and the leases are given back, whatever fails in between.
        with self._leases, ExitStack() as members:
            for member in reversed(self.members):
                members.callback(member.close)

    @property
    def failing(self) -> tuple[str, ...]:
        """Members that wait for another try, and sources that leave inputs as they are."""
        return tuple(member.name for member in self.members if member.turn.failures or member.left)

    def prepare(self, notify: Listener) -> None:
        """Let Spark check every query, and sinks begin, before the first row is read."""
        for member in self.members:
            with self._isolated(member, notify):
                member.prepare()
        notify(WorkerStarted(self.name, tuple(member.name for member in self.members), os.getpid()))

    def open_anew(self) -> None:
        """Somebody else has written with its leases: what is open is of before."""
        for member in self.members:
            with suppress(Exception):  # what is broken may not even close
                member.close()
            member.turn = replace(member.turn, due=True)

    def tick(self, notify: Listener, waited: float = 0.0) -> bool:
        """Advance everything once; whether a backlog is left. Raises what ends the group. `waited`: so many seconds
        after it was due."""
        started = self._clock()
        self.ticks += 1
        rows, size, commit_seconds = 0, 0, 0.0

        def on_event(event: Event) -> None:
            nonlocal rows, size, commit_seconds
            if isinstance(event, BatchCommitted):
                rows += event.rows
                size += event.bytes
            if isinstance(event, BatchCommitted | SliceCommitted):
                commit_seconds += event.commit_seconds
            notify(event)

        backlog = False
        # Whoever inserts into a table tells nobody.
        moved = set(self._tables)
        for member in self.members:
            if self._stopping():
                break
            member.turn, action = step(member.turn, Reached(self._clock(), member.watches, moved))
            if not isinstance(action, Advance):
                continue
            with self._isolated(member, notify):
                committed, more = member.step(on_event)
                backlog = backlog or more
                # (What has failed may have committed before: then nobody has been told.)
                if committed or member.turn.failures:
                    moved.add(member.name.casefold())
                member.turn, action = step(member.turn, Advanced(more))
                if isinstance(action, Pass) and action.recovered:
                    notify(MemberRecovered(self.name, member.name, member.kind, action.recovered))
                    # What it still leaves as it is, is told again behind this.
                    member.error = member.left = None
                self._look_for_problems(member, notify)
        seconds, commits = round(self._clock() - started, 3), round(commit_seconds, 3)
        late, failing = round(waited, 3), self.failing
        notify(TickFinished(self.name, self.ticks, rows, backlog, seconds, commits, failing, late, size))
        return backlog

    def _look_for_problems(self, member: GroupMember, notify: Listener) -> None:
        """Tell of inputs that a source leaves as they are: once, and again when they are in order."""
        problems, before = member.problems(), member.left
        member.left = together(problems) if problems else None
        if member.left is not None and str(member.left) != str(before):
            code, message = member.left.code, member.left.message
            notify(MemberFailed(self.name, member.name, member.kind, code, message, 1, 0.0))
        elif member.left is None and before is not None:
            notify(MemberRecovered(self.name, member.name, member.kind, 1))

    @contextmanager
    def _isolated(self, member: GroupMember, notify: Listener) -> Iterator[None]:
        """Keep an error of one member from the others, unless it ends the group."""
        from pyspark.errors import AnalysisException

        try:
            yield
        except AnalysisException as error:
            self._failed(member, refused(f'"{member.name}"', error, member.item.location), notify)
        except Exception as error:
            self._failed(member, trouble(error, member.item.location) or error, notify)

    def _failed(self, member: GroupMember, error: Exception, notify: Listener) -> None:
        with suppress(Exception):  # what is broken may not even close
            member.close()
        member.error = error
        # Without Spark every member would fail for ever.
        answers = self.context.runner.answers()
        event = Failed(self._clock(), is_curable(error), answers, self._chance.random())
        member.turn, action = step(member.turn, event)
        if isinstance(action, EndGroup):
            raise error
        assert isinstance(action, TryAgain)
        code = error.code if isinstance(error, TidegateError) else None
        failures, pause = action.failures, round(action.pause, 3)
        notify(MemberFailed(self.name, member.name, member.kind, code, one_line(error), failures, pause))


def settled(group: LiveGroup) -> bool:
    """Whether nothing is left to be done; raises the error of a member that has failed three times in a row, and when
    all else is done, what is wrong with inputs that were left."""
    for member in group.members:
        if member.error is not None and member.turn.failures >= 3:
            raise member.error
    if any(member.turn.failures for member in group.members):
        return False
    for member in group.members:
        if member.left is not None:
            raise member.left
    return True
