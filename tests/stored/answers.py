"""Everything that a project answers, as text that can be stored and compared: tables, views, audits, status, sinks.

Run by the release that makes tables and by every later one, so only names that all of them have are used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kafka import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.session.session import Session

#: `{"columns": [...], "rows": [[text, ...], ...]}`, rows sorted.
Rows = dict[str, list]

#: Columns that hold the wall clock of a run.
CLOCKS = ("arrived_at", "at", "amended_at", "quiet_since", "moved_at")
#: What an audit says that is compared.
_SOURCE = ("raw", "ok", "source_rows")
_VIEW = ("ok", "closed_windows", "raw", "counted", "filtered", "late", "rejected")
#: Of status; the rest is measured by the clock of now, or numbers a snapshot.
_STATUS = {
    "relations": ("ran", "raw", "on_time", "late", "rejected", "epoch", "watermark_text", "lag_rows"),
    "views": ("ran", "frontier_text", "clock_text", "groups", "open", "current"),
    "sinks": ("ran", "delivered", "waiting", "tick", "newest", "current"),
}


def answers(
    session: Session,
    broker: Broker,
    out_topic: str,
    audited: Iterable[str] = (),
    clocks: bool = True,
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    """By question, what the project answers now. `audited`: sources, tables and views. `clocks`: with the columns that
    hold the wall clock. `only`: of relations and views, these alone are asked; None: all."""
    catalog = session.catalog
    asked: dict[str, Callable[[], Any]] = {}
    for relation in (one for one in catalog.relations if only is None or one.name in only):
        names = [relation.name]
        if relation.watermark is not None:
            names += [f"{relation.name}${table}" for table in ("raw", "late", "rejected", "watermarks")]
        asked |= {name: _rows_of(session, name, clocks) for name in names}
    for view in (one for one in catalog.views if only is None or one.name in only):
        asked[view.name] = _rows_of(session, view.name, clocks)
    for name in ("tumbled", "sessions"):
        asked[f"{name}$revisions"] = _rows_of(session, f"{name}$revisions", clocks)
    asked["table lake"] = lambda: _rows(session.tables.rows("tidegate.main.lake"), clocks)
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(asked, pool.map(lambda ask: ask(), asked.values()), strict=True))
    # One after the other: an audit names its temporary views.
    found |= {f"audit {name}": _audit(session, name) for name in audited}
    found["topic"] = sorted([str(k), str(v)] for rows in broker.read(out_topic).values() for k, v in rows)
    found["files"] = _delivered(session.project.root / "out")
    return found | {"status": status(session)}


def status(session: Session) -> dict[str, Any]:
    """By kind and name, what `tidegate status --json` says of it that no clock of now decides."""
    from tidegate.store.status import read_status

    document = json.loads(json.dumps(read_status(session.project).to_dict()))
    found: dict[str, Any] = {
        f"{kind} {one['name']}": {name: one[name] for name in names}
        for kind, names in _STATUS.items()
        for one in document[kind]
    }
    for one in document["relations"]:
        for p in one["partitions"]:
            names = (
                "state",
                "watermark_text",
                "next_offset",
                "on_time",
                "late",
                "rejected",
                "max_event_time_text",
            )
            found[f"partition {p['partition']} of {one['name']}"] = {name: p[name] for name in names}
    return found


def _rows_of(session: Session, name: str, clocks: bool) -> Callable[[], Rows]:
    return lambda: _rows(session.table(name), clocks)


def _rows(frame: DataFrame, clocks: bool) -> Rows:
    columns = [c for c in frame.columns if clocks or c not in CLOCKS]
    rows = frame.select(*[f"`{c}`" for c in columns]).collect()
    return {"columns": columns, "rows": sorted([_text(value) for value in row] for row in rows)}


def _text(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _audit(session: Session, name: str) -> dict[str, Any]:
    from tidegate.audit.source import audit_source
    from tidegate.audit.view import audit_view

    if name in {view.name for view in session.catalog.views}:
        found, names = audit_view(session, name), _VIEW
    else:
        found, names = audit_source(session, name), _SOURCE
    return {name: getattr(found, name) for name in names}


def _delivered(folder: Path) -> dict[str, list[str]]:
    """What file sinks have delivered, by name of the file; of Parquet, its rows."""
    import pyarrow.parquet as pq

    found = {}
    for file in sorted(
        path for path in folder.rglob("*") if path.is_file() and "_tidegate" not in path.parts
    ):
        name = str(file.relative_to(folder))
        if file.suffix == ".parquet":
            found[name] = sorted(map(str, pq.read_table(file).to_pylist()))
        else:
            found[name] = sorted(file.read_text(encoding="utf-8").splitlines())
    return found
