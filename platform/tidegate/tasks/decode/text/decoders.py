"""JSON and CSV: one strict decoder for messages and for lines of files (X5). Executor side.

Each text is exactly one row, or is rejected with its reason and itself in `_raw` (W5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pj

from tidegate.tasks.decode.columns import required_columns, stored_columns
from tidegate.tasks.decode.folders import Constants, repeated, said
from tidegate.tasks.decode.limits import STANDARD, Limits
from tidegate.tasks.decode.reasons import twice
from tidegate.tasks.decode.text import strict_csv, strict_json
from tidegate.tasks.decode.text.bulk import ParsedPart, offsets_of, one_row, without
from tidegate.tasks.decode.text.strict_json import Member, NotStrict, ObjectShape
from tidegate.tasks.decode.text.struct_names import Names, folded, names_of, renamed
from tidegate.tasks.decode.values import DeclaredColumn

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation

#: Shapes of objects that are kept, and that are tried to be learned from a batch.
_SHAPES, _LESSONS = 8, 4
#: A longer text is read once only, for its row: nothing is learned from it.
_LONGEST_LESSON = 1 << 20
_SPACE = " \t\r\n"
_CLOSE = ord("}")
_NOT_READ = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowCapacityError)


@dataclass
class JsonDecoder:
    """`insensitive`: names are compared without their case; `inside`: the names inside of targets' values then.
    `folders`: what an object without a member has in the place of a target. `framed`: a message may begin with the id
    of a registry's schema."""

    targets: tuple[DeclaredColumn, ...]
    insensitive: bool = False
    limits: Limits = STANDARD
    folders: Constants = field(default_factory=dict)
    inside: Mapping[int, Names] = field(default_factory=dict)
    framed: bool = False
    _places: dict[str, int] = field(default_factory=dict)
    _shapes: list[ObjectShape] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._places = {self._folded(t.name): i for i, t in enumerate(self.targets)}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_shapes": []}

    def too_many(self, text: bytes) -> bool:
        return strict_json.too_many(text, self.limits.values)

    def one(self, text: str) -> tuple[list[Any], list[str | None], str | None]:
        try:
            found = self._renamed(self._by_place(strict_json.members(text, self.limits)))
        except NotStrict as error:
            nothing: list[Any] = [None] * len(self.targets)
            return nothing, nothing, self._reason(error)
        return one_row(
            self.targets,
            lambda i: (
                strict_json.converted(self.targets[i], found[i]) if i in found else said(self.folders, i)
            ),
            lambda i: found[i].raw,
        )

    def plain(self, text: pa.Array, places: np.ndarray) -> tuple[list[ParsedPart], np.ndarray]:
        if any(value is None for value in self.folders.values()):
            return [], places
        if not _closed(text).all():
            text = pc.utf8_rtrim(text, _SPACE)
        rest = np.flatnonzero(_closed(text))
        parts: list[ParsedPart] = []
        shapes, hits = [*self._shapes], []
        for known in shapes:
            rest, count = self._taken(known, text, places, rest, parts)
            hits.append(count)
        # The first may be a bad one, so others are asked, too.
        lessons = np.unique(np.linspace(0, max(len(rest) - 1, 0), _LESSONS, dtype=np.int64))[: len(rest)]
        for candidate in rest[lessons]:
            if len(text[int(candidate)].as_buffer()) > _LONGEST_LESSON:
                continue
            learned = self._learned(text[int(candidate)].as_py()) if candidate in rest else None
            if learned is not None:
                before = len(rest)
                rest, count = self._taken(learned, text, places, rest, parts)
                if count * 64 >= before:
                    shapes.append(learned)
                    hits.append(count)
        order = sorted(range(len(hits)), key=lambda i: -hits[i])[:_SHAPES]
        self._shapes = [shapes[i] for i in order]
        return parts, without(places, parts)

    def _learned(self, text: str) -> ObjectShape | None:
        try:
            found = strict_json.members(text, self.limits)
            by_place = self._by_place(found)
            if self._renamed(by_place) != by_place or self._ambiguous(found):
                return (
                    None  # Spark is not to see this spelling, and no pattern says which of two members counts
                )
        except NotStrict:
            return None
        return strict_json.shape(
            found, lambda name: self._places.get(self._folded(name)), self.targets, self.folders
        )

    def _taken(
        self,
        known: ObjectShape,
        text: pa.Array,
        places: np.ndarray,
        rest: np.ndarray,
        parts: list[ParsedPart],
    ) -> tuple[np.ndarray, int]:
        """Take what has a shape out of the rest."""
        if not len(rest):
            return rest, 0
        asked = text if len(rest) == len(text) else text.take(pa.array(rest))
        try:
            same = np.asarray(pc.match_substring_regex(asked, known.regex))
            count = int(np.count_nonzero(same))
            if not count:
                return rest, 0
            found = asked if count == len(asked) else asked.filter(pa.array(same))
            columns, left = self._parse(known, found)
        except _NOT_READ:
            return rest, 0
        parts.append(ParsedPart(places[rest[same]], columns, left, bool(known.whole)))
        return rest[~same], count

    def _parse(
        self, known: ObjectShape, text: pa.Array
    ) -> tuple[list[pa.Array | None], list[pa.Array | None]]:
        asked = {
            known.names[i]: t.parsed for i, t in enumerate(self.targets) if i in known.names and t.parsed
        }
        data = _lines(text)
        table = None
        if asked:
            table = pj.read_json(
                pa.BufferReader(data),
                # One block: lines are messages, and none is cut.
                read_options=pj.ReadOptions(use_threads=False, block_size=data.size + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=pa.schema(list(asked.items())), unexpected_field_behavior="ignore"
                ),
            )
            if table.num_rows != len(text):
                raise pa.ArrowInvalid("more than one object in a message")
        columns: list[pa.Array | None] = [None] * len(self.targets)
        left: list[pa.Array | None] = [None] * len(self.targets)
        for place, target in enumerate(self.targets):
            name = known.names.get(place)
            if name is None:
                columns[place] = repeated(self.folders, place, len(text))
            if table is None or name not in asked:
                continue
            column = pa.concat_arrays(table.column(name).chunks)
            if target.arrow is not None and pa.types.is_temporal(target.arrow) and target.formatted:
                left[place] = pc.binary_join_element_wise(pa.scalar('"'), column, pa.scalar('"'), "")
            else:
                columns[place] = column
        return columns, left

    def _by_place(self, found: dict[str, Member]) -> dict[int, Member]:
        """The members that fill columns. Raises NotStrict for two that fill the same; of a column that was taken in
        neither counts."""
        by_place: dict[int, Member] = {}
        ambiguous = self._ambiguous(found)
        for name, member in found.items():
            place = self._places.get(self._folded(name))
            if place is not None and place not in ambiguous:
                if place in by_place:
                    raise NotStrict("", name)
                by_place[place] = member
        return by_place

    def _ambiguous(self, found: Iterable[str]) -> set[int]:
        """Columns that were taken in and that several members fill, by the names of all members."""
        if not self.insensitive or not any(target.optional for target in self.targets):
            return set()
        places = Counter(self._places.get(folded(name)) for name in found)
        return {p for p, n in places.items() if p is not None and n > 1 and self.targets[p].optional}

    def _renamed(self, found: dict[int, Member]) -> dict[int, Member]:
        """With the names inside of their values as they are declared. Raises NotStrict."""
        if not self.inside:
            return found
        kept = {}
        for place, member in found.items():
            try:
                inside = self.inside.get(place)
                kept[place] = member if inside is None else member._replace(raw=renamed(member.raw, inside))
            except NotStrict:
                if not self.targets[place].optional:
                    raise
        return kept

    def _reason(self, error: NotStrict) -> str:
        place = self._places.get(self._folded(error.name)) if error.name is not None else None
        return error.reason if place is None else twice(self.targets[place].name)

    def _folded(self, name: str) -> str:
        return folded(name) if self.insensitive else name


