"""The data files that may hold rows of some time, without reading every manifest of a table for each slice.

What was found is kept with the snapshot that it is of. A later snapshot adds to it what it has added itself: what this
process has committed is known, and of what another one has committed the manifests of that one snapshot are read. All
else (files that were rewritten or deleted, a snapshot that has expired, a step back, another table of the same name) is
planned anew from all manifests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tidegate.iceberg.conditions import on_time_between
from tidegate.iceberg.data_files import bound
from tidegate.iceberg.layout import ON_TIME
from tidegate.jvm.calls import Calls, Promise
from tidegate.jvm.java import java_class

#: A slice follows the one before by a few commits. From further away all is planned.
_STEPS = 16
#: Files that are kept of a table; then those go that end before what is asked for.
KEPT_FILES = 4_000

#: The partitions that `layout.py` makes; the outcome is the first of them.
_SPEC = 0
#: Of how many files one question asks the JVM.
_AT_ONCE = 500
_LISTS = "org.apache.iceberg.relocated.com.google.common.collect.Lists"

#: A data file in Iceberg's JSON (`data_files.content_file`).
Content = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedFile:
    """A data file: its `rows`, and the least and the greatest value of one column of 64 bits, None if not known."""

    path: str
    rows: int
    least: int | None
    greatest: int | None

    @classmethod
    def of(cls, content: Content, field_id: int) -> PlannedFile:
        bounds = (bound(content.get(side), field_id) for side in ("lower-bounds", "upper-bounds"))
        return cls(content["file-path"], content["record-count"], *bounds)

    def reaches(self, low: int | None) -> bool:
        """Whether it may hold a value that is not below `low`."""
        return low is None or self.greatest is None or self.greatest >= low

    def begins_before(self, high: int | None) -> bool:
        """Whether it may hold a value below `high`."""
        return high is None or self.least is None or self.least < high


@dataclass(frozen=True)
class AddedFiles:
    """What one snapshot has added to its parent, where it has done nothing else."""

    parent: int | None
    added: tuple[Content, ...]


class Manifests(Protocol):
    """What the manifests of a table say, of one column."""

    @property
    def table(self) -> str:
        """Iceberg's id of the table."""

    @property
    def field_id(self) -> int:
        """Of the column."""

    def all(self, snapshot: int, low: int | None) -> list[Content] | None:
        """The data files with on-time rows that may not be below `low`. None if rows of one are deleted beside it."""

    def step(self, snapshot: int) -> AddedFiles | None:
        """What the snapshot has added; None if it is gone, or has done something else."""


@dataclass(frozen=True)
class _FilesKnown:
    """The files of a snapshot that reach `floor`."""

    table: str
    snapshot: int
    floor: int | None
    files: tuple[PlannedFile, ...]


