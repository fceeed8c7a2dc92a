"""What must hold where rows are erased (E9): in every state that a reader can see, and at rest afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulate.checks.wrong import Judged, Wrong
from tests.simulate.scripts.erasures import PERSON, Erase
from tests.simulate.scripts.views import View

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from tests.simulate.checks.check import Checks

Rows = Counter[tuple[Any, ...]]


@dataclass
class Erasures:
    """Of the first source. Between the commit that erases rows of the log and that of a view, the view shows what it
    had emitted then, and what followed; one that keeps its counts does so for ever."""

    checks: Checks
    #: Which rows go in this history, once a driver was told; and whether one is erasing now.
    act: Erase | None = None
    at_work: bool = False
    #: By view, what it has emitted of rows that are not in the log any more, and up to which frontier.
    _held: dict[str, tuple[Rows, int | None]] = field(default_factory=dict)

    # -- the log -----------------------------------------------------------------------------------------------

    def finds(self, one: Judged) -> bool:
        """Whether a row of the log is one of those that go."""
        given = self.checks.events.given
        return self.act is not None and one.id is not None and self.act.finds(given[one.id])

    def has(self, row: Mapping[str, Any]) -> bool:
        """Whether a row that a reader sees is one of those that go, or comes from them."""
        return self.act is not None and self.act.finds(row)

    def goes(self, gone: Sequence[Judged], left: Iterable[Judged]) -> None:
        """A commit takes rows out of the log. All of them go at once, and no others. Raises Wrong."""
        if not self.at_work or (others := [one for one in gone if not self.finds(one)]):
            raise Wrong(f"R2: rows {(others if self.at_work else gone)[:3]} are not there any more")
        if stayed := [one for one in left if self.finds(one)]:
            raise Wrong(f"E9: rows {gone[:3]} were erased, and {stayed[:3]} were not")
        checks = self.checks
        # What views show of them is what they have emitted until now.
        for view in checks.views.values():
            if "events" in view.reads and view.name in checks.frontiers:
                frontier = checks.frontiers[view.name]
                self._held[view.name] = (self.right(view, frontier), frontier)

    # -- views -------------------------------------------------------------------------------------------------

    def keeps(self, view: View) -> bool:
        """Whether a view keeps its counts of rows that are erased."""
        act = self.act
        return act is not None and not act.recomputes and act.column not in view.columns

    def right(self, view: View, frontier: int | None) -> Rows:
        """What a view has emitted, as long as it has not followed an erasure."""
        now = self._left(view, frontier)
        if view.name not in self._held:
            return now
        held, since = self._held[view.name]
        return held + (now - self._left(view, since))

    def may_show(self, view: View, frontier: int | None) -> Iterator[tuple[Rows, bool]]:
        """What a view may have emitted at a commit, and whether it has followed an erasure then."""
        yield self.right(view, frontier), False
        if view.name in self._held and self.at_work and not self.keeps(view):
            yield self._left(view, frontier), True

    def _left(self, view: View, frontier: int | None) -> Rows:
        """What its query gives over the rows that are left."""
        return Counter(view.truth(self.checks.on_time(view), frontier))

    def followed(self, name: str) -> None:
        """A view has no row more that comes from erased ones."""
        self._held.pop(name, None)

    # -- after an erasure that has ended well -----------------------------------------------------------------

    def ended(self) -> None:
        """Nothing of the rows is left anywhere, and every view that shows them has followed. Raises Wrong."""
        checks, log = self.checks, self.checks.events
        if left := [place for place, one in log.rows.items() if place not in log.erased and self.finds(one)]:
            raise Wrong(f"E9: rows {left[:3]} were to be erased, and are there")
        for view in checks.views.values():
            if "events" in view.reads and not self.keeps(view):
                self.followed(view.name)
                checks.emitted[view.name] = self._left(view, checks.frontiers.get(view.name))
        checks.look_again()
        self.at_rest()

    def at_rest(self) -> None:
        """In no file of the warehouse is a row that was to go. Raises Wrong."""
        world, act, text = self.checks.world, self.act, PERSON.encode()
        assert act is not None
        for path, content in world.store.files.items():
            if not path.startswith(f"{world.root}/.tidegate/"):
                continue
            if text in content:
                raise Wrong(f"E9: {path} still names {PERSON}")
            if path.endswith(".parquet") and "/data/" in path:
                held = [row for row in world.catalog.parsed(path, content).to_pylist() if act.finds(row)]
                if held:
                    raise Wrong(f"E9: {path} still has {held[:2]}")
        for table, versions in world.catalog.tables.items():
            # (Bounds of texts are cut off.)
            if any(text[:8] in bound for bound in self._bounds(versions[-1])):
                raise Wrong(f"E9: a manifest of {table[-1]} has {PERSON} for a bound")

    def _bounds(self, metadata: TableMetadata) -> Iterator[bytes]:
        """Those of the columns of all files that snapshots know, and of those that they have removed."""
        io = self.checks.world.catalog._io
        with self.checks.world.outside.looking():
            for snapshot in metadata.snapshots:
                for manifest in snapshot.manifests(io):
                    for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
                        yield from (entry.data_file.lower_bounds or {}).values()
                        yield from (entry.data_file.upper_bounds or {}).values()
