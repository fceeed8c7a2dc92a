"""Frames whose rows, or whose columns at least, are known in this process: what is asked of them needs no server."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.inprocess.answers.plans import answer
from tests.inprocess.answers.rest import rest_of
from tests.inprocess.answers.terms import Declined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS, _LIKE, _RENAMED = "_tidegate_rows", "_tidegate_like", "_tidegate_renamed"


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows as a frame; a time without a zone stays one."""
    from pyspark.sql.connect.dataframe import DataFrame as Frame

    schema, arrow = _types(rows.schema.remove_metadata())
    kept = rows.cast(arrow)
    # Told of Spark's types, the server makes a cast of each column, which costs more than most plans do without. Where
    # no row is, functions that ask for a constant would be asked, and find none.
    needed = not kept.num_rows or any(map(pa.types.is_time, arrow.types))
    said = schema.json() if needed else None
    return held(Frame(_relation()(kept, said), spark), kept)  # type: ignore[arg-type,return-value]


def held(frame: Any, rows: pa.Table) -> Any:
    """A frame of which it is known that it has these rows, in the types that `toArrow` gives."""
    schema, _ = _types(rows.schema)
    frame._cached_schema = schema
    vars(frame)[_ROWS] = rows
    return frame


def rows_of(frame: Any) -> pa.Table | None:
    """What a frame has, where that is known."""
    return vars(frame).get(_ROWS)


@lru_cache(2048)
def _types(schema: pa.Schema) -> tuple[Any, pa.Schema]:
    """Spark's types of what is in Arrow, and what `toArrow` gives of those."""
    from pyspark.sql.pandas.types import from_arrow_schema

    found = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return found, _arrow_of(found)


def _arrow_of(schema: Any) -> pa.Schema:
    """What `toArrow` gives of Spark's types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, error_on_duplicated_field_names_in_struct=True)  # type: ignore[no-any-return]


class _Asked(threading.local):
    """Whether this thread asks for the columns of plans, and not for their rows."""

    for_columns = False


_asked = _Asked()


@lru_cache(1)
def _relation() -> Any:
    """The class of plans that are rows of this process."""
    from pyspark.sql.connect.plan import LocalRelation

    class HeldRows(LocalRelation):
        """Rows that travel to the server where they are asked for."""

        def _serialize_table(self) -> bytes:
            return _no_rows(self._table.schema) if _asked.for_columns else super()._serialize_table()

    return HeldRows


@lru_cache(2048)
def _no_rows(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], schema))
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def when_computed(spark: SparkSession, fetch: Callable[[], pa.Table], like: Any = None) -> DataFrame:
    """A frame whose rows are fetched when it is used for the first time. `like`: one with the same columns, which is
    asked for those; None: they are those of the rows."""
    from pyspark.sql.connect.dataframe import DataFrame as Frame
    from pyspark.sql.connect.plan import LogicalPlan

    class Fetched(LogicalPlan):
        found: Any = None

        def __init__(self) -> None:
            super().__init__(None)
            self.like = like

        def rows(self) -> Any:
            if self.found is None:
                self.found = frame_of(spark, fetch())
            return self.found

        def plan(self, session: Any) -> Any:
            if _asked.for_columns and like is not None:
                return like._plan.plan(session)
            return self.rows()._plan.plan(session)

    return Frame(Fetched(), spark)  # type: ignore[arg-type,return-value]  # of Spark Connect


#: Functions of which the type of the result follows from the types of what they are given, not from its values.
_BY_TYPE = {"map", "replace", "regexp_replace", "url_decode", "==", "<", "<=", ">", ">="}
#: What is another one each time in a query: names of views that are registered for it, and times.
_REGISTERED = re.compile("_tidegate_[0-9a-f]{12}_")
_TIME = re.compile("TIMESTAMP_NTZ '[^']*'")
#: Methods whose result has the columns of the frame.
_SAME_COLUMNS = (
    "where",
    "filter",
    "sort",
    "orderBy",
    "sortWithinPartitions",
    "distinct",
)
#: Methods that change nothing here, where everything is one partition.
_NOTHING = ("repartition", "coalesce")
#: The columns of plans that the server has told before, by settings and plan.
_columns: dict[tuple[str, bytes], Any] = {}


def _schema(frame: Any) -> Any:
    """As PySpark's `_schema`. What columns a plan has depends on no row, and on no session but its settings."""
    while frame._cached_schema is None and _LIKE in vars(frame):
        frame = vars(frame)[_LIKE]
    if frame._cached_schema is None and frame._session.conf.answers:
        with suppress(Declined):
            frame._cached_schema, _ = _types(answer(frame._plan, True).table().schema)
    if frame._cached_schema is None:
        client = frame._session.client
        _asked.for_columns = True
        try:
            query = frame._plan.to_proto(client)
        finally:
            _asked.for_columns = False
        _generalize(query, {}, False)
        key = client._session_id, query.SerializeToString(deterministic=True)
        if key not in _columns:
            _columns[key] = client.schema(query)
        frame._cached_schema = _columns[key]
    return frame._cached_schema