class Planned:
    """What a session knows of the files of its tables, by their identifiers."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _FilesKnown] = {}
        self._own: dict[str, dict[int, AddedFiles]] = {}

    def committed(self, identifier: str, snapshot: int, step: AddedFiles) -> None:
        """Note what this process has added by a commit."""
        steps = {**self._own.get(identifier, {}), snapshot: step}
        self._own[identifier] = dict(list(steps.items())[-_STEPS:])

    def files(
        self, identifier: str, manifests: Manifests, snapshot: int, low: int | None, high: int | None
    ) -> list[PlannedFile] | None:
        """The files that may hold on-time rows with low <= value < high (None: no bound). None if rows of one of them
        are deleted beside it."""
        key = (identifier, manifests.field_id)
        before = self._known.get(key)
        known = None if before is None else self._followed(identifier, manifests, before, snapshot, low)
        if known is None:
            found = manifests.all(snapshot, low)
            if found is None:
                self._known.pop(key, None)
                return None
            listed = tuple(PlannedFile.of(content, manifests.field_id) for content in found)
            known = _FilesKnown(manifests.table, snapshot, low, listed)
        if len(known.files) > KEPT_FILES:
            known = replace(known, floor=low, files=tuple(f for f in known.files if f.reaches(low)))
        if len(known.files) <= KEPT_FILES:
            self._known[key] = known
        else:
            self._known.pop(key, None)
        return [file for file in known.files if file.reaches(low) and file.begins_before(high)]

    def _followed(
        self, identifier: str, manifests: Manifests, known: _FilesKnown, snapshot: int, low: int | None
    ) -> _FilesKnown | None:
        """What is known, brought to another snapshot; None if that has to be planned."""
        deeper = known.floor is not None and (low is None or low < known.floor)
        if deeper or known.table != manifests.table:
            return None
        added: list[Content] = []
        at: int | None = snapshot
        for _ in range(_STEPS):
            if at == known.snapshot:
                files = tuple(PlannedFile.of(content, manifests.field_id) for content in added)
                wanted = tuple(f for f in files if f.reaches(known.floor))
                return replace(known, snapshot=snapshot, files=(*known.files, *wanted))
            step = None if at is None else self._own.get(identifier, {}).get(at) or manifests.step(at)
            if step is None:
                return None
            added[:0] = [content for content in step.added if content["partition"]["1000"] == ON_TIME]
            at = step.parent
        return None


def added_only(summary: Mapping[str, str], operation: str) -> bool:
    """Whether a snapshot has added data files, if anything, and the table has no deleted rows beside its files: what it
    says of itself."""
    counts = ("deleted-data-files", "removed-delete-files", "added-delete-files", "total-delete-files")
    return operation in ("append", "overwrite") and all(int(summary.get(name, "0")) == 0 for name in counts)


class JavaManifests:
    """See `Manifests`; by Iceberg's Java. `java`: the table's object, as of the last `current()`; `table`: its id."""

    def __init__(self, jvm: Any, java: Any, table: str, column: str, field_id: int) -> None:
        self._jvm, self._java, self._column = jvm, java, column
        self.table, self.field_id = table, field_id

    def all(self, snapshot: int, low: int | None) -> list[Content] | None:
        """See `Manifests`."""
        where = on_time_between(self._jvm, self._column, low, None)
        scan = self._java.newScan().useSnapshot(snapshot).filter(where).includeColumnStats()
        lists, tasks, calls = java_class(self._jvm, _LISTS), scan.planFiles(), Calls(self._jvm)
        files = calls.call(lists, "newArrayList", tasks)
        try:
            files, size = calls.run(files, calls.call(files, "size"))
        finally:
            tasks.close()
        parser, found = java_class(self._jvm, "org.apache.iceberg.ScanTaskParser"), list[Content]()
        for text in self._of_each(files, size, lambda calls, file: calls.call(parser, "toJson", file)):
            facts = json.loads(text)
            if facts.get("delete-files"):
                return None
            found.append(facts["data-file"])
        return found

    def _of_each(self, files: Any, size: int, of: Callable[[Calls, Promise], Promise]) -> Iterator[Any]:
        """What a call gives of each of the things in a list of Java's. (An iterator ends by an error of the JVM, about
        which PySpark has ninety questions.)"""
        for start in range(0, size, _AT_ONCE):
            calls = Calls(self._jvm)
            places = range(start, min(start + _AT_ONCE, size))
            yield from calls.run(*[of(calls, calls.call(files, "get", place)) for place in places])

    def step(self, snapshot: int) -> AddedFiles | None:
        """See `Manifests`."""
        calls = Calls(self._jvm)
        made = calls.call(self._java, "snapshot", snapshot)
        text = calls.call(
            java_class(self._jvm, "org.apache.iceberg.SnapshotParser"), "toJson", made, needs=made
        )
        spec = calls.call(self._java, "spec")
        made, text, spec, number = calls.run(made, text, spec, calls.call(spec, "specId"))
        if made is None:
            return None
        facts = json.loads(text)
        summary = facts.get("summary", {})
        if number != _SPEC or not added_only(summary, summary.get("operation", "")):
            return None
        calls = Calls(self._jvm)
        files = calls.call(made, "addedDataFiles", calls.call(self._java, "io"))
        files, size = calls.run(files, calls.call(files, "size"))
        if any(
            split != _SPEC for split in self._of_each(files, size, lambda calls, f: calls.call(f, "specId"))
        ):
            return None
        parser, found = java_class(self._jvm, "org.apache.iceberg.ContentFileParser"), list[Content]()
        for text in self._of_each(files, size, lambda calls, file: calls.call(parser, "toJson", file, spec)):
            content = json.loads(text)
            # Iceberg writes its values in the order of the fields.
            found.append(content | {"partition": {"1000": content["partition"][0]}})
        return AddedFiles(facts.get("parent-snapshot-id"), tuple(found))


def as_plain(files: Sequence[PlannedFile] | None) -> list[dict[str, Any]] | None:
    """As `StoredTable.files` has them."""
    if files is None:
        return None
    return [{"path": f.path, "rows": f.rows, "least": f.least, "greatest": f.greatest} for f in files]