def _lines(text: pa.Array) -> pa.Buffer:
    """The texts with a line break behind each, as pyarrow's parsers take them."""
    joined = pc.binary_join_element_wise(text, "", "\n")
    offsets = offsets_of(joined)
    return joined.buffers()[2].slice(offsets[0], offsets[-1] - offsets[0])


def _closed(text: pa.Array) -> np.ndarray:
    """Whether each text ends in a brace."""
    offsets, data = offsets_of(text), np.frombuffer(text.buffers()[2] or b"", np.uint8)
    ends = offsets[1:]
    if not len(data):
        return np.zeros(len(text), dtype=bool)
    closed: np.ndarray = (data[np.maximum(ends, 1) - 1] == _CLOSE) & (ends > offsets[:-1])
    return closed


@dataclass
class CsvDecoder:
    """`fields`: for each field of a record the target that it fills, or None. `null`: the text of NULL. `folders`: what
    the targets have that no field fills."""

    targets: tuple[DeclaredColumn, ...]
    fields: tuple[int | None, ...]
    delimiter: str = ","
    null: str = ""
    limits: Limits = STANDARD
    folders: Constants = field(default_factory=dict)
    framed: bool = False
    _regex: str | None = None

    def __post_init__(self) -> None:
        filled = [None if i is None else self.targets[i] for i in self.fields]
        self._regex = strict_csv.regex(filled, self.delimiter, self.null)
        # Each target's field; -1 for one that has none.
        self._field = [self.fields.index(i) if i in self.fields else -1 for i in range(len(self.targets))]

    def too_many(self, text: bytes) -> bool:
        return False  # no more than it has columns

    def one(self, text: str) -> tuple[list[Any], list[str | None], str | None]:
        try:
            found = strict_csv.fields(text, self.delimiter, self.null, len(self.fields))
        except NotStrict as error:
            nothing: list[Any] = [None] * len(self.targets)
            return nothing, nothing, error.reason

        def convert(place: int) -> Any:
            if self._field[place] < 0:
                return said(self.folders, place)
            value = found[self._field[place]]
            return None if value is None else strict_csv.converted(self.targets[place], value)

        return one_row(self.targets, convert, lambda i: found[self._field[i]] or "")

    def plain(self, text: pa.Array, places: np.ndarray) -> tuple[list[ParsedPart], np.ndarray]:
        unfit = any(value is None for value in self.folders.values())
        if self._regex is None or unfit or not any(t.parsed for t in self.targets):
            return [], places
        text = strict_csv.without_end(text)
        try:
            same = np.asarray(pc.match_substring_regex(text, self._regex))
            if len(self.fields) == 1:
                # An empty text is no record.
                same = same & (np.asarray(pc.binary_length(text)) > 0)
            if not same.any():
                return [], places
            columns, left = self._parse(text if same.all() else text.filter(pa.array(same)))
        except _NOT_READ:
            return [], places
        return [ParsedPart(places[same], columns, left)], places[~same]

    def _parse(self, text: pa.Array) -> tuple[list[pa.Array | None], list[pa.Array | None]]:
        data = _lines(text)
        # What Spark converts is text until then; a nested value is NULL here.
        asked = {
            str(i): t.parsed or pa.string()
            for i, t in enumerate(self.targets)
            if self._field[i] >= 0 and not t.nested
        }
        table = pcsv.read_csv(
            pa.BufferReader(data),
            read_options=pcsv.ReadOptions(
                use_threads=False,
                block_size=data.size + 1,
                column_names=[str(i) if str(i) in asked else f"-{n}" for n, i in enumerate(self.fields)],
            ),
            parse_options=pcsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=False
            ),
            convert_options=pcsv.ConvertOptions(
                column_types=asked,
                include_columns=list(asked) or ["-0"],
                null_values=sorted({"", self.null}),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
        if table.num_rows != len(text):
            raise pa.ArrowInvalid("more than one record in a text")
        columns: list[pa.Array | None] = [None] * len(self.targets)
        left: list[pa.Array | None] = [None] * len(self.targets)
        for place, target in enumerate(self.targets):
            if self._field[place] < 0:
                columns[place] = repeated(self.folders, place, len(text))
            if str(place) not in asked:
                continue
            column = pa.concat_arrays(table.column(str(place)).chunks)
            if target.arrow is None or (target.formatted and pa.types.is_temporal(target.arrow)):
                left[place] = column
            else:
                columns[place] = column
        return columns, left


def text_decoder(relation: Relation, limits: Limits = STANDARD) -> JsonDecoder | CsvDecoder:
    """The decoder of a relation with JSON or CSV, whose fields are its columns in their order. Driver side."""
    from tidegate.sql.dialect.types import display, parse_ddl

    assert relation.format is not None
    options = relation.format.options
    formatted = "timestamp_format" in options
    required = required_columns(relation)
    targets = tuple(
        DeclaredColumn(c.name, c.type, display(c.type), formatted, c.name in required, c.taken_in)
        for c in stored_columns(relation)
    )
    if relation.format.encode == "json":
        framed = "schema.registry" in options
        if options.get("case") != "insensitive":
            return JsonDecoder(targets, limits=limits, framed=framed)
        found = [names_of(parse_ddl(target.type)) for target in targets]
        inside = {place: names for place, names in enumerate(found) if names is not None}
        return JsonDecoder(targets, True, limits, inside=inside, framed=framed)
    delimiter, null = options.get("delimiter", ","), options.get("null_value", "")
    return CsvDecoder(targets, tuple(range(len(targets))), delimiter, null, limits)
