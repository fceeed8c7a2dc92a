"""Where the stored windows of a view begin, from Iceberg's manifests alone: no JVM, no data file."""

from __future__ import annotations

from tidegate.errors import TidegateError
from tidegate.project.disk import trouble
from tidegate.project.storage import Storage
from tidegate.store.metadata import CommittedTable


def earliest_end(storage: Storage, table: CommittedTable) -> int | None:
    """The end of the first window that a view's table holds, in ticks of its time; None where nothing is stored.

    Raises TG620 if the manifests can't be read.
    """
    from pyiceberg.conversions import from_bytes
    from pyiceberg.table import StaticTable
    from pyiceberg.types import DateType, LongType

    try:
        static = StaticTable.from_metadata(table.metadata_location, storage.pyiceberg_properties())
        snapshot = static.current_snapshot()
        if snapshot is None:
            return None
        end = static.schema().find_field("_window_end")
        kind = DateType() if isinstance(end.field_type, DateType) else LongType()
        # Bounded: a bound for each data file.
        bounds = [
            entry.data_file.lower_bounds[end.field_id]
            for manifest in snapshot.manifests(static.io)
            for entry in manifest.fetch_manifest_entry(static.io, discard_deleted=True)
            if end.field_id in (entry.data_file.lower_bounds or {})
        ]
    except (OSError, ValueError, KeyError) as error:
        raise trouble(error) or TidegateError(
            "TG620", f"can't read the manifests of {table.name}: {error}"
        ) from None
    return min((int(from_bytes(kind, bound)) for bound in bounds), default=None)
