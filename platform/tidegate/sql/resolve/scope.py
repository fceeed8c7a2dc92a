"""Names in expressions over one relation: every column, field and function is found, or an error says
where. The one resolver of definitions: of views, gates inline, generated columns and strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import Location, did_you_mean
from tidegate.sql.dialect.clock_literals import refuse_clock_literals
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.dialect import WINDOW_FUNCTIONS
from tidegate.sql.dialect.frame_syntax import refuse_frames
from tidegate.sql.dialect.functions import kind_of, reach_of, spark_functions
from tidegate.sql.dialect.infer import infer
from tidegate.sql.dialect.intervals import MOST_YEARS, is_too_long
from tidegate.sql.dialect.system_names import NAMES, WATERMARK, absent_hint
from tidegate.sql.dialect.text import Text, node_span, with_places
from tidegate.sql.dialect.types import UNKNOWN, SparkType, from_datatype, parse_ddl
from tidegate.sql.resolve.reach import Spans
from tidegate.watermark import Derived, Identity

#: The micro-batch's clock, under both of its names: for watermark strategies (W11).
CLOCK = ("proc_time", "proctime")
#: Types of event time of which each holds all values of those before it, in the same ticks.
_WIDENING = (("timestamp_ntz", "timestamp"), ("smallint", "int", "bigint"))
_WINDOWING = ("window", "session_window", "window_time")


@dataclass(frozen=True)
class LostWatermark:
    """Why a column carries no watermark any more (D1), and at which expression."""

    reason: str
    location: Location


@dataclass(frozen=True)
class ScopeColumn:
    """`derived`: how its watermark follows from the inputs', `spans`: by input, how far that input's time may be from
    this column's value in rows that contribute to one row (no entry: anywhere). `written`: the name that a query
    uses, where it is not `name`, the unique one inside; `qualifier`: the relation's name or alias that may stand
    before it, None for any in sight. `starred`: part of `*`; `unqualified`: may be named without a qualifier."""

    name: str
    type: SparkType | None
    derived: Derived | None = None
    spans: Spans = field(default_factory=dict)
    lost: LostWatermark | None = None
    written: str | None = None
    qualifier: str | None = None
    starred: bool = True
    unqualified: bool = True

    @property
    def called(self) -> str:
        """The name that a query uses."""
        return self.written or self.name


@dataclass(frozen=True)
class ColumnScope:
    """The columns in sight, and the names of relations that may stand before them (`flights.origin`). `repeatable`:
    part of a definition, which has to give the same whenever it is computed. `clock`: PROC_TIME() may be used.
    `merged`: columns that stand for COALESCE of two others by their names (FULL JOIN)."""

    text: Text
    columns: tuple[ScopeColumn, ...]
    qualifiers: frozenset[str] = frozenset()
    what: str = "here"
    repeatable: bool = True
    clock: bool = False
    merged: Mapping[frozenset[str], ScopeColumn] = field(default_factory=dict)
    _by_name: dict[str, ScopeColumn] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {c.name.casefold(): c for c in self.columns})

    def find(self, name: str) -> ScopeColumn | None:
        """The column of this inside name: of a resolved expression."""
        return self._by_name.get(name.casefold())

    def written(self, name: str, qualifier: str | None = None) -> list[ScopeColumn]:
        """The columns that a query may mean by this name."""
        found = [c for c in self.columns if c.called.casefold() == name.casefold()]
        if qualifier is None:
            return [c for c in found if c.unqualified]
        return [c for c in found if c.qualifier in (None, qualifier.casefold())]

    def at(self, node: exp.Expr) -> Location:
        return self.text.at(node_span(node))

    def resolve(self, node: exp.Expr) -> exp.Expr:
        """A copy of the expression with every column under its own name, without the relation's. Raises TG202
        for a column or field that is not there, TG207 and TG208 for types, TG209 for functions."""
        if isinstance(node, exp.Column):
            # Most are one: nothing else of what follows can be in it.
            return self._column(node)
        copy = with_places(node)
        # The root may be replaced itself, so it needs a parent.
        root = exp.Paren(this=copy)
        for call in list(root.find_all(exp.Anonymous)):
            if call.name.lower() == "current_watermark":
                self._current_watermark(call)
        for column in list(root.find_all(exp.Column)):
            column.replace(self._column(column))
        resolved: exp.Expr = root.this.pop()
        resolved.meta.update(node.meta)
        self._check_functions(resolved)
        if self.repeatable:
            require_repeatable(self.text, resolved)
            refuse_clock_literals(self.text, resolved, self.type)
        return resolved

    def type(self, node: exp.Expr) -> SparkType | None:
        """The type of a resolved expression, or None if it is not known."""
        return infer(node, self.lookup)

    def lookup(self, node: exp.Expr) -> SparkType | None:
        """For `infer`: the type of a resolved column, or of a field of a struct."""
        if isinstance(node, exp.Column):
            found = self.find(node.name)
            return found.type if found else None
        if isinstance(node, exp.Dot):
            outer = infer(node.this, self.lookup)
            return outer.field(node.expression.name) if outer is not None and outer.name == "struct" else None
        return None

    def _current_watermark(self, call: exp.Anonymous) -> None:
        """Put the hidden column of the log in the place of CURRENT_WATERMARK(column) (W14). Raises TG323."""
        where = name_location(self.text, call)
        (column,) = call.expressions if len(call.expressions) == 1 else (None,)
        if not isinstance(column, exp.Column):
            message = "CURRENT_WATERMARK takes one column"
            raise error("TG323", message, where, "CURRENT_WATERMARK(time_column)")
        self._column(column)
        (found,) = self.written(column.name, column.table or None)
        hidden = self.written(WATERMARK, found.qualifier)
        if not isinstance(found.derived, Identity) or len(hidden) != 1:
            hint = f"select it where the relation is read: (SELECT *, CURRENT_WATERMARK({column.name}) AS w FROM …)"
            message = f'"{column.name}" is not the watermark column of a relation here'
            raise error("TG323", message, where, hint)
        written = exp.column(WATERMARK, table=found.qualifier, quoted=True)
        written.meta["span"] = node_span(call)
        call.replace(written)

    def _column(self, column: exp.Column) -> exp.Expr:
        if isinstance(column.this, exp.Star):
            raise error("TG102", "* is not allowed inside an expression", self.at(column))
        parts = list(column.parts)
        qualifier = None
        if len(parts) > 1 and parts[0].name.casefold() in self.qualifiers and not self.written(parts[0].name):
            qualifier, parts = parts[0].name, parts[1:]
        first = parts[0]
        matches = self.written(first.name, qualifier)
        if len(matches) > 1:
            several = " or ".join(f"{c.qualifier}.{c.called}" for c in matches if c.qualifier)
            raise error("TG203", f'"{first.name}" is in more than one relation', self.at(first), several)
        found = matches[0] if matches else None
        if found is None:
            of = self.what if qualifier is None or len(self.qualifiers) < 2 else f'in "{qualifier}"'
            called = [c.called for c in self.columns if c.unqualified or qualifier]
            if len(parts) > 1:
                hint = did_you_mean(first.name, [*self.qualifiers, *called])
                message = f'there is no relation or column "{first.name}" {of}'
                raise error("TG202", message, self.at(first), hint)
            hint = did_you_mean(first.name, called) or quotes_hint(first)
            raise error("TG202", f'there is no column "{first.name}" {of}', self.at(first), hint)
        node: exp.Expr = exp.Column(this=exp.to_identifier(found.name, quoted=True))
        type_ = found.type
        for part in parts[1:]:
            type_ = self._field(type_, part)
            node = exp.Dot(this=node, expression=exp.to_identifier(part.name, quoted=True))
        node.meta["span"] = node_span(column)
        return node

    def _field(self, type_: SparkType | None, part: exp.Expr) -> SparkType | None:
        if type_ is None:
            return None
        if type_.name != "struct":
            raise error("TG202", f"a {type_} has no fields", self.at(part))
        found = type_.field(part.name)
        if found is None:
            hint = did_you_mean(part.name, type_.fields) or f"its fields are {', '.join(type_.fields)}"
            raise error("TG202", f'there is no field "{part.name}"', self.at(part), hint)
        return found

    def _check_functions(self, node: exp.Expr) -> None:
        for dot in node.find_all(exp.Dot):
            inner = self.type(dot.this)
            if (
                isinstance(dot.expression, exp.Identifier)
                and inner is not None
                and not isinstance(dot.this, exp.Column)
            ):
                self._field(inner, dot.expression)
        if self.repeatable and not self.clock:
            refuse_clock(self.text, node)
        check_functions(self.text, node, self.clock)


def quotes_hint(name: exp.Expr) -> str | None:
    """For a name in double quotes that nobody knows: likely a string, or a hidden column of something else."""
    if name.name.casefold() in NAMES:
        return absent_hint(name.name.casefold())
    return f"write strings in single quotes: '{name.name}'" if name.args.get("quoted") else None


#: What to use in the place of a function that reaches the machine.
_INSTEAD = {
    **dict.fromkeys(
        ("from_avro", "from_protobuf", "to_protobuf"), "FORMAT PLAIN ENCODE AVRO or PROTOBUF of a source"
    ),
    **dict.fromkeys(
        ("from_xml", "schema_of_xml"),
        "put its fields into columns of the row, or store JSON and use from_json(…)",
    ),
    **dict.fromkeys(("current_user", "session_user", "user"), "put the name into a column of the row"),
}


def check_functions(text: Text, node: exp.Expr, clock: bool = False) -> None:
    """Every function is one of Spark's (TG209) that does not reach the machine (TG221, X1), every type of a cast one of
    ours (TG208). `clock`: PROC_TIME() may be used; where it may not it is TG210."""
    refuse_frames(text, node)
    for call in node.find_all(exp.Anonymous):
        name = call.name.lower()
        if name == "source_watermark":
            hint = "WATERMARK FOR column AS SOURCE_WATERMARK()"
            message = "SOURCE_WATERMARK() is a whole strategy: it cannot be a part of an expression"
            raise error("TG210", message, name_location(text, call), hint)
        if name == "current_watermark":
            hint = "use CURRENT_WATERMARK(column) in a query over the relation that has the watermark"
            raise error("TG323", "there is no watermark here", name_location(text, call), hint)
        if name in CLOCK and clock:
            continue
        if name in CLOCK:
            message = f"{name.upper()}() is the clock of a batch, and is only allowed in a watermark"
            raise error("TG210", message, name_location(text, call), "write now()")
        if name.upper() in (*WINDOW_FUNCTIONS, "WATERMARK"):
            message = f"{name.upper()} is only allowed in FROM, not in an expression"
            raise error("TG210", message, name_location(text, call))
        if kind_of(name) is None:
            meant = did_you_mean(name, [*spark_functions(), *WINDOW_FUNCTIONS])
            raise error("TG209", f'there is no function "{call.name}"', name_location(text, call), meant)
        _refuse_machine(text, name, call)
    for user in node.find_all(exp.CurrentUser, exp.SessionUser):
        _refuse_machine(text, user.sql_name().lower(), user)
    for script in node.find_all(exp.QueryTransform):
        _refuse_machine(text, "transform using", script)
    if not clock:
        # A watermark that is a constant behind its column says so in its own words.
        refuse_long_intervals(text, node)
    for cast in node.find_all(exp.Cast):
        try:
            from_datatype(cast.to)
        except ValueError as problem:
            raise error("TG208", str(problem), text.at(node_span(cast))) from None


def refuse_long_intervals(text: Text, node: exp.Expr) -> None:
    """TG214 for what Spark could not even read."""
    for interval in node.find_all(exp.Interval):
        if is_too_long(interval):
            where = text.at(node_span(interval))
            hint = f"two times are at most {MOST_YEARS:,} years apart"
            raise error("TG214", f"{text.slice(node_span(interval))} is too long", where, hint)


def _refuse_machine(text: Text, name: str, call: exp.Expr) -> None:
    """TG221 for what reaches the machine; `name` is in lower-case letters."""
    if reach_of(name) == "machine":
        message = f"{name} accesses the machine, but SQL may only use relations and pure functions (X1)"
        raise error("TG221", message, name_location(text, call), _INSTEAD.get(name))


def refuse_clock(text: Text, node: exp.Expr) -> None:
    """TG220 for PROC_TIME() in a definition, where it is not a watermark strategy."""
    for call in node.find_all(exp.Anonymous):
        if call.name.lower() in CLOCK:
            message = (
                f"{call.name.upper()}() has a different value for every batch, and is only allowed in "
                "a watermark"
            )
            hint = "put the value into a column of the row"
            raise error("TG220", message, name_location(text, call), hint)


def require_repeatable(text: Text, node: exp.Expr) -> None:
    """TG220 for functions of the clock and of chance: a retry has to decide as the first try did (W4), and a backfill
    to give what the live run gave (B1). TG222 for those that would stop a slice for ever (C7)."""
    for call in node.find_all(exp.Anonymous, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser):
        name = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
        if reach_of(name) == "varying" or (name == "unix_timestamp" and not call.expressions):
            message = (
                f"{name}() has a different value in every run, but a definition must give the same "
                "result each time"
            )
            hint = "put the value into a column of the row"
            raise error("TG220", message, name_location(text, call), hint)
        if reach_of(name) == "throwing":
            message = (
                f"{name}() raises an error on purpose, and a view could never continue past such a row (C7)"
            )
            hint = "exclude such rows with WHERE, or check for them with an expectation in quality/"
            raise error("TG222", message, name_location(text, call), hint)


def name_location(text: Text, call: exp.Expr) -> Location:
    """Under the name of a function."""
    return text.at(call.meta.get("name_span") or node_span(call))


def aggregates(node: exp.Expr) -> list[exp.Expr]:
    """The aggregate function calls in an expression, outermost first."""
    return [c for c in node.find_all(exp.Anonymous) if kind_of(c.name) == "aggregate"]


def require_scalar(text: Text, node: exp.Expr, where: str) -> None:
    """TG210 for aggregates, windows, generators and subqueries in a place for a value of one row."""
    if isinstance(node, exp.Column):
        return
    for found in aggregates(node):
        raise error(
            "TG210", f"{found.name} is an aggregate: it is not allowed {where}", name_location(text, found)
        )
    for window in node.find_all(exp.Window):
        raise error("TG210", f"OVER is not allowed {where}", text.at(node_span(window)))
    for call in node.find_all(exp.Anonymous):
        if kind_of(call.name) in ("table", "window") or call.name.lower() in _WINDOWING:
            hint = "use TUMBLE or HOP in FROM" if call.name.lower() in _WINDOWING else None
            raise error("TG210", f"{call.name} is not allowed {where}", name_location(text, call), hint)
    refuse_subqueries(text, node)


def refuse_subqueries(text: Text, node: exp.Expr) -> None:
    for query in node.find_all(exp.Query):
        raise unsupported("a subquery in an expression", text.at(node_span(query)))


def require_type(
    text: Text, node: exp.Expr, type_: SparkType | None, wanted: Sequence[str], what: str
) -> None:
    """TG214 if the type is known and is none of these."""
    if type_ is not None and type_.name not in wanted and type_.name != "void":
        raise error(
            "TG214", f"{what} must be {' or '.join(wanted)}, but this is {type_}", text.at(node_span(node))
        )


def common_type(a: ScopeColumn, b: ScopeColumn) -> SparkType | None:
    """The type of a column that holds the values of both. Of the types that count in the same ticks (TIMESTAMP and
    TIMESTAMPTZ, since sessions are in UTC; integers) it is the wider one; None where only Spark can tell."""
    if a.type == b.type or a.type is None or b.type is None:
        return a.type if a.type == b.type else None
    names = [a.type.name, b.type.name]
    wider = next((t for t in _WIDENING if set(names) <= set(t)), None)
    return None if wider is None else (a.type, b.type)[names.index(max(names, key=wider.index))]


def known(ddl: str) -> SparkType | None:
    """A column's type as the catalog has it."""
    return None if ddl == UNKNOWN else parse_ddl(ddl)
