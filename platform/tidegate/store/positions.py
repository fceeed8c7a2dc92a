"""How far a sink has delivered: what each connector keeps beside its rows, read without a JVM."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate.errors import TidegateError
from tidegate.plan.versions import next_number, number_of
from tidegate.project.disk import trouble
from tidegate.project.object_store import read_json
from tidegate.project.storage import Storage
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.sql.options.in_place import in_place_options
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.sink_connectors import FilesystemSinkOptions, IcebergSinkOptions
from tidegate.store.metadata import CommittedTable, load_table
from tidegate.store.places import FORMER, former_names
from tidegate.store.version import require_known

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog

_SUMMARY = "tidegate.delivered-"
#: What the names of position files of Kafka sinks start with; behind it is the topic.
KAFKA_POSITION = "kafka-"
#: Names of files of a file sink (`sinks/filesystem.py`): version of the view, first and last commit, number.
_FILE = re.compile(r"(?:v(?P<version>\d+)-)?\d{12}-(?P<last>\d{12})-\d{5}\.")


@dataclass(frozen=True)
class Position:
    """Delivered up to and including commit `tick` of the table that is called `table` (`IcebergTable.uuid`).

    `total`: how many rows were final in it by then; `skipped`: as many of those were there before the sink began, and
    not wanted (`snapshot = 'false'`). `amendments`: how many amendments of it are delivered as well, by a sink that
    upserts them (B2); `since`: the frontier where such a sink began, in ticks: windows that end beyond it are its own
    (None: all). `beyond`: the frontier up to which an earlier version of a view was delivered, so that of this one only
    what ends later is (E6; None: nothing was, or it is delivered anew).
    `commit`: the id of the snapshot that commit `tick` was (None: of an earlier release).
    """

    table: str
    tick: int
    total: int = 0
    skipped: int = 0
    amendments: int = 0
    since: int | None = None
    beyond: int | None = None
    commit: int | None = None

    @property
    def edge(self) -> int | None:
        """Rows that end at or before it are not delivered of this version."""
        return max((edge for edge in (self.since, self.beyond) if edge is not None), default=None)

    @property
    def rows(self) -> int:
        """Delivered in all."""
        return self.total - self.skipped

    def to_summary(self) -> dict[str, str]:
        """As keys of an Iceberg snapshot's summary."""
        facts = {f.name: getattr(self, f.name) for f in fields(self)}
        return {f"{_SUMMARY}{name}": str(value) for name, value in facts.items() if value is not None}

    def has_left(self, known: KnownCommits | None) -> bool:
        """Whether this was delivered of commits that its table does not have (None: there is no table): it is of an
        earlier time, restored from a backup, say. (Unknown where they have expired: no.)"""
        if known is not None and known.table != self.table:
            number = number_of(self.table, known.table)
            # (No number of a version is given twice, also where the view has gone back to an earlier one.)
            return number is not None and number >= next_number(known.properties)
        ticks: Mapping[int, int] = {} if known is None else known.ticks
        if self.tick > max(ticks.values(), default=0):
            return True
        # Commits expire from the oldest on: where an older one is there, so would this one be.
        oldest = min(ticks.values(), default=0)
        return self.commit is not None and oldest < self.tick and self.commit not in ticks

    @classmethod
    def of_summary(cls, summary: Mapping[str, str]) -> Position | None:
        """None where the snapshot is not a delivery."""
        if f"{_SUMMARY}tick" not in summary:
            return None
        given = {f.name: summary.get(f"{_SUMMARY}{f.name}") for f in fields(cls) if f.name != "table"}
        numbers = {name: int(value) for name, value in given.items() if value is not None}
        return cls(summary[f"{_SUMMARY}table"], **numbers)

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Position:
        """From a position file; what else is in it is its connector's."""
        # One of an earlier version knows nothing of amendments.
        known = {"amendments": 0, "since": None, "beyond": None, "commit": None, **document}
        return cls(**{f.name: known[f.name] for f in fields(cls)})


@dataclass(frozen=True)
class KnownCommits:
    """What the table of a view or log knows of its commits. `table`: as in `Position`; `properties`: the table's;
    `ticks`: the number of each commit that has not expired, by the id of its snapshot."""

    table: str
    properties: Mapping[str, str]
    ticks: Mapping[int, int]

    @classmethod
    def of_table(cls, table: CommittedTable, upstream: Relation | View) -> KnownCommits:
        """Of the metadata of the table of `upstream`."""
        key = final_keys(upstream)[0]
        ticks = {one.snapshot_id: one.integer(key) or 0 for one in table.commits}
        return cls(table.uuid, table.properties, ticks)


def final_keys(upstream: Relation | View) -> tuple[str, str]:
    """Where the newest commit of a view or log says its number, and how many of its rows are final in all."""
    if isinstance(upstream, View):
        return "tidegate.tick", "tidegate.groups"
    return "tidegate.epoch", "tidegate.on_time"


def sink_table(storage: Storage, sink: Sink) -> tuple[str, str]:
    """(namespace, name) of an Iceberg sink's table."""
    assert isinstance(sink.connector, IcebergSinkOptions)
    namespace, _, name = (sink.connector.table or sink.name).rpartition(".")
    return namespace or storage.settings.namespace, name


def kafka_position(topic: str) -> str:
    """Name of the position file of a Kafka sink."""
    return f"{KAFKA_POSITION}{quote(topic, safe='')}.json"


