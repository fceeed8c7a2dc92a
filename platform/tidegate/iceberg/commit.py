"""One Iceberg commit from the driver: files that tasks wrote, and facts in the snapshot summary (R1, R2).

Every commit is fenced: it names the snapshot that it builds on, and fails if anybody has committed since. Two
runs that overlap (a retry beside a dying JVM) can therefore never both append.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.attempt import TRIES, attempted, committed, overtaken
from tidegate.iceberg.conditions import all_rows, closed_between, nobodys
from tidegate.iceberg.data_files import content_file, schema_in, target_in
from tidegate.iceberg.merge import Merge
from tidegate.iceberg.own_metadata import is_on_server
from tidegate.iceberg.planned import AddedFiles, JavaManifests, Planned, as_plain
from tidegate.iceberg.protocol import (
    AnswerLost,
    Conflict,
    Found,
    Snapshot,
    Stored,
    continued,
    standing,
    stands,
)
from tidegate.iceberg.statement import StatementBranch
from tidegate.iceberg.table_change import TableChange, change_table, names_at
from tidegate.iceberg.table_commit import TableCommit, said
from tidegate.iceberg.versions.swap import DATA_PATH, BuiltVersion, SwapCommit, TagRemoval, VersionSwap
from tidegate.jvm.calls import Calls, Promise
from tidegate.jvm.java import java_class, json_mapper, once
from tidegate.jvm.within import settings
from tidegate.project.owner import OWNER, Owner, require_owner
from tidegate.store.metadata import life
from tidegate.store.version import STORAGE_VERSION, require_known
from tidegate.tasks.writer import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.project import Storage


#: Settings of Spark whose values a statement's snapshot gets.
_PROPERTY = "spark.sql.iceberg.snapshot-property."
#: What MERGE reads its changes from.
_CHANGES = "_tidegate_changes"


class IcebergTable:
    """A handle on one Iceberg table for commits: schema with field ids, current snapshot, fenced append. `owner`: who
    writes; None where it is only read, or the caller has asked (`owners.py`). `planned`: what the session knows of
    its files."""

    def __init__(
        self,
        spark: SparkSession,
        identifier: str,
        owner: Owner | None = None,
        planned: Planned | None = None,
    ) -> None:
        self._spark, self._jvm = spark, spark._jvm
        self.identifier, self._owner = identifier, owner
        self._planned = planned or Planned()
        self._load()

    def _load(self) -> None:
        """Raises TG622 for a table of a later release (E8)."""
        tables = java_class(self._jvm, "org.apache.iceberg.spark.Spark3Util")
        calls = Calls(self._jvm)
        table = calls.call(tables, "loadIcebergTable", self._spark._jsparkSession, self.identifier)
        properties = self._properties_of(table, calls)
        uuid = calls.call(calls.call(table, "uuid"), "toString")
        self._table, text, self._uuid = calls.run(table, properties, uuid)
        self._known: dict[str, str] | None = json.loads(text)
        version = self.property(STORAGE_VERSION)
        if version is not None:
            require_known(self.identifier, {STORAGE_VERSION: version})

    @property
    def java(self) -> Any:
        """Iceberg's own object, as of the last `current()`. Whoever has it may change the table's properties, and takes
        it anew after each look."""
        self._known = None
        return self._table

    @property
    def location(self) -> str:
        return str(self._table.location())

    @property
    def uuid(self) -> str:
        """See `StoredTable.uuid`; another one once its results were replaced as a whole (`rebuild.py`)."""
        # (Iceberg refuses to refresh a table that has become another one.)
        return life(self._uuid, self.properties())

    def properties(self) -> dict[str, str]:
        """All table properties, as of the last `current()`, for which Java is asked once."""
        if self._known is None:
            calls = Calls(self._jvm)
            (text,) = calls.run(self._properties_of(self._table, calls))
            self._known = json.loads(text)
        assert self._known is not None
        return dict(self._known)

    def _properties_of(self, table: Any, calls: Calls) -> Promise:
        # As one text: a Java map costs a call for every entry.
        return calls.call(json_mapper(self._jvm), "writeValueAsString", calls.call(table, "properties"))

    def property(self, key: str) -> str | None:
        """A table property, or None."""
        return self.properties().get(key)

    def set_properties(self, given: Mapping[str, str]) -> None:
        """Set these in a commit of their own."""
        if is_on_server(once(self._table, "operations")):
            return self._set_on_server(given)
        update = self._table.updateProperties()
        for key, value in given.items():
            update = update.set(key, value)
        update.commit()
        return self.refresh()

    def _set_on_server(self, given: Mapping[str, str]) -> None:
        """A server compares no properties. So the commit has a snapshot, without rows, which stops whoever commits what
        follows from the properties of before."""
        for left in reversed(range(TRIES)):
            try:
                self.append([], None, {}, self._look(None).now, change=TableChange(properties=given))
                return
            except TidegateError as error:
                if error.code != "TG502" or not left:
                    raise

    def current(self) -> Snapshot:
        """The current snapshot, read anew. Raises TG531 for a writer who is not the owner (X3)."""
        newest = self._read()
        if self._owner is not None:
            require_owner(self.identifier, self._owner, Owner.of_text(self.property(OWNER)))
        return self._at(newest)

    def refresh(self) -> None:
        """Read it anew."""
        self._read()

    def _read(self) -> str | None:
        """Read it anew: the newest snapshot in Iceberg's JSON."""
        from py4j.protocol import Py4JJavaError

        try:
            return self._seen("refresh")
        except Py4JJavaError:
            # A catalog that is a folder goes from one version of the metadata to the next. Where so many commits were
            # made since that this one's is gone, it says that it is missing; a new handle begins at the newest.
            self._load()
        return self._seen()

    def _seen(self, *before: str) -> str | None:
        """After these calls: the newest snapshot in Iceberg's JSON. The properties are known then."""
        self._known, calls = None, Calls(self._jvm)
        for name in before:
            calls.call(self._table, name)
        properties = self._properties_of(self._table, calls)
        text, newest = calls.run(properties, self._text_of("currentSnapshot", (), calls))
        self._known = json.loads(text)
        return None if newest is None else str(newest)

    def _text_of(self, which: str, of: tuple[Any, ...], calls: Calls) -> Promise:
        """A snapshot of the table in Iceberg's JSON, if there is one."""
        found = calls.call(self._table, which, *of)
        parser = java_class(self._jvm, "org.apache.iceberg.SnapshotParser")
        return calls.call(parser, "toJson", found, needs=found)

    def _text(self, which: str, *of: Any) -> str | None:
        calls = Calls(self._jvm)
        (found,) = calls.run(self._text_of(which, of, calls))
        return None if found is None else str(found)

    def tag(self, name: str) -> None:
        """Keep the current snapshot, if there is one, as `VERSION AS OF name`; no expiry takes it."""
        found = self.current().id
        if found is not None:
            manage, known = self._table.manageSnapshots(), self._table.refs().containsKey(name)
            (manage.replaceTag if known else manage.createTag)(name, found).commit()

    def at(self, snapshot: int | str) -> Snapshot:
        """An earlier snapshot of it, by its id or a tag."""
        return self._at(self._text("snapshot", snapshot))

    def names_at(self, snapshot: int) -> dict[str, str]:
        """See `StoredTable.names_at`."""
        return names_at(self._table, snapshot)

    def summaries(self) -> dict[int, dict[str, str]]:
        """The summary of every snapshot that is kept, by its id, as of the last `current()`."""
        found: dict[int, dict[str, str]] = {}
        for snapshot in self._table.snapshots():
            found[snapshot.snapshotId()] = json.loads(
                json_mapper(self._jvm).writeValueAsString(snapshot.summary())
            )
        return found

    def snapshot_ids(self) -> set[int]:
        """The snapshots that are kept, as of the last `current()`."""
        return {snapshot.snapshotId() for snapshot in self._table.snapshots()}

    def totals(self) -> dict[str, str]:
        """The summary of the newest snapshot, whoever made it, as of the last `current()`; empty without one."""
        current = self._text("currentSnapshot")
        return {} if current is None else said(current)[1]

    def _at(self, text: str | None) -> Snapshot:
        if text is None:
            return Snapshot(None, {})
        newest, summary, parent = said(text)

        def facts(snapshot: int) -> tuple[Mapping[str, str], int | None]:
            if snapshot == newest:
                return summary, parent
            found = self._text("snapshot", snapshot)
            return ({}, None) if found is None else said(found)[1:]

        return standing(newest, facts)

    def target(
        self,
        storage: Storage,
        split: str = "",
        day: str | None = None,
        bounds: tuple[str, ...] = (),
        reading: bool = False,
    ) -> WriteTarget:
        """How tasks write files for this table; or, `reading`, where its files are: then nothing is made."""
        calls = Calls(self._jvm)
        parser = java_class(self._jvm, "org.apache.iceberg.SchemaParser")
        text = calls.call(parser, "toJson", calls.call(self._table, "schema"))
        text, location = calls.run(text, calls.call(self._table, "location"))
        elsewhere = self.property(DATA_PATH)
        return target_in(str(location), schema_in(text), storage, split, day, bounds, reading, elsewhere)

    def files(
        self, snapshot: int, column: str, field_id: int, low: int | None, high: int | None
    ) -> list[dict[str, Any]] | None:
        """See `StoredTable.files`; bounds are known of a column of 64 bits."""
        manifests = JavaManifests(self._jvm, self._table, self._uuid, column, field_id)
        return as_plain(self._planned.files(self.identifier, manifests, snapshot, low, high))

    def files_named(self, paths: set[str], snapshot: int, low: Any, high: Any) -> list[Any]:
        """Iceberg's data files of closed rows with these paths, in a snapshot; all of their rows end in [low, high]."""
        # Bounded: the files of the days that an amendment touches.
        if not paths:
            return []
        return self._named(paths, snapshot, closed_between(self._jvm, low, high))

    def files_among(self, paths: set[str], snapshot: int) -> list[Any]:
        """As `files_named`, of the rows that are nobody's result."""
        return self._named(paths, snapshot, nobodys(self._jvm))

    def files_at(self, paths: set[str], snapshot: int) -> list[Any]:
        """As `files_named`, of all rows."""
        return self._named(paths, snapshot, all_rows(self._jvm))

    def _named(self, paths: set[str], snapshot: int, where: Any) -> list[Any]:
        found = []
        tasks = self._table.newScan().useSnapshot(snapshot).filter(where).planFiles()
        try:
            for task in tasks.iterator():
                if task.file().location() in paths:
                    found.append(task.file().copy())
        finally:
            tasks.close()
        return found

    def append(
        self,
        files: list[dict[str, Any]],
        target: WriteTarget | None,
        summary: dict[str, str],
        base: Snapshot,
        replaced: Sequence[bool | None] = (),
        removed: Sequence[Any] = (),
        change: TableChange | None = None,
    ) -> int:
        """Commit `files` on top of `base`; returns the new snapshot's id. `change`: of the table, in the same commit.

        `replaced`: in the same commit, drop the files with one of these values of `_open`: true for a view's open rows,
        None for those that it carries from tick to tick. `removed`: data files (`files_named`) to drop; if one of them
        is gone meanwhile (a compaction), nothing is committed.
        `target`: what `files` were written for (None without any).
        Raises TG502 if somebody else has committed to the table since `base`.
        """

        def made() -> TableCommit:
            commit = TableCommit(self._jvm, self._table)
            if change is not None:
                change_table(self._jvm, self._table, change, commit.transaction)
            return commit.with_rows(added, continued(base, summary), base.id, replaced, removed)

        assert target is not None or not files
        added = tuple(content_file(file, target) for file in files) if target is not None else ()
        only_adds = not replaced and not removed and change is None

        def attempt(_: Snapshot) -> Stored | Conflict | AnswerLost:
            parent, answer = self._attempt(made, base)
            self._known = self._known if change is None else None
            if only_adds and isinstance(answer, Stored):
                self._planned.committed(self.identifier, answer.result, AddedFiles(parent, added))
            return answer

        return committed(self.identifier, base, self._look, attempt)

    def swap(self, version: str, swap: VersionSwap, base: Snapshot) -> int:
        """See `StoredTable.swap`."""

        def made() -> SwapCommit:
            new = IcebergTable(self._spark, version)
            found = BuiltVersion(new.uuid, new.current().id, new.properties())
            swap.require_as_checked(self.identifier, self.properties(), found)
            self._known = None
            return SwapCommit(self._jvm, self._table, new.java, swap)

        return committed(self.identifier, base, self._look, lambda _: self._attempt(made, base)[1])

    def forget_tags(self, tags: Sequence[str], properties: Mapping[str, str]) -> None:
        """See `StoredTable.forget_tags`."""
        self._known = None
        if not isinstance(attempted(TagRemoval(self._jvm, self._table, tags, properties)), Stored):
            raise overtaken(self.identifier)

    def _attempt(
        self, made: Callable[[], TableCommit | SwapCommit], base: Snapshot
    ) -> tuple[int | None, Stored | Conflict | AnswerLost]:
        """Commit what `made` makes, on the newest snapshot that was looked at: the catalog refuses it if that is not
        the newest any more. Upkeep that comes in between is no conflict. With the answer, the snapshot that the last
        try was put on."""
        calls = Calls(self._jvm)
        newest = calls.call(self._table, "currentSnapshot")
        (known,) = calls.run(calls.call(newest, "snapshotId", needs=newest))
        now = base if known == base.id else self._look(None).now
        answer: Stored | Conflict | AnswerLost = Conflict()
        for _ in range(TRIES):
            if not stands(base, now):
                break
            answer = attempted(made())
            if not isinstance(answer, Conflict):
                break
            found = self._look(answer.commit)
            # The catalog refuses what was not made of the newest metadata, also where their snapshot is the same.
            if found.own or (answer.commit is None and found.now.id == now.id):
                break
            now = found.now
        return now.id, answer

    def _look(self, commit: int | None) -> Found:
        found = self._at(self._read())
        return Found(found, commit is not None and self._is_whole(commit))

    def _is_whole(self, commit: int) -> bool:
        """Whether a snapshot is there, with its files. Iceberg's Java removes what an attempt has written when the
        catalog refuses it, even if it was committed, since the catalog was asked twice: nobody can read that one."""
        found = self._table.snapshot(commit)
        return found is not None and self._table.io().newInputFile(found.manifestListLocation()).exists()

    def merge_rows(self, merge: Merge, base: Snapshot) -> None:
        """See `StoredTable.merge_rows`."""
        merge.changes.createOrReplaceTempView(_CHANGES)
        self._carry_out(lambda table: merge.sql(table, _CHANGES), merge.summary or {}, base)

    def delete_rows(self, where: str, summary: Mapping[str, str], base: Snapshot) -> None:
        """See `StoredTable.delete_rows`."""
        self._carry_out(lambda table: f"DELETE FROM {table} WHERE {where}", summary, base)

    def _carry_out(self, statement: Callable[[str], str], summary: Mapping[str, str], base: Snapshot) -> None:
        """A statement on `base`, or on upkeep that came on top of it; its snapshot says `summary`."""
        facts = {_PROPERTY + key: value for key, value in continued(base, summary).items()}
        if base.id is None:
            # A branch begins at a snapshot.
            base = Snapshot(self.append([], None, {}, base), {})

        def attempt(on: Snapshot) -> Stored | Conflict | AnswerLost:
            assert on.id is not None
            branch = StatementBranch(self._jvm, self._table, on.id)
            with settings(self._spark, facts):
                refused = branch.carry_out(lambda: self._spark.sql(statement(branch.of(self.identifier))))
            self.refresh()
            return refused or branch.publish(self._jvm, self._table)

        committed(self.identifier, base, self.look_at_main, attempt, TRIES)

    def look_at_main(self, commit: int | None) -> Found:
        """As `_look`; a snapshot of a branch alone is not there."""
        found = self._look(commit)
        known = java_class(self._jvm, "org.apache.iceberg.util.SnapshotUtil").isAncestorOf
        return found if not found.own else Found(found.now, bool(known(self._table, commit)))
