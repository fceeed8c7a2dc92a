"""A relation's progress: what the gate must remember between batches, committed with the rows (R1)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.iceberg.data_files import path_of, progress_file, progress_name
from tidegate.iceberg.layout import PROGRESS
from tidegate.iceberg.partitions import ABSENT, Decisions, Sighting, partition_state, sighted
from tidegate.iceberg.protocol import Snapshot
from tidegate.plan.columns.changes import OPTIONS
from tidegate.plan.columns.undeclared import UNDECLARED, Undeclared
from tidegate.plan.crashes import CRASHES, Crashes
from tidegate.plan.gaps import ABSENT_BEFORE
from tidegate.plan.resets import FOLLOWED_RESETS, RESETS, with_step
from tidegate.store.holding import UNKNOWN_PARTITION
from tidegate.tasks.parquet.row_groups import open_file
from tidegate.tasks.writer import WriteTarget
from tidegate.watermark import GateState, Strategy, micros_of, publish, start_watermark
from tidegate.watermark.memory import StrategyMemory


@dataclass(frozen=True)
class ConsumedFile:
    """A file of a file source that is in the log. `modified`: ms since the epoch. `content`: of `footers.content_of`;
    None: an earlier version has read it."""

    path: str
    size: int
    modified: int
    rows: int
    content: str | None = None


@dataclass(frozen=True)
class FilesRead:
    """How many files are in a log, and a sum over their names, sizes and times: two sets of files that have the same
    are the same, whatever the order in which they came. `timed`: False for a sum of an earlier version, without times.
    """

    count: int = 0
    sum: int = 0
    timed: bool = True

    def and_file(self, path: str, size: int, modified: int) -> FilesRead:
        """With one more."""
        facts = f"{path}\0{size}\0{modified}" if self.timed else f"{path}\0{size}"
        found = hashlib.blake2b(facts.encode(), digest_size=8).digest()
        return replace(self, count=self.count + 1, sum=(self.sum + int.from_bytes(found)) % 2**64)

    def and_files(self, files: Iterable[tuple[str, int, int]]) -> FilesRead:
        """With some more, each as its path, size and time."""
        out = self
        for file in files:
            out = out.and_file(*file)
        return out

    def to_text(self) -> str:
        return f"{self.count}/{self.sum:016x}{'/t' if self.timed else ''}"

    @classmethod
    def from_text(cls, text: str | None) -> FilesRead | None:
        """The inverse; None gives None."""
        if text is None:
            return None
        count, total, *timed = text.split("/")
        return cls(int(count), int(total, 16), bool(timed))


@dataclass(frozen=True)
class InForce:
    """The strategy that a batch was judged by (W13): `identity` tells it from others, `text` is as people wrote it."""

    identity: str
    text: str

    @classmethod
    def from_summary(cls, summary: dict[str, str]) -> InForce | None:
        """What a commit says of it, or None."""
        identity = summary.get("tidegate.strategy-identity")
        return None if identity is None else cls(identity, summary.get("tidegate.strategy", ""))


@dataclass(frozen=True)
class LogPosition:
    """How far a log has been read by one that follows it: its last `epoch`, and which `table` it was (Iceberg's uuid):
    a log that was dropped and made anew is another one."""

    table: str
    epoch: int

    def to_text(self) -> str:
        return f"{self.table}/{self.epoch}"

    @classmethod
    def from_text(cls, text: str | None) -> LogPosition | None:
        """The inverse of `to_text`; None gives None."""
        if text is None:
            return None
        table, _, epoch = text.rpartition("/")
        return cls(table, int(epoch))


@dataclass
class LogProgress:
    """State after the last commit: epoch, published watermark `G`, and every partition's gate state.

    `files`: what a source of files has read (None: not known of a log of an earlier version). `strategy`: the one in
    force (W13). `resets`: what the commits say of resets of this log, and of resets that it has followed (W9),
    `plan.resets`. `position`: how far a log that follows another log has read it; `absent_before`: what it may not have
    got of that (`plan.gaps.ABSENT_BEFORE`). `sightings`: of partitions of a broker, what else is known of them.
    `topic_id`: which topic they are of. `crashes`: rows that have crashed their decoder (X2).
    `undeclared`: columns of files that nobody reads. `options`: those that change in place (E1), as the last batch was
    read by them, as JSON.
    """

    epoch: int = 0
    published: int | None = None
    states: dict[str, GateState] = field(default_factory=dict)
    strategy: InForce | None = None
    position: LogPosition | None = None
    sightings: dict[str, Sighting] = field(default_factory=dict)
    topic_id: str | None = None
    files: FilesRead | None = FilesRead()
    resets: dict[str, str] = field(default_factory=dict)
    crashes: Crashes | None = None
    undeclared: Undeclared | None = None
    absent_before: int | None = None
    options: str | None = None

    @classmethod
    def load(cls, snapshot: Snapshot, target: WriteTarget) -> LogProgress:
        """Read what the newest commit recorded; empty if there is none."""
        uri = snapshot.summary.get("tidegate.progress")
        if uri is None:
            return cls()
        with open_file(target.filesystem, path_of(uri, target)) as file:
            table = file.read(columns=["_source_partition", "_progress"], use_threads=False)
        states, sightings = {}, {}
        for name, entry in zip(
            table.column("_source_partition").to_pylist(), table.column("_progress").to_pylist(), strict=True
        ):
            if name is not None:
                known = {k: entry[k] for k in GateState().to_dict()}
                states[name] = GateState.from_dict(known | {"memory": entry.get("memory")})
                if entry.get("quiet_since") is not None:
                    facts = {f.name: entry[f.name] for f in fields(Sighting) if f.name != "absent"}
                    absent = entry["state"] if entry["state"] in ABSENT else None
                    sightings[name] = Sighting(**facts, absent=absent)
        return cls(
            snapshot.integer("tidegate.epoch") or 0,
            snapshot.integer("tidegate.watermark"),
            states,
            InForce.from_summary(snapshot.summary),
            LogPosition.from_text(snapshot.summary.get("tidegate.position")),
            sightings,
            snapshot.summary.get("tidegate.topic-id"),
            FilesRead.from_text(snapshot.summary.get("tidegate.files")),
            {key: snapshot.summary[key] for key in (RESETS, FOLLOWED_RESETS) if key in snapshot.summary},
            Crashes.of(snapshot.summary),
            Undeclared.of(snapshot.summary),
            snapshot.integer(ABSENT_BEFORE),
            snapshot.summary.get(OPTIONS),
        )

    def enumerate(self, partitions: Iterable[str]) -> None:
        """Let partitions take part before their first row is judged (W6); those without a row yet start at `G`
        (R3)."""
        for name in partitions:
            if name != UNKNOWN_PARTITION and not _rows(self.states.get(name)):
                self.states[name] = GateState(watermark=start_watermark(self.published))

    def prepare(self, decisions: Decisions) -> None:
        """Let a broker's partitions begin, before the first row of a batch is judged: new ones, and those that wake
        up, at max(Wp, G) (W6, W7, R3)."""
        for name, offset in decisions.start.items():
            self.states[name] = GateState(watermark=start_watermark(self.published), next_offset=offset)
        for name in decisions.until:
            sighting = self.sightings.get(name)
            if sighting is not None and sighting.absent is not None and self.published is not None:
                state = self.states[name]
                mark = self.published if state.watermark is None else max(state.watermark, self.published)
                self.states[name] = replace(state, watermark=mark)
        for name, (_, offset) in decisions.lost.items():
            self.states[name] = replace(self.states[name], next_offset=offset)

    def after(
        self,
        epoch: int,
        judged: dict[str, GateState],
        last: bool = False,
        decisions: Decisions | None = None,
        at: int = 0,
    ) -> LogProgress:
        """The progress once a batch is committed: new states, and `G` over all that take part (W6).

        `last`: nothing waits behind this batch, so a partition without a row has none, and takes no part. (An
        empty file has a folder, and a row that does not parse can seem to name a partition.)
        `decisions`: of a broker, who takes no part instead. `at`: the batch's clock, µs since the epoch.
        """
        states = self.states | judged
        sightings, absent = self.sightings, set()
        if decisions is not None:
            for name, until in decisions.until.items():
                # Also where the last offsets hold no row: a transaction's marker, or what compaction took.
                states[name] = replace(states[name], next_offset=max(states[name].next_offset, until))
            sightings = sighted(self.sightings, decisions, self.states, states, at)
            absent = {name for name, sighting in sightings.items() if sighting.absent is not None}
        elif last:
            absent = {name for name, s in states.items() if not _rows(s)}
        taking_part = [
            s.watermark for name, s in states.items() if name != UNKNOWN_PARTITION and name not in absent
        ]
        published = publish(taking_part, self.published)
        if decisions is not None and decisions.advance is not None:
            # All are idle, and the clock moves G (W7).
            published = publish([decisions.advance], published)
        topic = decisions.topic_id if decisions is not None else self.topic_id
        return replace(
            self, epoch=epoch, published=published, states=states, sightings=sightings, topic_id=topic
        )

    def reset(
        self, watermark: int, memories: Mapping[str, StrategyMemory | None], followed: Mapping[str, str]
    ) -> LogProgress:
        """The progress with every `Wp`, `G`, and the largest event times, at `watermark` where they are beyond it
        (W9): a new definition, on record for whoever reads the log. `memories`: what the strategy remembers of each
        partition, made again from the log; `followed`: what is said of the reset that this one follows."""
        states = {
            name: replace(
                state,
                watermark=_at_most(state.watermark, watermark),
                max_event_time=_at_most(state.max_event_time, watermark),
                memory=memories.get(name),
            )
            for name, state in self.states.items()
        }
        resets = {RESETS: with_step(self.resets, watermark, epoch=self.epoch + 1), **followed}
        return replace(
            self,
            epoch=self.epoch + 1,
            published=_at_most(self.published, watermark),
            states=states,
            resets=self.resets | resets,
        )

    def totals(self) -> dict[str, int]:
        """Rows so far by outcome, over all partitions."""
        return {
            "on_time": sum(s.on_time for s in self.states.values()),
            "late": sum(s.late for s in self.states.values()),
            "rejected": sum(s.rejected for s in self.states.values()),
        }

    def summary(self, file: dict[str, Any]) -> dict[str, str]:
        """What the snapshot summary says, so that a reader needs no data file for it."""
        facts: dict[str, Any] = {
            "epoch": self.epoch,
            "progress": file["uri"],
            "partitions": len(self.states),
            **self.totals(),
        }
        if self.published is not None:
            facts["watermark"] = self.published
        if self.strategy is not None:
            facts |= {"strategy": self.strategy.text, "strategy-identity": self.strategy.identity}
        if self.options is not None:
            facts[OPTIONS.removeprefix("tidegate.")] = self.options
        if self.position is not None:
            facts["position"] = self.position.to_text()
        if self.absent_before is not None:
            facts[ABSENT_BEFORE.removeprefix("tidegate.")] = self.absent_before
        if self.topic_id is not None:
            facts["topic-id"] = self.topic_id
        if self.files is not None:
            facts["files"] = self.files.to_text()
        if self.crashes is not None:
            facts[CRASHES.removeprefix("tidegate.")] = self.crashes.to_text()
        if self.undeclared is not None:
            facts[UNDECLARED.removeprefix("tidegate.")] = self.undeclared.to_text()
        return {f"tidegate.{key}": str(value) for key, value in facts.items()} | self.resets

    def write(
        self,
        target: WriteTarget,
        at: datetime,
        files: list[ConsumedFile],
        label: str | None = None,
        note: str | None = None,
        strategy: Strategy | None = None,
        clock: int | None = None,
        stall_timeout: float | None = None,
        decisions: Decisions | None = None,
    ) -> dict[str, Any]:
        """Write the progress rows as one small file of the log; its description for the commit.

        `label`: replaces the state of every partition. `note`: what people should know of this commit. `strategy`: the
        gate's, which says whether a partition is still warming up (W8). `clock`, `stall_timeout`: of
        `partition_state`.
        """
        shown = self._shown(label, strategy, clock, micros_of(at), stall_timeout)
        entries = [self._of_source(label, note, files), *self._of_partitions(shown, decisions)]
        names = [None, *self.states]
        schema = pa.schema(
            [
                target.schema.field(n)
                for n in ("_outcome", "_source_partition", "_arrival", "_epoch", "_progress")
            ]
        )
        table = pa.table(
            [
                pa.array([PROGRESS] * len(names)),
                pa.array(names, pa.string()),
                pa.array([at] * len(names), pa.timestamp("us", tz="UTC")),
                pa.array([self.epoch] * len(names)),
                pa.array(entries, schema.field("_progress").type),
            ],
            schema=schema,
        )
        name = progress_name(self.epoch)
        pq.write_table(table, f"{target.data_path}/{name}", filesystem=target.filesystem, compression="zstd")
        return progress_file(target, name, self.epoch, len(names))

    def _of_source(self, label: str | None, note: str | None, files: list[ConsumedFile]) -> dict[str, Any]:
        """The progress row of the source as a whole."""
        newest = (s.max_event_time for s in self.states.values() if s.max_event_time is not None)
        return {
            "watermark": self.published,
            "published": self.published,
            "state": label or ("active" if self.published is not None else "warming"),
            "next_offset": None,
            **self.totals(),
            "max_event_time": max(newest, default=None),
            "note": note,
            "files": [vars(f) for f in files],
        }

    def _shown(
        self,
        label: str | None,
        strategy: Strategy | None,
        clock: int | None,
        micros: int,
        stall_timeout: float | None,
    ) -> dict[str, str]:
        """What is shown as the state of each partition; one that is gone stays that, whatever `label` says."""
        shown = {}
        for name, state in self.states.items():
            seen = self.sightings.get(name)
            shown[name] = partition_state(state, strategy, seen, clock, micros, stall_timeout)
            if label is not None and not (seen and seen.absent):
                shown[name] = label
        return shown

    def _of_partitions(
        self, shown: Mapping[str, str], decisions: Decisions | None
    ) -> Iterator[dict[str, Any]]:
        """The progress row of each partition."""
        for name, state in self.states.items():
            entry: dict[str, Any] = state.to_dict() | {"published": self.published, "state": shown[name]}
            seen = self.sightings.get(name)
            if seen is not None:
                entry |= {f.name: getattr(seen, f.name) for f in fields(Sighting) if f.name != "absent"}
            yield entry | {"note": decisions.note(name) if decisions is not None else None}


def _at_most(mark: int | None, limit: int) -> int | None:
    return None if mark is None else min(mark, limit)


def _rows(state: GateState | None) -> int:
    """How many rows a partition has had."""
    return state.on_time + state.late + state.rejected if state is not None else 0
