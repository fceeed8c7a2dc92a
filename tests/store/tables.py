"""Iceberg tables for tests, made without a JVM: metadata as in a hadoop catalog, and progress files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.project.storage import CATALOG
from tidegate.store.sqlite_catalog import prepare

PROGRESS = pa.struct(
    [
        *[(n, pa.int64()) for n in ("watermark", "published")],
        ("state", pa.string()),
        *[(n, pa.int64()) for n in ("next_offset", "on_time", "late", "rejected", "max_event_time")],
        ("files", pa.list_(pa.struct([("path", pa.string()), ("rows", pa.int64())]))),
    ]
)


def progress_row(partition: str | None, **values: Any) -> dict[str, Any]:
    """A row of a progress file; what is not given is 0 or undefined."""
    empty = {"next_offset": 0, "on_time": 0, "late": 0, "rejected": 0}
    return {"_outcome": "watermark", "_source_partition": partition, "_progress": empty | values}


def write_progress(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A progress file as the engine writes it (other columns of the log are left out, as there)."""
    schema = pa.schema(
        [("_outcome", pa.string()), ("_source_partition", pa.string()), ("_progress", PROGRESS)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


@dataclass
class HadoopTable:
    """A table folder that grows by one metadata file per commit. `catalog`: the file of a catalog in SQLite that the
    table is in, too."""

    folder: Path
    properties: dict[str, str] = field(default_factory=dict)
    uuid: str = "made-first"
    version: int = 0
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    catalog: Path | None = None

    def commit(self, summary: dict[str, Any] | None = None, *, hint: bool = True, at_ms: int = 0) -> Path:
        """Add a snapshot with this summary (None: no snapshot, as CREATE TABLE does). Its metadata file."""
        if summary is not None:
            number = len(self.snapshots) + 1
            self.snapshots.append(
                {
                    "snapshot-id": number * 100,
                    "parent-snapshot-id": (number - 1) * 100 or None,
                    "timestamp-ms": at_ms,
                    "summary": {"operation": "append", **{k: str(v) for k, v in summary.items()}},
                }
            )
        self.version += 1
        metadata = {
            "format-version": 2,
            "table-uuid": self.uuid,
            "location": f"file:{self.folder}",
            "current-schema-id": 1,
            "schemas": [
                {"schema-id": 0, "fields": []},
                {
                    "schema-id": 1,
                    "fields": [
                        {"id": 1, "name": "ts", "type": "timestamp", "required": False},
                        {"id": 2, "name": "tags", "type": {"type": "list"}, "required": False},
                    ],
                },
            ],
            "properties": self.properties,
            "current-snapshot-id": self.snapshots[-1]["snapshot-id"] if self.snapshots else -1,
            "snapshots": self.snapshots,
        }
        target = self.folder / "metadata" / f"v{self.version}.metadata.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(metadata))
        if hint:
            (target.parent / "version-hint.text").write_text(str(self.version))
        if self.catalog is not None:
            self._register(target)
        return target

    def _register(self, metadata: Path) -> None:
        assert self.catalog is not None
        prepare(self.catalog)
        row = (CATALOG, self.folder.parent.name, self.folder.name, f"file://{metadata}", None, "TABLE")
        with closing(sqlite3.connect(self.catalog, isolation_level=None)) as database:
            database.execute("INSERT OR REPLACE INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", row)
