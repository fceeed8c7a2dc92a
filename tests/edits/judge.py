"""In what a project that was edited differs from what the rules make of its topic, given the versions in force."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tests.chaos.check import check_history, check_rows
from tests.chaos.replay import Judged, Mark, Rules, Stored, Verdict, replay
from tests.edits.load import SOURCE
from tests.oracles.columns import Columns, held
from tests.oracles.oracle import Row
from tests.simulate.scripts.changes import FIELDS, Definition, fields
from tests.simulate.scripts.pipelines import BASE, DELAY, mark, seconds
from tests.simulate.scripts.views import VIEWS
from tidegate.project import Project
from tidegate.show.newest import newest_rows
from tidegate.store.metadata import load_table

_SECOND = 1_000_000
#: The types of columns as Iceberg calls them.
_TYPES = {"INT": "int", "BIGINT": "long"}
_ALL = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Found:
    """`rows`: that were compared; `shown`: by view, how many rows it has; `wrong`: what differs."""

    rows: int = 0
    shown: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def columns_of(definition: Definition) -> list[tuple[str, str]]:
    """As a log has them."""
    return [(one.name, _TYPES[one.kind]) for one in definition.columns]


def stored_columns(storage: Any) -> list[tuple[str, str]] | None:
    """Those that the log has now; None if there is no log."""
    stored = load_table(storage, SOURCE)
    if stored is None:
        return None
    return _of_schema(_table(storage).schema())


def judge(
    project: Project,
    topic: Mapping[str, Sequence[Stored]],
    definitions: Sequence[Definition],
    queries: Mapping[str, str],
) -> Found:
    """`definitions`: of the columns, one after the other; `queries`: by view, whose query it has in the end."""
    found, verdict = Found(), Verdict()
    history = [_mark(row) for row in _rows(project, f"{SOURCE}$watermarks")]
    raw = _rows(project, f"{SOURCE}$raw")
    rules = Rules(DELAY * _SECOND, idle_timeout_ms=10**12)
    replayed = replay(topic, history, rules, verdict, _parse)
    check_rows(replayed, _judged(raw), verdict)
    check_history(topic, history, replayed, rules, verdict)
    found.rows = verdict.rows
    found.wrong += [f"{kind}: {example}" for kind, some in verdict.examples.items() for example in some]
    versions = _versions(project.storage, definitions, found)
    if not versions:
        return found
    now = versions[-1][1]
    payloads = _values(raw, versions, now, found)
    rows = [
        replace(
            decision.row,
            event_time=decision.row.event_time // _SECOND - int(BASE.timestamp()),
            payload=payloads.get(decision.row.payload["id"], {}),
        )
        for decisions in replayed.decisions.values()
        for decision in decisions
        if decision.outcome == "on_time" and decision.row.event_time is not None
    ]
    for name, query in queries.items():
        view = VIEWS[query]
        expected = Counter(view.truth(rows, mark(replayed.g)))
        shown = Counter(
            tuple(seconds(row[column]) for column in view.columns) for row in _rows(project, name)
        )
        found.shown[name] = shown.total()
        for what, some in (("lacks", expected - shown), ("has too much", shown - expected)):
            if some:
                found.wrong.append(f"{name} (as {query}) {what} {some.total()} rows: {list(some)[:3]}")
        if not shown:
            found.wrong.append(f"{name} shows nothing, which proves nothing")
    return found


def _rows(project: Project, name: str) -> list[dict[str, Any]]:
    newest = newest_rows(project, name, None, _ALL)
    return [dict(zip(newest.columns, row, strict=True)) for row in newest.rows]


def _table(storage: Any) -> Any:
    from pyiceberg.table import StaticTable

    stored = load_table(storage, SOURCE)
    assert stored is not None
    return StaticTable.from_metadata(stored.metadata_location, storage.pyiceberg_properties())


def _of_schema(schema: Any) -> list[tuple[str, str]]:
    return [(one.name, str(one.field_type)) for one in schema.fields if one.name in FIELDS]


def _versions(storage: Any, definitions: Sequence[Definition], found: Found) -> list[tuple[int, Columns]]:
    """The columns that the log has had, each with the epoch of the commit that has changed them: the definitions one
    after the other (E7)."""
    table, versions, at = _table(storage), list[tuple[int, Columns]](), 0
    schemas, epoch = table.schemas(), 0
    for snapshot in sorted(table.snapshots(), key=lambda one: one.sequence_number):
        stored = _of_schema(schemas[snapshot.schema_id])
        epoch = int(snapshot.summary.additional_properties.get("tidegate.epoch", epoch))
        if versions and stored == columns_of(definitions[at]):
            continue
        later = [n for n in range(at, len(definitions)) if columns_of(definitions[n]) == stored]
        if not later or later[0] > at + 1:
            found.wrong.append(f"E7: after {columns_of(definitions[at])} the log has the columns {stored}")
            return []
        at = later[0]
        versions.append((epoch if versions else 0, definitions[at].columns))
    if at != len(definitions) - 1:
        found.wrong.append(f"the log has never had the columns {columns_of(definitions[-1])}")
    return versions


def _values(
    raw: Sequence[Mapping[str, Any]], versions: Sequence[tuple[int, Columns]], now: Columns, found: Found
) -> dict[int, dict[str, Any]]:
    """What each row holds by the rules, by its id; and whether the log has this (E2)."""
    payloads: dict[int, dict[str, Any]] = {}
    wrong = 0
    for row in raw:
        since = [columns for epoch, columns in versions if epoch < row["epoch"] or epoch == 0]
        expected = held(fields(row["id"]), since[-1], now)
        payloads[row["id"]] = {name: row[name] for name in ("id", "k", "v")} | expected
        if expected != {column.name: row[column.name] for column in now}:
            wrong += 1
            if wrong <= 3:
                found.wrong.append(
                    f"E2: row {row['id']} of epoch {row['epoch']} should hold {expected}: {row}"
                )
    return payloads


def _parse(partition: str, stored: Stored) -> Row:
    assert stored.value is not None
    told = json.loads(stored.value)
    at = datetime.fromisoformat(told["ts"]).replace(tzinfo=UTC)
    return Row(partition, stored.offset, _micros(at), None, {"id": told["id"]})


def _judged(raw: Sequence[Mapping[str, Any]]) -> dict[str, list[Judged]]:
    found: dict[str, list[Judged]] = {}
    for row in sorted(raw, key=lambda row: row["offset"]):
        missed = _micros(row["watermark"]) if row["outcome"] == "late" else None
        judged = Judged(row["offset"], row["outcome"], missed, row["reason"], row["epoch"])
        found.setdefault(row["partition"], []).append(judged)
    return found


def _mark(row: Mapping[str, Any]) -> Mark:
    at = _micros(row["at"])
    assert at is not None
    names = ("state", "next_offset", "on_time", "late", "rejected")
    return Mark(
        row["epoch"],
        at // 1000,
        row["partition"],
        _micros(row["watermark"]),
        _micros(row["published"]),
        *(row[name] for name in names),
    )


def _micros(value: Any) -> int | None:
    if value is None or isinstance(value, int):
        return value
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    since = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * _SECOND + since.microseconds
