"""Views whose rows do not show by what a person's rows are found, and do not only count them: sessions, joins, OVER,
and what is above those. They are computed again from the rows that are left (E9), as a new version of each (R4).

Nothing in such a view tells whether it was, once the rows have left the log. So it is on record in `erasing.json`: each
view with the life of the version that was computed behind the erasure. With any other life it is computed again, for
instance when somebody went back to an earlier version between a process that was killed and the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.versions import VALID_FROM
from tidegate.sql.catalog.objects import Relation
from tidegate.views.versions.past import past_of

if TYPE_CHECKING:
    from tidegate.iceberg.tables import StoredTable
    from tidegate.maintenance.erasing import Erasing
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import View

_PAST = (
    "rows that its results need are beyond their retention, so not all of its results can be computed again from the "
    "rows that are left"
)


def why_not_again(catalog: Catalog, view: View) -> str | None:
    """Why what a view reads does not tell what its results would be without the rows that go; None if it does."""
    sources = [one for name in view.reads if isinstance(one := catalog.get(name), Relation)]
    if any(entry.lookup for entry in view.inputs):
        return "it looks rows up as they are at each run, so it can't be recomputed as it was"
    if any(one.primary_key for one in sources):
        return "it reads a table with a PRIMARY KEY, so it is not recomputed"
    if any(one.kind == "gate" for one in sources):
        return "it reads WATERMARK(…), so it is not recomputed"
    return None


@dataclass(frozen=True)
class ComputedAgain:
    """The `views` that an erasure of rows of `source` computes again, each after what it reads."""

    context: Context
    source: str
    views: Sequence[View]

    def require(self, begun: Erasing | None) -> None:
        """Raise TG571 for views whose results can't all be computed again: what would stay of them may have the rows.
        `begun`: the erasure that was interrupted."""
        wanted = None if begun is None else self.due(begun)
        views = [view for view in self.views if wanted is None or view.name in wanted]
        for view in views:
            self.context.require_unlent(view.name)
        reasons = [f"\n  {view.name}: {_PAST}" for view in views if self._keeps_past(view)]
        if reasons:
            left = "nothing was erased" if begun is None else "its erasure is not finished"
            raise self._refused(f"so {left}:{''.join(reasons)}")

    def _refused(self, text: str) -> TidegateError:
        return TidegateError(
            "TG571",
            f'not every place that may have the rows of "{self.source}" can be reached, {text}',
            hint="DROP these views, erase the rows (what was interrupted with --resume), and create the views again: "
            "they then begin at the oldest rows that are kept",
        )

    def _keeps_past(self, view: View) -> bool:
        """Whether a new version would have results of this one, or lose them."""
        table = self._table(view)
        try:
            kept = past_of(self.context, view, table, {}, None)
        except TidegateError as error:
            if error.code != "TG543":
                raise
            return True
        return kept is not None or table.property(VALID_FROM) is not None

    def _table(self, view: View) -> StoredTable:
        table = self.context.tables.open(self.context.identifier(view.name), self.context.project.owner)
        table.current()
        return table

    def all_of(self, begun: Erasing) -> Erasing:
        """The record of an erasure of which every one of the views has still to be computed."""
        return replace(begun, again=dict.fromkeys((view.name for view in self.views), ""))

    def due(self, begun: Erasing) -> list[str]:
        """The names of those that have still to be computed."""
        return [v.name for v in self.views if begun.again.get(v.name) not in (None, self._table(v).uuid)]

    def done(self, begun: Erasing, due: Collection[str]) -> Erasing:
        """The record of the erasure when these were computed. Raises TG571 for one that has kept results of before:
        rows that it needs went meanwhile."""
        tables = {view: self._table(view) for view in self.views if view.name in due}
        if kept := [view for view, table in tables.items() if table.property(VALID_FROM) is not None]:
            reasons = (f"\n  {view.name}: {_PAST}" for view in kept)
            raise self._refused(f"so its erasure is not finished:{''.join(reasons)}")
        lives = {view.name: table.uuid for view, table in tables.items()}
        return replace(begun, again={**begun.again, **lives})
