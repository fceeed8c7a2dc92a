"""`tidegate late`: the rows that came too late, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import judged_relation
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.engine.session import Session
    from tidegate.sql.catalog import Relation


@guarded
def late(
    call: Invocation,
    source: Annotated[str, typer.Argument(help="A source or table with a watermark.", show_default=False)],
    limit: Annotated[int, typer.Option(min=0, help="How many of the newest late rows to show.")] = 20,
) -> int:
    """Show the newest late rows, the watermark each one missed and by how much, and counts per partition.

    Example: tidegate late flights --limit 5
    """
    from tidegate.console.port import Table
    from tidegate.store.status import read_status

    project = call.project()
    catalog = project.catalog()
    relation = judged_relation(catalog, source, "late")
    if relation.watermark is None:
        raise TidegateError(
            "TG701", f'"{relation.name}" has no watermark: nothing is ever late', hint="add WATERMARK FOR …"
        )
    status = read_status(project, [relation.name]).relations[0]
    counts = [
        (
            p.partition,
            p.on_time + p.late + p.rejected,
            p.late,
            _share(p.late, p.on_time + p.late),
            p.watermark_text,
        )
        for p in status.partitions
    ]
    summary = Table(["partition", "rows", "late", "late %", "watermark"], counts, unit=None)
    columns: list[str] = []
    types: list[str | None] = []
    rows: list[tuple[Any, ...]] = []
    if status.late and limit:
        with call.session(project) as session:
            columns, types, rows = newest_late_rows(session, relation, limit)
    if call.json:
        from tidegate.console.values import to_json

        call.console.document(
            {
                "source": relation.name,
                "late": status.late,
                "partitions": [dict(zip(summary.columns, c, strict=True)) for c in counts],
                "rows": [{n: to_json(v, t) for n, v, t in zip(columns, r, types, strict=True)} for r in rows],
            },
            "",
        )
        return 0
    if not status.ran:
        call.console.note(f"{relation.name} has not run yet: tidegate run {relation.name}")
        return 0
    if rows:
        title = f"the newest {len(rows)} of {status.late:,} late rows"
        call.console.table(Table(columns, rows, types, title=title, unit=None))
        call.console.document(None, "")
    call.console.table(summary)
    if not status.late:
        call.console.document(None, f"no row of {relation.name} was late")
    return 0


def newest_late_rows(
    session: Session, relation: Relation, limit: int
) -> tuple[list[str], list[str | None], list[tuple[Any, ...]]]:
    """(names, Spark types, rows) of `<relation>$late`, newest arrival first: where, when, by how much,
    the rest.
    """
    assert relation.watermark is not None
    time = relation.watermark.column
    name = f"{relation.name}$late"
    frame, shown = session.table(name), session.catalog.get(name).shown
    newest = frame.orderBy(*[frame[_quoted(shown(c))].desc() for c in ("_arrival", "_offset")]).limit(limit)
    own = [c.name for c in relation.columns if c.name != time]
    system = [shown(c) for c in ("_source_partition", "_offset", "_wm", "_late_by")]
    chosen = newest.select(*[_quoted(c) for c in [*system[:2], time, *system[2:], *own]])
    types = [f.dataType.simpleString() for f in chosen.schema.fields]
    names = ["partition", "offset", time, "missed", "late_by", *own]
    # Bounded: `limit` rows.
    return names, types, [tuple(row) for row in chosen.collect()]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _share(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0
