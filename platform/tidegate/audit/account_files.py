"""Files of accounts that the properties of a table name: what retention has removed, what was erased, and which windows
keep their counts. No snapshot has them, and without them no audit adds up, and no plan can be made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tidegate.iceberg import retire
from tidegate.iceberg.versions.swap import DATA_PATH
from tidegate.ingest import erased
from tidegate.plan.versions import BUILDING, MARKS, kept_versions
from tidegate.views.revisions import erased_windows


def named_by(location: str, properties: Mapping[str, str]) -> Iterator[str]:
    """Where they are, by the table's location and properties: also those of the versions of a view that are kept."""
    if BUILDING in properties:
        # A version that is built has its files in the folder of the view.
        location = properties.get(DATA_PATH, f"{location}/data").removesuffix("/data")
    for one, key in ((retire, retire.ACCOUNTS), (erased, erased.RECORD)):
        if key in properties:
            yield f"{location}/{one.FOLDER}/{properties[key]}"
    for said in (properties, *(kept.definition for kept in kept_versions(properties))):
        if (name := json.loads(said.get(MARKS) or "{}").get("file")) is not None:
            yield f"{location}/{erased_windows.FOLDER}/{name}"
