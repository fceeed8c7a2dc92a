"""What goes with a DROP, and whether somebody agrees to it (TG533)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.versions import current_version
from tidegate.runtime.result import Result
from tidegate.sql.catalog.lineage import readers_of
from tidegate.sql.catalog.objects import Relation, SystemTable, View
from tidegate.sql.catalog.system_tables import version_in
from tidegate.views.versions.build import NEXT
from tidegate.views.versions.keeping import forget_versions
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.errors import Location
    from tidegate.runtime.context import Context

_OUTCOMES = {"on_time": "on time", "late": "late", "rejected": "rejected"}


def ask_to_drop(context: Context, name: str, gone: Iterable[str], location: Location | None) -> None:
    """Raise TG533 if rows would go with `name`, unless somebody agrees; nobody is asked in a temporary project.
    `gone`: what is stored that goes with it."""
    if context.project.is_temporary:
        return
    lines = [line for one in gone if (line := _rows(context, one)) is not None]
    if not lines:
        return
    found = context.catalog.sinks.find(name) or context.catalog.get(name)
    if isinstance(found, Relation | View):
        readers = [view.name for view in readers_of(context.catalog, found.name) if "$" not in view.name]
        sinks = [sink.name for sink in context.catalog.sinks.of(found.name)]
        if readers or sinks:
            lines.append(f"these can't continue without it: {', '.join([*readers, *sinks])}")
        if isinstance(found, Relation) and found.connector is not None:
            lines.append(
                "the position up to which its input was read; rows that the input no longer has "
                "can't be read again"
            )
    what = f"these are removed with {name} and can't be restored:"
    context.ask("TG533", "\n  ".join([what, *lines]), location=location)


def drop_version(context: Context, version: SystemTable, location: Location | None) -> Result:
    """An earlier version of a view (E5). Raises TG215 for the current one, TG533 as `ask_to_drop`."""
    view, number = version.relation.name, version_in(version.suffix)
    context.require_own(view)
    table = context.opened(view)
    if table is not None and number == current_version(table.properties()):
        raise TidegateError(
            "TG215",
            f'"{version.name}" is the current version of "{view}"',
            hint=f"DROP MATERIALIZED VIEW {view} drops the view with all its versions",
            location=location,
        )
    if not context.project.is_temporary:
        context.ask(
            "TG533", f"the results of {version.name} are removed, and can't be restored", location=location
        )
    with context.lease(view, NEXT):
        forget_versions(context, view, lambda one: one.number == number)
    return Result(message=f"dropped {version.name}")


def _rows(context: Context, name: str) -> str | None:
    """What is stored of one table, in words; None if there is no row."""
    stored = context.stored(name)
    if stored is None:
        return None
    table = context.tables.open(stored)
    summary = table.current().summary
    if isinstance(context.catalog.get(name), View):
        counts = {"final": int(summary.get("tidegate.groups") or 0)}
    else:
        counts = {text: int(summary.get(f"tidegate.{key}") or 0) for key, text in _OUTCOMES.items()}
    if not any(counts.values()):
        return None
    newest = table.totals()
    files, size = (int(newest.get(key) or 0) for key in ("total-data-files", "total-files-size"))
    told = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"{name}: rows: {told}; {counted(files, 'file')}, {size / 1e6:,.1f} MB"