def position_file(storage: Storage, sink: Sink) -> str:
    """URI of the JSON file that has the position of a sink whose connector has no commits of its own."""
    if isinstance(sink.connector, FilesystemSinkOptions):
        return f"{storage.uri(sink.connector.path)}/_tidegate/position.json"
    if isinstance(sink.connector, KafkaSinkOptions):
        # Another topic is another place, which has nothing yet. `${NAME}` stays as it is written.
        return f"{storage.work_folder(sink.name)}/{kafka_position(sink.connector.topic)}"
    return f"{storage.work_folder(sink.name)}/position.json"


def deployment(sink: Sink) -> dict[str, str]:
    """What a sink delivers, where to, and with which options that change in place, as its definition says now."""
    options = json.dumps(in_place_options(sink.connector, sink.format))
    return {
        "from": sink.upstream,
        "connector": sink.connector.connector,
        "place": sink.place,
        "options": options,
    }


def is_moved(before: Mapping[str, str], sink: Sink) -> bool:
    """Whether a sink is to deliver something else, or to another place, than by its `deployment` of before."""
    now = deployment(sink)
    return any(before[key] != now[key] for key in ("from", "connector", "place"))


def continues(before: Mapping[str, str], sink: Sink, catalog: Catalog, table: CommittedTable | None) -> bool:
    """Whether what a sink has delivered by its `deployment` of before is what it delivers now, under the former name
    of a view. `table`: of what it delivers now."""
    upstream = catalog.find(sink.upstream)
    names = [] if table is None else former_names(table.properties.get(FORMER))
    if isinstance(upstream, View) and upstream.renamed_from is not None:
        names.append(upstream.renamed_from)
    return before["from"].casefold() in (name.casefold() for name in names)


def deployment_file(storage: Storage, name: str) -> str:
    """URI of the JSON file that has the `deployment` of a sink's last delivery, wherever that went."""
    return f"{storage.work_folder(name)}/deployed.json"


def refusal_file(storage: Storage, name: str) -> str:
    """URI of the JSON file that has the position with which a sink was refused, because its table does not have what it
    has delivered. It is known by that when the table's commits do not tell any more."""
    return f"{storage.work_folder(name)}/refused.json"


def is_elsewhere(storage: Storage, name: str, position: Position, known: KnownCommits | None) -> bool:
    """Whether a sink has delivered what its table does not have (`has_left`), or was refused because of that and stands
    as it did then: commits that are made since expire, too. Raises TG620 if that can't be read."""
    if known is not None and known.table == position.table and position.commit in known.ticks:
        return False
    if position.has_left(known):
        return True
    found = _document(storage, refusal_file(storage, name), f'how sink "{name}" was refused')
    return found is not None and found[0] == asdict(position)


def last_deployment(storage: Storage, name: str) -> dict[str, str] | None:
    """The `deployment` by which a sink has last delivered; None before, or where that was not recorded yet. Raises
    TG620 if it can't be read."""
    found = _document(storage, deployment_file(storage, name), f'the last definition of sink "{name}"')
    return None if found is None else found[0]


def read_position(storage: Storage, sink: Sink) -> tuple[Position, str] | None:
    """The position, and when it last moved (ISO, UTC); None before the sink began. A delivery that is decided and broke
    off before it was finished does not count yet. Raises TG620 if it can't be read, TG622 for that of a later
    release."""
    if isinstance(sink.connector, IcebergSinkOptions):
        namespace, name = sink_table(storage, sink)
        table = load_table(storage, name, namespace)
        if table is None or table.properties.get("tidegate.sink") != sink.name:
            return None
        position = Position.of_summary(table.summary)
        if position is None or table.committed_ms is None:
            return None
        return position, _iso(table.committed_ms / 1000)
    what = f'the position of sink "{sink.name}"'
    found = _document(storage, position_file(storage, sink), what)
    if found is None or found[0].get("sink", sink.name) != sink.name:
        return None
    require_known(what, found[0])
    try:
        return Position.of_document(found[0]), _iso(found[1])
    except KeyError as error:
        raise _unreadable(what, error) from None


def files_beyond(storage: Storage, sink: Sink) -> str | None:
    """The first file in the folder of a file sink that is of commits behind its position, and of no delivery that is to
    be finished. None for other sinks. Raises TG620."""
    if not isinstance(sink.connector, FilesystemSinkOptions):
        return None
    from pyarrow.fs import FileSelector

    filesystem, folder = storage.filesystem(sink.connector.path)
    there = filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
    # Read behind the names: a file is put there when its delivery is in the position.
    found = _document(storage, position_file(storage, sink), f'the position of sink "{sink.name}"')
    if found is None:
        return None
    position = Position.of_document(found[0])
    pending = found[0].get("pending") or {}
    reached = (_number_of_version(position), max(position.tick, pending.get("tick", 0)))
    for name in sorted(info.base_name for info in there):
        file = _FILE.match(name)
        if file is not None and (int(file["version"] or 1), int(file["last"])) > reached:
            return f"{folder}/{name}"
    return None


def _number_of_version(position: Position) -> int:
    """That names of files begin with, of the second version of a view and later ones."""
    return int(position.table.partition("/")[2] or 1)


def _document(storage: Storage, uri: str, what: str) -> tuple[dict[str, Any], float] | None:
    """A JSON file, and when it was written, s since 1970; None if it is not there. Raises TG620."""
    filesystem, path = storage.filesystem(uri)
    try:
        document = read_json(filesystem, path)
        return document, filesystem.get_file_info(path).mtime.timestamp()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(what, error) from None


def _unreadable(what: str, error: Exception) -> TidegateError:
    return trouble(error) or TidegateError("TG620", f"can't read {what}: {error}")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
