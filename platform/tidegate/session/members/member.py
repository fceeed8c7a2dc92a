"""Sources and views of a group, open between its ticks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.apply import open_log
from tidegate.ingest.sources.log import LogConnector, advance
from tidegate.ingest.stream import SourceFeed
from tidegate.plan.events import Event
from tidegate.session.run import connect, resolve
from tidegate.session.turns import Listings, Turn
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

    @property
    def is_beside(self) -> bool:
        """Whether a step only begins what is done beside the ticks then."""
        return False

    @property
    def is_under_way(self) -> bool:
        """Whether what its last step has begun is not over, as far as `has_ended` has told."""
        return False

    @property
    def stands(self) -> bool:
        """Whether its last step has left something, which nothing that advances tells of."""
        return False

    def has_ended(self) -> bool:
        """Whether what its last step has begun is over now; raises what that has failed with."""
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
        event = self._table.tick(gives_way=True)
        if event is not None:
            notify(event)
        return event is not None, False

    @property
    def stands(self) -> bool:
        return self._table is not None and self._table.stands

    def problems(self) -> list[TidegateError]:
        undecided = self.context.undecided.get(self.name)
        return [] if self._table is None or undecided is None else [undecided]

    def close(self) -> None:
        self._table = None


def hung_error(name: str) -> TidegateError:
    """TG519: what is told of work for `name` that has hung."""
    return TidegateError(
        "TG519",
        f'the work for "{name}" took very long and did not advance; it was broken off, and is tried again in a process '
        "of its own",
        hint="look for an expression that takes very long on some values, such as a regular expression with nested "
        "repetitions, or for a server that does not answer",
    )
