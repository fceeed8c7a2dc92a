"""`connector = 'kafka'`: the messages of one topic; a Kafka partition is a source partition, its offsets are ours.

The log says what has been read (its progress holds every partition's next offset), so nothing is committed to Kafka's
consumer groups, and a batch is a range of offsets that reads the same whenever it is read (R2). A batch's plan also
decides what depends on the broker or the clock: which partitions are new, empty, idle or gone (W4, W6, W7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.iceberg.partitions import Decisions, Sighting
from tidegate.iceberg.progress import ConsumedFile
from tidegate.ingest.connector import BatchPlan, BatchRows, Connector, Pending
from tidegate.ingest.shape import add_generated
from tidegate.ingest.sources.decode import decode, decoding_work
from tidegate.ingest.sources.kafka_messages import Messages
from tidegate.ingest.sources.message_fields import MessageFields
from tidegate.project.kafka import topic as topic_name
from tidegate.tasks.crashes.crashes import MessageCrashes, brought_back, found_in, put_aside
from tidegate.tasks.decode.limits import limits_of
from tidegate.tasks.decode.text.arrow_json import DecodingBackOff, json_reader, supports
from tidegate.tasks.smaller import LEAST_ROWS, Size
from tidegate.tasks.transfer import map_in_arrow
from tidegate.watermark import TimeKind, micros_of
from tidegate.watermark.timekind import DAY_MICROS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.ingest.ingest import StoredLog
    from tidegate.plan.columns.undeclared import FoundColumn
    from tidegate.project import Project
    from tidegate.runtime.topics import Topics
    from tidegate.sql.catalog.objects import Relation
    from tidegate.sql.options.kafka_options import KafkaOptions


class KafkaConnector(Connector):
    """Plans by offsets: each batch takes up to `max_rows_per_batch` of what waits, from all partitions alike."""

    def __init__(
        self,
        spark: SparkSession,
        project: Project,
        relation: Relation,
        options: KafkaOptions,
        log: StoredLog,
        topics: Topics,
        max_rows: int | None = None,
    ) -> None:
        self._spark, self._project, self._relation, self._options = spark, project, relation, options
        self._log = log
        self.size = Size(max_rows or options.max_rows_per_batch, LEAST_ROWS)
        self._topic = topic_name(options)
        self._broker = topics.source(relation, options)
        self._turns = DecodingBackOff()
        self._messages = Messages(spark, relation, self._broker)
        self._fields = MessageFields(relation, project)
        self._topic_id: str | None = None
        self._ends: dict[str, int] = {}
        self._earliest: dict[str, int] = {}
        self._next: dict[str, int] = {}

    def close(self) -> None:
        """Let go of the broker."""
        self._broker.close()

    def pending(self) -> Pending:
        """Ask the broker how far every partition goes. Raises TG550 to TG553.

        While nothing waits and nothing comes, that is all it is asked for: which messages are still kept, and whether
        it is still the same topic, matters to those who are about to read."""
        progress, before = self._log.progress, self._ends
        if before and self._is_read() and self._broker.still(before):
            return Pending(rows=0)
        self._ends = self._broker.latest()
        if self._ends == before and self._is_read():
            return Pending(rows=0)
        self._earliest = self._broker.earliest()
        self._check_topic(progress.topic_id)
        self._next = {
            name: progress.states[name].next_offset for name in self._ends if name in progress.sightings
        }
        self._next |= self._starts()
        waiting = sum(self._ends[name] - offset for name, offset in self._next.items())
        return Pending(rows=max(waiting, 0))

    def _is_read(self) -> bool:
        """Whether every message up to the ends that are known."""
        progress = self._log.progress
        return all(
            name in progress.sightings and progress.states[name].next_offset == end
            for name, end in self._ends.items()
        )

    def waits(self) -> bool:
        return any(self._ends[name] > offset for name, offset in self._next.items())

    def plan(self, epoch: int, arrival: datetime) -> BatchPlan | None:
        at = micros_of(arrival)
        known = self._log.progress.sightings
        start = {name: offset for name, offset in self._next.items() if name not in known}
        lost = self._losses()
        ranges = self._share()
        idle = self._idle(ranges, at)
        decisions = Decisions(
            start=start,
            until={name: until for name, (_, until) in ranges.items()},
            ends={
                name: end
                for name, end in self._ends.items()
                if name not in known or known[name].end_offset != end
            },
            idle=tuple(sorted(idle, key=_by_number)),
            empty=tuple(name for name, end in self._ends.items() if end == 0),
            gone=tuple(name for name in known if name not in self._ends),
            lost=lost,
            advance=self._advance(idle, ranges, at),
            topic_id=self._topic_id,
        )
        if not self._worth(decisions, known):
            return None
        if decisions.advance is not None and self._broker.latest() != self._ends:
            # The look may be a while ago, and what has come since is not to find a higher G: the next look shows it.
            return None
        units = [{"p": name, "from": a, "until": b} for name, (a, b) in ranges.items()]
        self._next |= decisions.until
        return BatchPlan(epoch, arrival.isoformat(), units, decisions.to_json())

    def adopt(self, plan: BatchPlan) -> bool:
        if any(unit["from"] < self._earliest.get(unit["p"], 0) for unit in plan.units):
            return False
        decisions = Decisions.from_json(plan.decisions)
        if decisions is not None:
            # What it does not know has come later: it is read from its very first message.
            later = self._next.keys() - self._log.progress.sightings.keys()
            after = {name: first for name, (_, first) in decisions.lost.items()}
            self._next |= dict.fromkeys(later, 0) | decisions.start | after | decisions.until
        return True

    def read(self, plan: BatchPlan) -> BatchRows:
        if not plan.units:
            return BatchRows(None, ("_offset",), numbering=False, aligned=True)
        if not plan.crashed and supports(self._relation) and self._turns.ours():
            reader = json_reader(self._relation, limits_of(self._project), self._fields.looks)
            refused, direct = partial(self._refused, plan), self._messages.direct(plan, reader)
            return BatchRows(
                refused,
                ("_offset",),
                numbering=False,
                aligned=True,
                direct=direct,
                undeclared=self._fields.reported(),
                looks=partial(self._seen, plan),
            )
        frame = self._decoded(self._messages.gathered(plan), plan)
        return BatchRows(
            lambda: frame,
            ("_offset",),
            numbering=False,
            aligned=True,
            undeclared=self._fields.reported(),
            looks=partial(self._seen, plan),
        )

    def _seen(self, plan: BatchPlan, reports: Sequence[Mapping[str, Any]]) -> Mapping[str, FoundColumn]:
        return self._fields.seen(self._log.progress.undeclared, f"batch {plan.epoch}", reports)

    def undeclared(self, plan: BatchPlan) -> Mapping[str, FoundColumn]:
        return self._fields.planned(self._log.progress.undeclared) if plan.units else {}

    def becomes(self, relation: Relation) -> None:
        self._relation = relation
        self._fields.becomes(relation)
        self._messages = Messages(self._spark, relation, self._broker)

    def _refused(self, plan: BatchPlan) -> DataFrame:
        self._turns.refused()
        return self._decoded(self._messages.gathered(plan), plan)

    def _decoded(self, messages: DataFrame, plan: BatchPlan) -> DataFrame:
        """By Spark: of any encoding, whatever the messages hold."""
        from pyspark.sql import functions as F

        partition = F.col("_partition").cast("string").alias("_source_partition")
        if plan.crashed:
            messages = put_aside(messages, plan.crashed)
        frame = messages.select("*", partition).drop("_partition")
        decoded = decode(frame, self._relation, self._project, looks=self._fields.looks)
        return add_generated(brought_back(decoded) if plan.crashed else decoded, self._relation)

    def crashed(self, plan: BatchPlan) -> list[list[Any]]:
        messages = put_aside(self._messages.frame(plan), plan.crashed).select(
            "value", "_partition", "_offset"
        )
        task = MessageCrashes(decoding_work(self._relation, self._project))
        found = found_in(map_in_arrow(messages, task, "_partition int, _offset bigint"))
        return [[str(partition), offset] for partition, offset in found]

    def smaller(self, plan: BatchPlan) -> BatchPlan | None:
        if all(unit["until"] - unit["from"] <= 1 for unit in plan.units):
            return None
        units = [u | {"until": u["from"] + (u["until"] - u["from"] + 1) // 2} for u in plan.units]
        until = {unit["p"]: unit["until"] for unit in units}
        self._next |= until
        self.size.shrink(sum(unit["until"] - unit["from"] for unit in units))
        assert plan.decisions is not None
        return replace(plan, units=units, decisions=plan.decisions | {"until": until})

    def consumed(self, plan: BatchPlan) -> list[ConsumedFile]:
        return []

    def recount(self) -> int | None:
        """The messages of what was read, counted at the broker; None if part of them is not kept any more."""
        progress, earliest = self._log.progress, self._broker.earliest()
        ranges = {}
        for name, seen in progress.sightings.items():
            until = progress.states[name].next_offset
            if until > seen.first_offset:
                if name not in earliest or earliest[name] > seen.first_offset:
                    return None
                ranges[name] = (seen.first_offset, until)
        return self._broker.messages(ranges).count() if ranges else 0

    # -- what a plan decides -----------------------------------------------------------------------------------

    def _starts(self) -> dict[str, int]:
        """Where reading begins, of partitions that no commit knows: as `scan.startup.mode` says for a new log, from
        their very first message for those that come later: before they were seen, rows may have arrived, and what
        retention has removed of these is lost (TG552)."""
        progress = self._log.progress
        new = [name for name in self._ends if name not in progress.sightings]
        if not new:
            return {}
        if progress.sightings:
            return dict.fromkeys(new, 0)
        mode = self._options.startup_mode
        if mode == "earliest":
            found = self._earliest
        elif mode == "latest":
            found = self._ends
        else:
            assert self._options.startup_timestamp is not None
            found = self._broker.at(self._options.startup_timestamp)
        return {name: found.get(name, self._ends[name]) for name in new}

    def _losses(self) -> dict[str, tuple[int, int]]:
        """Offsets that were gone before they were read. Raises TG552 unless they are to be recorded."""
        lost = {
            name: (offset, self._earliest[name])
            for name, offset in self._next.items()
            if offset < self._earliest.get(name, 0)
        }
        if lost and self._options.on_data_loss == "fail":
            name, (first, after) = next(iter(lost.items()))
            others = f", and of {len(lost) - 1} more partitions" if len(lost) > 1 else ""
            raise TidegateError(
                "TG552",
                f'source "{self._relation.name}": offsets {first} to {after - 1} of partition '
                f"{name}{others} are gone: the topic {self._topic} removed them before they were read",
                hint="restore them; or set on_data_loss = 'record' to continue after the gap, which the log "
                f"will show; or DROP SOURCE {self._relation.name} and begin again with the messages "
                "that are kept",
                location=self._relation.location,
            )
        self._next |= {name: after for name, (_, after) in lost.items()}
        return lost

    def _check_topic(self, before: str | None) -> None:
        """A topic that was deleted and made anew has other rows at the same offsets (TG553)."""
        self._topic_id = self._broker.topic_id()
        anew = None not in (before, self._topic_id) and before != self._topic_id
        progress = self._log.progress
        shorter = [
            name
            for name, seen in progress.sightings.items()
            if name in self._ends and self._ends[name] < progress.states[name].next_offset
        ]
        if anew or shorter:
            why = (
                "was deleted and created again, or the servers are of another cluster"
                if anew
                else f"ends before the offset up to which partition {shorter[0]} was read"
            )
            raise TidegateError(
                "TG553",
                (
                    f'source "{self._relation.name}": the topic {self._topic} {why}: its offsets are '
                    "those of other messages now"
                ),
                hint=f"give the source another name, or DROP SOURCE {self._relation.name} to begin again; "
                "until then, the rows in its log can be read",
                location=self._relation.location,
            )

    def _share(self) -> dict[str, tuple[int, int]]:
        """The offsets [from, until) of the next batch: of every partition its share of what waits."""
        waiting = {n: self._ends[n] - o for n, o in self._next.items() if self._ends[n] > o}
        if not waiting:
            return {}
        total, size = sum(waiting.values()), self.size.next()
        self.size.planned(min(total, size))
        if total <= size:
            return {n: (self._next[n], self._ends[n]) for n in waiting}
        return {
            n: (self._next[n], self._next[n] + max(1, rows * size // total)) for n, rows in waiting.items()
        }

    def _idle(self, ranges: Mapping[str, tuple[int, int]], at: int) -> set[str]:
        """W7: whose position equals the end offset, and to whom nothing has come for `idle_timeout`."""
        timeout = self._options.idle_timeout
        progress = self._log.progress
        if timeout is None:
            return set()
        quiet = {
            name: seen
            for name, seen in progress.sightings.items()
            if name in self._ends
            and self._ends[name] > 0
            and name not in ranges
            and self._ends[name] == progress.states[name].next_offset == self._next[name]
        }
        idle = {name for name, seen in quiet.items() if seen.absent == "idle"}
        newly = {
            name
            for name, seen in quiet.items()
            if name not in idle and seen.quiet_since is not None and at - seen.quiet_since >= timeout * 1e6
        }
        if newly:
            # The look may be a while ago: nobody is idle to whom something has come since.
            ends = self._broker.latest()
            newly = {name for name in newly if ends.get(name) == self._ends[name]}
        return idle | newly

    def _advance(self, idle: set[str], ranges: Mapping[str, tuple[int, int]], at: int) -> int | None:
        """`idle_advance` (W7): where all are idle, G follows the clock as far behind as the newest row left it."""
        progress, watermark = self._log.progress, self._relation.watermark
        if not self._options.idle_advance or watermark is None or progress.published is None or ranges:
            return None
        present = {n for n, end in self._ends.items() if end > 0}
        if not idle or present - idle or watermark.kind is TimeKind.EPOCH:
            return None
        marks = [m for n in idle if (m := progress.states[n].watermark) is not None]
        if not marks:
            return None
        passed = at - max(progress.sightings[n].quiet_since or at for n in idle)
        if watermark.kind is TimeKind.DATE:
            passed //= DAY_MICROS
        return max(marks) + passed

    def _worth(self, decisions: Decisions, known: Mapping[str, Sighting]) -> bool:
        """Whether a plan changes anything: rows, new partitions, another state; G moved by the clock, but not in steps
        that nobody sees."""
        progress = self._log.progress
        if decisions.until or decisions.start or decisions.lost:
            return True
        absent = decisions.absent
        if any(seen.absent != absent.get(name) for name, seen in known.items()):
            return True
        if decisions.advance is None or progress.published is None:
            return False
        step = max(1.0, (self._options.idle_timeout or 0) / 10) * 1_000_000
        kind = self._relation.watermark.kind if self._relation.watermark else TimeKind.EPOCH
        least = 1 if kind is TimeKind.DATE else step
        return decisions.advance - progress.published >= least

    # -- reading -----------------------------------------------------------------------------------------------


def _by_number(name: str) -> int:
    return int(name)
