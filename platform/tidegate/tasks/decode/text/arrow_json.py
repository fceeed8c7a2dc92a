"""JSON messages decoded inside the gate's task: a row never becomes one of the JVM's.

What a message says is what the one strict decoder says (`decoders.py`), here as in every other way of reading it: a
message that is refused is looked at alone, by the same decoder, and rejected here. Only a value that Spark has to
convert (a time in a spelling of which only Spark knows the meaning), or a message too long to be sent along, raises
NeedsSpark. The whole micro-batch then goes through Spark and the same decoder, and not that message alone: the gate
judges the rows of a partition in order, in one task, and a row that came back later would meet another watermark. So
no row is ever decided by the way that it went (W4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.tasks.decode.columns import computed
from tidegate.tasks.decode.limits import STANDARD, Limits
from tidegate.tasks.decode.reasons import reasons
from tidegate.tasks.decode.text.bulk import decode_messages, pieces
from tidegate.tasks.decode.text.decoders import JsonDecoder, text_decoder
from tidegate.tasks.decode.text.json_members import JsonNames, MembersLook
from tidegate.tasks.reading import LOOKED, NeedsSpark

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation

#: Micro-batches that are left to Spark after one that was refused, at most.
_LONGEST_PAUSE = 64

#: Messages that are as long stay in the JVM until they are decoded.
LONG = 50_000


def supports(relation: Relation) -> bool:
    """Whether JsonReader reads this relation's messages: JSON into plain columns, none of them and no strategy computed
    by Spark."""
    return why_not_decoded(relation) is None


def why_not_decoded(relation: Relation) -> str | None:
    """Why JsonReader does not read this relation's messages; None if it does."""
    form = relation.format
    if form is None or form.encode != "json":
        return "they are not JSON"
    if "timestamp_format" in form.options:
        return "they have a timestamp_format"
    if computed(relation):
        return "Spark computes a generated column, or the expression of the watermark"
    spark = (target for target in text_decoder(relation).targets if target.arrow is None)
    return next((f"{target.name} is {target.wants}, which Spark converts" for target in spark), None)


def json_reader(relation: Relation, limits: Limits = STANDARD, looks: bool = False) -> JsonReader:
    """The reader of a relation that `supports` allows. `looks`: at what no column is for (`JsonReader.known`)."""
    decoder = text_decoder(relation, limits)
    assert isinstance(decoder, JsonDecoder)
    return JsonReader(
        decoder=decoder,
        time_column=relation.watermark.column if relation.watermark is not None else None,
        not_null=tuple(c.name for c in relation.columns if not c.nullable),
        changes=bool(relation.primary_key),
        kept=tuple(name for name, _ in relation.message_columns),
        known=JsonNames.of(relation) if looks else None,
    )


class DecodingBackOff:
    """Whether the next micro-batch of a source is tried here. After one that was refused some are left to Spark: twice
    as many after each refusal, half as many after each that was read, so that a poisoned source costs hardly more than
    without this reader. Which of the two reads a batch decides nothing but its cost."""

    def __init__(self) -> None:
        self._pause = self._left = 0
        self._trying = False

    def ours(self) -> bool:
        """Ask once for each batch; one that was not refused until the next was read."""
        if self._left:
            self._left -= 1
            return False
        if self._trying:
            self._pause //= 2
        self._trying = True
        return True

    def refused(self) -> None:
        """What was tried came to nothing."""
        self._trying = False
        self._pause = self._left = min(2 * self._pause or 1, _LONGEST_PAUSE)


@dataclass(frozen=True)
class JsonReader:
    """From batches with `value` (binary), `_partition` (a number), `_offset`, what the log keeps of messages, and
    `_long` (for a message that was left behind) to batches as `gate_input` shapes them. Raises NeedsSpark.

    `changes`: they are changes by key, all upserts. `kept`: names of what the log
    keeps of messages. `known`: the names of the columns, if it says in a column
    `LOOKED` what some messages have beside them.
    """

    decoder: JsonDecoder
    time_column: str | None
    not_null: tuple[str, ...]
    changes: bool
    kept: tuple[str, ...]
    known: JsonNames | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        look = MembersLook(self.known) if self.known is not None else None
        for batch in batches:
            if pc.any(batch.column("_long")).as_py():
                raise NeedsSpark("a message that Spark must read")
            for piece in pieces(batch, "value"):
                yield self._shape(piece, look)

    def _shape(self, batch: pa.RecordBatch, look: MembersLook | None) -> pa.RecordBatch:
        n = batch.num_rows
        value, found = decode_messages(self.decoder, batch.column("value"))
        if any(left.null_count < n for left in found.left):
            raise NeedsSpark("a value that Spark must convert")
        columns: dict[str, pa.Array] = {}
        for target, column in zip(self.decoder.targets, found.columns, strict=True):
            assert column is not None
            columns[target.name] = column
        reason, raw = reasons(n, columns, self.time_column, self.not_null), found.raw
        if reason.null_count < n:
            # What was not decoded has its text already, and may be none.
            incomplete = pc.and_(reason.is_valid(), found.why.is_null())
            raw = pc.coalesce(
                raw, pc.if_else(incomplete, value, pa.scalar(None, value.type)).cast(pa.string())
            )
        if found.why.null_count < n:
            reason = pc.coalesce(found.why, reason)
        if self.changes:
            columns["_op"] = pa.repeat("upsert", n)
        numbers = batch.column("_partition").dictionary_encode()
        names = numbers.dictionary.cast(pa.string())
        columns["_source_partition"] = pa.DictionaryArray.from_arrays(numbers.indices, names)
        columns["_offset"] = batch.column("_offset")
        columns["_raw"] = raw
        for name in self.kept:
            columns[name] = batch.column(name)
        columns["_reason"] = reason
        if look is not None:
            columns[LOOKED] = look.column(value)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
