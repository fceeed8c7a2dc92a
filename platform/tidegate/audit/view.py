"""Does a view add up: what it has stored, against what its inputs say now.

Every view: **stream equals batch**, its query over all that is final in its inputs gives the rows that are stored
(`batch.py`). A view that aggregates windows over one source or table: **accounts**, too (A1): in every closed window
raw = counted + filtered + late + rejected with a time (`accounts.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.audit.accounts import WindowProblem, account
from tidegate.audit.batch import BatchComparison, compare
from tidegate.errors import TidegateError
from tidegate.iceberg.retire import retired
from tidegate.sql.catalog.objects import Relation, View
from tidegate.views.resolve import pin
from tidegate.views.revisions.comparable import comparable_since
from tidegate.views.revisions.step_back import effective_frontier
from tidegate.views.versions.in_force import of_results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session


@dataclass(frozen=True)
class ViewAudit:
    """`batch`: the comparison of rows. The rest is accounts, None for a view without any: sums over all closed windows
    (a row of a HOP counts in each of its windows), and the windows with a remainder.

    `still_open`: rows in windows beyond the frontier. `rejected_without_time`: rejected rows that belong to no
    window. `retired`: rows of the log beyond their retention; what needs them is left out. `erased`: of the raw rows
    those that were erased, and that marked windows still count (E9). `windows`: a Spark DataFrame
    with one line for each window.
    """

    view: str
    frontier: str
    batch: BatchComparison
    closed_windows: int | None = None
    raw: int | None = None
    counted: int | None = None
    filtered: int | None = None
    late: int | None = None
    rejected: int | None = None
    still_open: int | None = None
    remainder: int | None = None
    rejected_without_time: int | None = None
    retired: int | None = None
    erased: int | None = None
    problems: list[WindowProblem] = field(default_factory=list)
    windows: DataFrame | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return not self.problems and not self.remainder and self.value_mismatches == 0

    @property
    def has_accounts(self) -> bool:
        """Whether rows are accounted for per window."""
        return self.raw is not None

    @property
    def value_mismatches(self) -> int:
        """Result rows that are not what the batch says."""
        return self.batch.mismatches

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, without the DataFrame."""
        left_out = ("windows", "problems", "batch")
        facts = {k: getattr(self, k) for k in self.__dataclass_fields__ if k not in left_out}
        facts |= {"ok": self.ok, "value_mismatches": self.value_mismatches, "batch": asdict(self.batch)}
        return facts | {"problems": [asdict(p) for p in self.problems]}


def audit_view(session: Session, name: str) -> ViewAudit:
    """Recompute a view's results from its inputs. Raises TG512 if it has none yet."""
    view = session.catalog.get(name)
    if not isinstance(view, View):
        raise TidegateError(
            "TG512", f'"{name}" is not a view', hint=f"tidegate audit takes views; {name}$raw has all rows"
        )
    stored = session.stored(view.name)
    if stored is None:
        raise TidegateError("TG512", f'"{name}" has no results yet', hint=f"tidegate run {name}")
    view = of_results(session, view)
    pinned = pin(session, view)
    frontier = effective_frontier(view, session.tables.open(stored).current().summary, pinned)
    batch = compare(session, view, stored)
    if not is_accountable(session, view):
        return ViewAudit(view.name, view.kind.format(frontier), batch)
    since = comparable_since(session, view, stored, pinned, [])
    sums, windows, problems = account(session, view, stored, frontier, since)
    log = session.tables.open(session.identifier(view.inputs[0].name))
    sums["retired"] = retired(log, session.project.storage).rows
    return ViewAudit(view.name, view.kind.format(frontier), batch, **sums, problems=problems, windows=windows)


def is_accountable(session: Session, view: View) -> bool:
    """Whether every row of the view's one input stays in the window that it came for: a key's row can be replaced."""
    if view.accounts is None:
        return False
    source = session.catalog.get(view.inputs[0].name)
    return isinstance(source, Relation) and not source.primary_key and session.stored(source.name) is not None
