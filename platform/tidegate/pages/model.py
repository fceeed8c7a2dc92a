"""What the pages say, as data: from definitions and front matter, and the columns of what is stored already."""

from __future__ import annotations

from functools import partial
from typing import Any

from tidegate.errors import TidegateError
from tidegate.plan.explain import explain
from tidegate.project import Project
from tidegate.project.jobs.jobs import schedules_of
from tidegate.project.reading.durations import format_duration
from tidegate.project.selection import covered, select
from tidegate.runtime.kafka_reading import read_by
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import computed, reads_of
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.sql.dialect.types import UNKNOWN, display
from tidegate.sql.views.column_lineage import column_lineage
from tidegate.store import load_table

Item = Relation | View | Sink


def document(project: Project) -> dict[str, Any]:
    """JSON-ready: the project's name, and `assets` in the order of computation, each with description, columns,
    lineage, owners, SQL and the stages of `explain`. The same for the same definitions; starts no JVM."""
    catalog = project.catalog()
    assets = [_asset(project, catalog, item) for item in computed(catalog)]
    when: dict[str, list[str]] = {}
    for schedule in schedules_of(project.jobs(), catalog):
        text = f"{schedule.name}: {schedule.cron} {schedule.timezone}" + (
            "" if schedule.enabled else ", switched off"
        )
        names = select(catalog) if schedule.select == "*" else covered(catalog, schedule.select)
        for name in names:
            when.setdefault(name, []).append(text)
    readers: dict[str, list[str]] = {}
    for asset in assets:
        for name in asset["reads"]:
            readers.setdefault(name, []).append(asset["name"])
    for asset in assets:
        asset["read_by"] = readers.get(asset["name"], [])
        asset["schedules"] = when.get(asset["name"], [])
    return {"project": project.name, "environment": project.env_name, "assets": assets}


def _asset(project: Project, catalog: Catalog, item: Item) -> dict[str, Any]:
    said = catalog.annotations_of(item.name)
    return {
        "name": item.name,
        "kind": _kind(item),
        "place": f"{item.location.file}:{item.location.line}" if item.location else None,
        "description": item.description,
        "owners": list(said.owners),
        "tags": [f"{name}={value}" if value else name for name, value in said.tags],
        "group": said.group,
        "freshness": None if said.fresh_within is None else format_duration(said.fresh_within),
        "partitions": said.partitions,
        "facts": _facts(item),
        "columns": _columns(project, catalog, item),
        "reads": [one.name for one in reads_of(catalog, item)],
        "sql": item.definition.strip(),
        "explain": str(
            explain(
                catalog,
                item,
                namespace=project.storage.namespace_of,
                reading=partial(read_by, master=project.env.spark.master),
            )
        ),
    }


def _kind(item: Item) -> str:
    return item.kind if isinstance(item, Relation) else "view" if isinstance(item, View) else "sink"


def _facts(item: Item) -> dict[str, str]:
    """What says how rows are judged, closed and delivered."""
    if isinstance(item, Sink):
        return {"Delivers": item.upstream, "Connector": item.connector.connector, "To": item.place}
    if isinstance(item, View):
        facts = {
            "Rows appear": "once, when they are final" if item.emit_on_window_close else "at once, and change"
        }
        if item.accounts is not None:
            window = item.accounts.window.describe(item.kind)
            facts["Window"] = f"{window} over {item.accounts.time_column}"
        if item.clock is not None:
            facts["Final up to"] = item.clock.describe(item.kind, [i.name for i in item.inputs])
        return facts
    facts = {}
    if item.watermark is not None:
        facts["Watermark"] = f"{item.watermark.column} AS {item.watermark.expression}"
    if item.connector is not None:
        facts["Connector"] = item.connector.connector
    if item.primary_key:
        facts["Primary key"] = ", ".join(item.primary_key) + (" with TTL" if item.ttl else "")
    return facts


def _columns(project: Project, catalog: Catalog, item: Item) -> list[dict[str, Any]]:
    origins = {} if isinstance(item, Relation) else column_lineage(catalog, item)
    described = item
    if isinstance(item, Sink):
        upstream = item.view or catalog.get(item.upstream)
        assert isinstance(upstream, Relation | View)
        described = upstream
    assert isinstance(described, Relation | View)
    stored: dict[str, str] = {}
    if any(c.type == UNKNOWN for c in described.columns):
        stored = _stored(project, described.name)
    return [
        {
            "name": c.name,
            "type": display(c.type) if c.type != UNKNOWN else stored.get(c.name.casefold()),
            "nullable": c.nullable,
            "description": c.comment,
            "generated": c.generated,
            "watermark": isinstance(item, Relation)
            and item.watermark is not None
            and item.watermark.column == c.name,
            "from": [f"{o.relation}.{o.column}" for o in origins.get(c.name, ())],
        }
        for c in described.columns
    ]


def _stored(project: Project, name: str) -> dict[str, str]:
    """The types that Spark found when the view ran first; nothing where it has not, or where nobody answers."""
    try:
        table = load_table(project.storage, name)
    except TidegateError:
        return {}
    return {column.casefold(): kind.upper() for column, kind in table.columns} if table is not None else {}
