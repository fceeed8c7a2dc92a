"""`tidegate late`: the rows that came too late, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, judged_relation, required
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.session.session import Session
    from tidegate.sql.catalog.objects import Relation
    from tidegate.store.status_values import RelationStatus

    #: Names, Spark types and values of columns.
    _Rows = tuple[list[str], list[str | None], list[tuple[Any, ...]]]


@guarded
def late(
    call: Invocation,
    names: Annotated[
        list[str] | None, typer.Argument(help="Sources or tables with a watermark.", show_default=False)
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="How many late rows of each source or table to show, newest first.")
    ] = 20,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
) -> int:
    """Show the newest late rows, the watermark that each one missed and by how much, and counts per partition.

    With --json, one name gives one document; several names, or --select, give a list of documents.

    Example: tidegate late flights --limit 5
    """
    from tidegate.store.status import read_status

    project = call.project()
    catalog = project.catalog()
    wanted = required(catalog, names, select, exclude)
    if names:
        relations = [judged_relation(catalog, name, "late") for name in wanted]
    else:
        relations = [r for r in catalog.relations if r.name in wanted and r.watermark is not None]
    if not relations:
        raise TidegateError("TG701", "no selected object has a watermark", hint="tidegate check --select …")
    for relation in relations:
        if relation.watermark is None:
            raise TidegateError(
                "TG701",
                f'"{relation.name}" has no watermark: nothing is ever late',
                hint="add WATERMARK FOR … to its definition",
            )
    found = read_status(project, [relation.name for relation in relations]).relations
    of = {status.name: status for status in found}
    asked = [r for r in relations if limit and of[r.name].late]
    newest: dict[str, _Rows] = {}
    if asked:
        with call.session(project) as session:
            newest = {r.name: newest_late_rows(session, r, limit) for r in asked}
    documents = []
    for relation in relations:
        rows = newest.get(relation.name, ([], [], []))
        if call.json:
            documents.append(_document(of[relation.name], rows))
        else:
            _show(call.console, of[relation.name], rows)
    if call.json:
        call.console.document(documents[0] if names and len(names) == 1 else {"sources": documents}, "")
    return 0


_COUNTS = ["partition", "rows", "late", "late %", "watermark"]


def _counts(status: RelationStatus) -> list[tuple[Any, ...]]:
    return [
        (
            p.partition,
            p.on_time + p.late + p.rejected,
            p.late,
            _share(p.late, p.on_time + p.late),
            p.watermark_text,
        )
        for p in status.partitions
    ]


def _document(status: RelationStatus, newest: _Rows) -> dict[str, Any]:
    from tidegate.console.values import to_json

    columns, types, rows = newest
    return {
        "source": status.name,
        "late": status.late,
        "partitions": [dict(zip(_COUNTS, c, strict=True)) for c in _counts(status)],
        "rows": [{n: to_json(v, t) for n, v, t in zip(columns, r, types, strict=True)} for r in rows],
    }


def _show(console: Console, status: RelationStatus, newest: _Rows) -> None:
    from tidegate.console.port import Table

    columns, types, rows = newest
    if not status.ran:
        console.note(f"{status.name} has not run yet: tidegate run {status.name}")
        return
    if rows:
        title = f"{status.name}: the newest {len(rows)} of {status.late:,} late rows"
        console.table(Table(columns, rows, types, title=title, unit=None))
        console.document(None, "")
    console.table(Table(_COUNTS, _counts(status), unit=None))
    if not status.late:
        console.document(None, f"no row of {status.name} was late")


def newest_late_rows(session: Session, relation: Relation, limit: int) -> _Rows:
    """(names, Spark types, rows) of `<relation>$late`, newest arrival first: where, when, by how much,
    the rest.
    """
    from tidegate.runtime.result import Result
    from tidegate.sql.catalog.objects import SystemTable

    assert relation.watermark is not None
    time = relation.watermark.column
    name = f"{relation.name}$late"
    table = session.catalog.get(name)
    assert isinstance(table, SystemTable)
    frame, shown = session.table(name), table.shown
    newest = frame.orderBy(*[frame[_quoted(shown(c))].desc() for c in ("_arrival", "_offset")]).limit(limit)
    own = [c.name for c in relation.columns if c.name != time]
    system = [shown(c) for c in ("_source_partition", "_offset", "_wm", "_late_by")]
    chosen = newest.select(*[_quoted(c) for c in [*system[:2], time, *system[2:], *own]])
    types: list[str | None] = [f.dataType.simpleString() for f in chosen.schema.fields]
    names = ["partition", "offset", time, "missed", "late_by", *own]
    # Bounded: `limit` rows.
    return names, types, Result(dataframe=chosen).rows()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _share(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0
