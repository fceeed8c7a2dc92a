"""What a statement gives back, and what a run reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row
    from pyspark.sql.types import DataType


@dataclass
class Result:
    """Result of one statement: a DataFrame (SELECT), a few rows (SHOW, DESCRIBE, EXPLAIN), or a message."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    """(name, Spark type) of the rows."""
    message: str | None = None
    dataframe: DataFrame | None = None
    fixed: Sequence[tuple[Any, ...]] | None = None
    notice: str | None = None
    """A warning beside the answer: what was asked for changes nothing."""
    count: int | None = None
    """Rows that an INSERT, UPDATE or DELETE gave to the gate."""

    @property
    def has_rows(self) -> bool:
        """Whether this statement answers with rows (maybe none), not only with a message."""
        return self.dataframe is not None or self.fixed is not None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows one by one, fetched as they are asked for."""
        if self.dataframe is not None:
            frame, row = fetchable(self.dataframe)
            # Bounded: one Spark partition at a time.
            yield from map(row, frame.toLocalIterator())
        else:
            yield from self.fixed or []

    def rows(self, limit: int | None = None) -> list[tuple[Any, ...]]:
        """The rows, at most `limit` of them, on the driver."""
        if self.dataframe is not None:
            frame, row = fetchable(self.dataframe if limit is None else self.dataframe.limit(limit))
            # Bounded: by what a person asked for; whoever wants all rows iterates.
            return [row(found) for found in frame.collect()]
        return list((self.fixed or ())[:limit])


def fetchable(frame: DataFrame) -> tuple[DataFrame, Callable[[Row], tuple[Any, ...]]]:
    """A frame whose rows Python can take, and what makes a tuple of the frame's columns of one. Python's calendar has
    the years 1 to 9999: a date or time of another year comes as text, as Spark writes it, and so do all that stand
    beside it in an array, a map or a struct."""
    from pyspark.sql import functions as F

    kinds = [field.dataType for field in frame.schema.fields]
    columns = [F.col(f"c{i}") for i in range(len(kinds))]
    found = [_is_beyond(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    times = {i: beyond for i, beyond in enumerate(found) if beyond is not None}
    if not times:
        return frame, tuple
    texts = []
    for i, beyond in times.items():
        texts.append(F.when(beyond, columns[i].cast(_in_text(kinds[i]))))
        columns[i] = F.when(~beyond, columns[i])

    def row(found: Row) -> tuple[Any, ...]:
        values = [*found]
        for place, i in enumerate(times, len(kinds)):
            values[i] = values[i] if values[place] is None else values[place]
        return tuple(values[: len(kinds)])

    return frame.toDF(*(f"c{i}" for i in range(len(kinds)))).select(*columns, *texts), row


def _is_beyond(value: Column, kind: DataType) -> Column | None:
    """Whether a value is, or holds, a time that Python's calendar does not have: never NULL. None for a type that holds
    no time."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.DateType | T.TimestampType | T.TimestampNTZType):
        return F.coalesce(~F.year(value).between(1, 9999), F.lit(False))
    if isinstance(kind, T.ArrayType):
        return _holds_one(value, kind.elementType)
    if isinstance(kind, T.MapType):
        found = [_holds_one(F.map_keys(value), kind.keyType), _holds_one(F.map_values(value), kind.valueType)]
    elif isinstance(kind, T.StructType):
        # Fields by their places: two of them may have one name, or names that differ by case only.
        places = T.StructType([T.StructField(f"f{i}", f.dataType) for i, f in enumerate(kind.fields)])
        fields = value.cast(places)
        found = [_is_beyond(fields[f"f{i}"], field.dataType) for i, field in enumerate(kind.fields)]
    else:
        return None
    known = [one for one in found if one is not None]
    return reduce(or_, known) if known else None


def _holds_one(values: Column, kind: DataType) -> Column | None:
    """As `_is_beyond`, of the elements of an array."""
    from pyspark.sql import functions as F

    if _is_beyond(F.lit(None), kind) is None:
        return None

    def is_one(value: Column) -> Column:
        found = _is_beyond(value, kind)
        assert found is not None
        return found

    return F.coalesce(F.exists(values, is_one), F.lit(False))


def _in_text(kind: DataType) -> DataType:
    """The type with text in the place of times."""
    from pyspark.sql import types as T

    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_in_text(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_in_text(kind.keyType), _in_text(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _in_text(f.dataType)) for f in kind.fields])
    return T.StringType() if isinstance(kind, T.DateType | T.TimestampType | T.TimestampNTZType) else kind


@dataclass
class SourceReport:
    """What a run did to one source: rows of this run by outcome, and the watermark that it reached."""

    name: str
    epochs: int = 0
    on_time: int = 0
    late: int = 0
    rejected: int = 0
    watermark: str = "none yet"


@dataclass
class ViewReport:
    """What a run did to one view: result rows closed by this run, open rows now, and the frontier reached."""

    name: str
    groups: int = 0
    open: int = 0
    frontier: str = "none yet"


@dataclass
class SinkReport:
    """What a run did to one sink: rows delivered by this run, and amended windows that it delivered again (B2)."""

    name: str
    rows: int = 0
    amended: int = 0


@dataclass
class Failure:
    """A source, table, view or sink (`kind`) that could not be brought up to date. `error`: code, message, hint and
    location, and `others` of a source with several inputs that are not in order; of what is no tidegate error the code
    is None, and there is a traceback."""

    name: str
    kind: str
    error: dict[str, Any]

    def text(self) -> str:
        """A line of a summary, and one for each further line of the message; the hint is not in it."""
        code = f"{self.error['code']}: " if self.error["code"] else ""
        where = self.error.get("location")
        place = f" ({where['file']}:{where['line']}:{where['column']})" if where else ""
        first, *more = self.error["message"].split("\n")
        lines = [f"  failed    {self.name} ({self.kind}): {code}{first}{place}"]
        return "\n".join([*lines, *(f"            {line}" for line in more)])


@dataclass
class Skipped:
    """One that nothing was done about, because of another that failed; `why` in words."""

    name: str
    kind: str
    why: str

    def text(self) -> str:
        """A line of a summary."""
        return f"  skipped  {self.name} ({self.kind}): {self.why}"


@dataclass
class RunReport:
    """Result of `run`: per source, per view and per sink, and how long it took. A source in `failed` stands in
    `sources`, too, with what it committed before."""

    sources: list[SourceReport] = field(default_factory=list)
    views: list[ViewReport] = field(default_factory=list)
    sinks: list[SinkReport] = field(default_factory=list)
    seconds: float = 0.0
    failed: list[Failure] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
