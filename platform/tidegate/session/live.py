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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
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
from tidegate.plan.hanging import AtWork, hung_pause
from tidegate.project.disk import trouble
from tidegate.runtime.claim import Claim, claimed
from tidegate.runtime.codes import is_curable
from tidegate.runtime.steps import together
from tidegate.session.members.member import (
    GroupMember,
    Listener,
    SourceMember,
    ViewMember,
    hung_error,
)
from tidegate.session.members.sink_member import SinkMember
from tidegate.session.run import select, select_sinks
from tidegate.session.turns import (
    Advance,
    Advanced,
    EndGroup,
    Failed,
    Pass,
    Reached,
    Retries,
    TryAgain,
    step,
)

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sinks.beside import OpenBeside
    from tidegate.sql.catalog.objects import Relation, View


class LiveGroup:
    """A group, open: use it in a `with` block, which takes the leases (TG508 names who has one) and gives them back.

    `names`: sources, views and sinks, each with what it comes from (None: everything). Tables without a connector get
    their rows by INSERT, from whoever has their lease then; the group only reads them.
    `hung`: how often the work for members has hung in a row: they are tried again after a pause, and say so.
    `stopping`: asked between two commits; a tick ends early once it says True. `patience`: seconds to wait for leases:
    a worker whose supervisor was killed may still be finishing its commit. `interval`: as of `Listings`. `beside`: for
    deliveries and upkeep, which no tick waits for then.
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
        beside: OpenBeside | None = None,
        hung: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.context, self.name, self.beside = context, name, beside
        clock = clock or context.runner.elapsed
        #: What it does now; None while that is for no single member, or it rests.
        self.at_work: AtWork | None = None
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
        sinks = select_sinks(context.catalog, names)
        members += [SinkMember(context, sink, clock, beside) for sink in sinks]
        for member in members:
            member.turn = replace(member.turn, retries=retries or Retries())
            if times := hung.get(member.name, 0):
                retry_at = clock() + hung_pause(times, self._chance.random())
                member.turn = replace(member.turn, failures=times, retry_at=retry_at)
                member.error = hung_error(member.name)
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

    @property
    def is_delivering(self) -> bool:
        """Whether something is done beside the ticks, by this group's leases."""
        return any(member.is_under_way for member in self.members)

    def prepare(self, notify: Listener) -> None:
        """Let Spark check every query, and sinks begin, before the first row is read."""
        for member in self.members:
            if member.error is None:
                with self._isolated(member, notify):
                    member.prepare()
        notify(WorkerStarted(self.name, tuple(member.name for member in self.members), os.getpid()))
        for member in self.members:
            if isinstance(member.error, TidegateError) and member.error.code == "TG519":
                pause = round(max(0.0, member.turn.retry_at - self._clock()), 3)
                self._tell_failure(member, member.error, pause, notify)

    def open_anew(self) -> None:
        """Somebody else has written with its leases: what is open is of before."""
        for member in self.members:
            with suppress(Exception):  # what is broken may not even close
                member.close()
            member.turn = replace(member.turn, due=True)

    def tick(self, notify: Listener, waited: float = 0.0, lends: bool = False) -> bool:
        """Advance everything once; whether a backlog is left. Raises what ends the group. `waited`: so many seconds
        after it was due. `lends`: nothing is begun beside the ticks, since somebody waits for the leases."""
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
            with self._isolated(member, notify):
                if member.has_ended():
                    # (It is due again if something has moved since it began.)
                    self._advanced(member, member.turn.due, notify)
            member.turn, action = step(member.turn, Reached(self._clock(), member.watches, moved))
            waits = member.is_under_way or (lends and member.is_beside)
            if waits or not isinstance(action, Advance):
                continue
            with self._isolated(member, notify):
                committed, more = member.step(on_event)
                if member.is_under_way:
                    member.turn = replace(member.turn, due=False)
                    continue
                backlog = backlog or more
                # (What has failed may have committed before: then nobody has been told.)
                if committed or member.turn.failures:
                    moved.add(member.name.casefold())
                self._advanced(member, more or member.stands, notify)
        seconds, commits = round(self._clock() - started, 3), round(commit_seconds, 3)
        late, failing = round(waited, 3), self.failing
        trying = tuple(one.name for one in self.members if isinstance(one, SinkMember) and one.is_trying)
        told = self.name, self.ticks, rows, backlog, seconds, commits
        notify(TickFinished(*told, failing, late, size, trying))
        return backlog

    def _advanced(self, member: GroupMember, more: bool, notify: Listener) -> None:
        member.turn, action = step(member.turn, Advanced(more))
        if isinstance(action, Pass) and action.recovered:
            notify(MemberRecovered(self.name, member.name, member.kind, action.recovered))
            # What it still leaves as it is, is told again behind this.
            member.error = member.left = None
        self._look_for_problems(member, notify)

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

        self.at_work = AtWork(member.name, member.kind, self._clock())
        try:
            yield
        except AnalysisException as error:
            self._failed(member, refused(f'"{member.name}"', error, member.item.location), notify)
        except Exception as error:
            self._failed(member, trouble(error, member.item.location) or error, notify)
        finally:
            self.at_work = None

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
        self._tell_failure(member, error, round(action.pause, 3), notify)

    def _tell_failure(self, member: GroupMember, error: Exception, pause: float, notify: Listener) -> None:
        code = error.code if isinstance(error, TidegateError) else None
        told = self.name, member.name, member.kind, code, one_line(error), member.turn.failures, pause
        notify(MemberFailed(*told))


def settled(group: LiveGroup) -> bool:
    """Whether nothing is left to be done; raises the error of a member that has failed three times in a row, and when
    all else is done, what is wrong with inputs that were left."""
    for member in group.members:
        if member.error is not None and member.turn.failures >= 3:
            raise member.error
    if any(member.turn.failures or member.stands for member in group.members):
        return False
    for member in group.members:
        if member.left is not None:
            raise member.left
    return True