def _generalize(message: Any, numbers: dict[int | str, int], of_alias: bool) -> None:
    """Make plans equal that have the same columns: their parts, the variables of their functions, and the views that
    were registered for one query are numbered from 1 (each has a number of its own in this process), and a value that
    is a column by itself, as a clock is, counts by its type only. So does a time in a text, and what a function of
    `_BY_TYPE` is given. Any other value inside of an expression stays: it may say of which type that is."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry:
                continue
            kind = field.message_type.name
            for one in value if field.is_repeated else (value,):
                if kind == "Literal" and of_alias:
                    _without_value(one)
                else:
                    by_type = kind == "UnresolvedFunction" and one.function_name in _BY_TYPE
                    _generalize(
                        one, numbers, kind == "Alias" or by_type or (of_alias and kind == "Expression")
                    )
        elif field.name in ("query", "expression", "alias") and isinstance(value, str):
            named = _REGISTERED.sub(lambda name: f"v{numbers.setdefault(name[0], len(numbers) + 1)}_", value)
            setattr(message, field.name, _TIME.sub("TIMESTAMP_NTZ '2026-01-01 00:00:00'", named))
        elif field.name == "plan_id":
            message.plan_id = numbers.setdefault(value, len(numbers) + 1)
        elif field.name == "name_parts":
            value[:] = [f"v{numbers.setdefault(name, len(numbers) + 1)}" for name in value]
        elif field.name == "plan_ids":
            value[:] = [numbers.setdefault(number, len(numbers) + 1) for number in value]


def _without_value(literal: Any) -> None:
    kind = literal.WhichOneof("literal_type")
    if kind == "string":
        literal.string = ""
    elif kind in ("timestamp", "timestamp_ntz"):
        setattr(literal, kind, 0)


def _computed(frame: Any) -> pa.Table | None:
    """The rows of a frame, where they are known, or all that is asked is answered in this process."""
    rows = rows_of(frame)
    if rows is None and frame._session.conf.answers:
        try:
            found = answer(frame._plan).table()
        except Declined:
            return None
        schema, arrow = _types(found.schema)
        rows = vars(frame)[_ROWS] = found.cast(arrow)
        if frame._cached_schema is None:
            frame._cached_schema = schema
    return rows


def _rest(frame: Any) -> Any:
    """What the server is asked of a frame."""
    spark = frame._session
    if not spark.conf.answers:
        return frame
    return type(frame)(rest_of(frame._plan, lambda rows: frame_of(spark, rows)._plan), spark)


def _to_table(real: Any) -> Any:
    def to_table(frame: Any) -> Any:
        rows = _computed(frame)
        return _answered(real, _rest(frame)) if rows is None else (rows, frame._cached_schema)

    return to_table


def _answered(real: Any, frame: Any) -> Any:
    """What the server answers. Of some 100,000 answers gRPC can't read one, whichever it is ("Error parsing message"),
    and pyspark then asserts that there is one. A query changes nothing, so it is asked once more."""
    try:
        return real(frame)
    except AssertionError as error:
        if error.args:
            raise
        return real(frame)


def _to_arrow(real: Any) -> Any:
    def to_arrow(frame: Any) -> Any:
        rows = _computed(frame)
        if rows is None and _RENAMED in vars(frame):
            renamed, names = vars(frame)[_RENAMED]
            return renamed.toArrow().rename_columns(names)
        if rows is None and frame._cached_schema is None and _LIKE not in vars(frame):
            # The answer says which columns it has.
            found, frame._cached_schema = frame._to_table()
            return (
                real(frame) if frame._cached_schema is None else found.cast(_arrow_of(frame._cached_schema))
            )
        return real(frame) if rows is None else rows

    return to_arrow


def _to_df(real: Any) -> Any:
    def to_df(frame: Any, *names: str) -> Any:
        rows, named = rows_of(frame), real(frame, *names)
        if rows is not None:
            return held(named, rows.rename_columns(list(names)))
        vars(named)[_RENAMED] = frame, list(names)
        if frame._cached_schema is not None and len(names) == len(frame._cached_schema):
            named._cached_schema = _renamed(frame._cached_schema, names)
        return named

    return to_df


def _renamed(schema: Any, names: tuple[str, ...]) -> Any:
    from pyspark.sql.types import StructField, StructType

    fields = zip(names, schema, strict=True)
    return StructType([StructField(name, one.dataType, one.nullable, one.metadata) for name, one in fields])


def _limit(real: Any) -> Any:
    def limit(frame: Any, number: int) -> Any:
        rows, fewer = rows_of(frame), real(frame, number)
        return fewer if rows is None else held(fewer, rows.slice(0, number))

    return limit


def _same_columns(real: Any) -> Any:
    def changed(frame: Any, *given: Any, **named: Any) -> Any:
        found = real(frame, *given, **named)
        vars(found)[_LIKE] = frame
        return found

    return changed


def _count(real: Any) -> Any:
    def count(frame: Any) -> int:
        rows = rows_of(frame)
        return real(frame) if rows is None else rows.num_rows  # type: ignore[no-any-return]

    return count


def _one_by_one(real: Any) -> Any:
    def to_local_iterator(frame: Any, *given: Any, **named: Any) -> Any:
        return real(frame, *given, **named) if _computed(frame) is None else iter(frame.collect())

    return to_local_iterator


def _is_empty(real: Any) -> Any:
    def is_empty(frame: Any) -> bool:
        rows = _computed(frame)
        return real(frame) if rows is None else rows.num_rows == 0  # type: ignore[no-any-return]

    return is_empty


def answer_locally(frame: Any) -> None:
    """Give the class of Spark Connect's frames these answers."""
    frame._schema = property(_schema)
    # PySpark gives a copy, since anybody may change it.
    frame.schema = frame._schema
    wrapped = {"_to_table": _to_table, "toArrow": _to_arrow, "toDF": _to_df, "limit": _limit, "count": _count}
    wrapped |= {"toLocalIterator": _one_by_one, "isEmpty": _is_empty}
    for name, wrap in wrapped.items():
        setattr(frame, name, wrap(getattr(frame, name)))
    for name in _SAME_COLUMNS:
        setattr(frame, name, _same_columns(getattr(frame, name)))
    for name in _NOTHING:
        setattr(frame, name, lambda frame, *_: frame)
