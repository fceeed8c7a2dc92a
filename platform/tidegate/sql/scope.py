"""Names in expressions over one relation: every column, field and function is found, or an error says
where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import Location, did_you_mean
from tidegate.sql.codes import error, unsupported
from tidegate.sql.dialect import WINDOW_FUNCTIONS
from tidegate.sql.functions import UNREPEATABLE, kind_of, spark_functions
from tidegate.sql.infer import infer
from tidegate.sql.text import Text, node_span
from tidegate.sql.types import UNKNOWN, SparkType, from_datatype, parse_ddl
from tidegate.watermark import Derived

_CLOCK = ("proc_time", "proctime", "source_watermark", "current_watermark")
_WINDOWING = ("window", "session_window", "window_time")


@dataclass(frozen=True)
class Lost:
    """Why a column carries no watermark any more (D1), and at which expression."""

    reason: str
    location: Location


@dataclass(frozen=True)
class ScopeColumn:
    """`derived`: how its watermark follows from the source's, `shift`: its distance from the source's time
    column."""

    name: str
    type: SparkType | None
    derived: Derived | None = None
    shift: int = 0
    lost: Lost | None = None


@dataclass(frozen=True)
class Scope:
    """The columns in sight, and the names of relations that may stand before them (`flights.origin`). `repeatable`:
    part of a definition, which has to give the same whenever it is computed."""

    text: Text
    columns: tuple[ScopeColumn, ...]
    qualifiers: frozenset[str] = frozenset()
    what: str = "here"
    repeatable: bool = True
    _by_name: dict[str, ScopeColumn] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {c.name.casefold(): c for c in self.columns})

    def find(self, name: str) -> ScopeColumn | None:
        return self._by_name.get(name.casefold())

    def at(self, node: exp.Expr) -> Location:
        return self.text.at(node_span(node))

    def resolve(self, node: exp.Expr) -> exp.Expr:
        """A copy of the expression with every column under its own name, without the relation's. Raises TG202
        for a column or field that is not there, TG207 and TG208 for types, TG209 for functions."""
        copy = node.copy()
        # The root may be replaced itself, so it needs a parent.
        root = exp.Paren(this=copy)
        for column in list(root.find_all(exp.Column)):
            column.replace(self._column(column))
        resolved = root.this.pop()
        resolved.meta.update(node.meta)
        self._check_functions(resolved)
        if self.repeatable:
            require_repeatable(self.text, resolved)
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

    def _column(self, column: exp.Column) -> exp.Expr:
        if isinstance(column.this, exp.Star):
            raise error("TG102", "* can't stand inside an expression", self.at(column))
        parts = list(column.parts)
        if (
            len(parts) > 1
            and parts[0].name.casefold() in self.qualifiers
            and self.find(parts[0].name) is None
        ):
            parts = parts[1:]
        first = parts[0]
        found = self.find(first.name)
        if found is None:
            if len(parts) > 1:
                hint = did_you_mean(first.name, [*self.qualifiers, *(c.name for c in self.columns)])
                message = f'there is no relation or column "{first.name}" {self.what}'
                raise error("TG202", message, self.at(first), hint)
            hint = did_you_mean(first.name, [c.name for c in self.columns]) or quotes_hint(first)
            raise error("TG202", f'there is no column "{first.name}" {self.what}', self.at(first), hint)
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
            raise error("TG202", f"there are no fields in a {type_}", self.at(part))
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
        check_functions(self.text, node)


def quotes_hint(name: exp.Expr) -> str | None:
    """For a name in double quotes that nobody knows: likely a string."""
    return f"a string stands in single quotes: '{name.name}'" if name.args.get("quoted") else None


def check_functions(text: Text, node: exp.Expr) -> None:
    """Every function is one of Spark's (TG209), every type of a cast one of ours (TG208)."""
    for call in node.find_all(exp.Anonymous):
        name = call.name.lower()
        if name in _CLOCK:
            raise unsupported(f"{name.upper()}()", name_location(text, call))
        if name.upper() in WINDOW_FUNCTIONS:
            message = f"{name.upper()} stands in FROM, not in an expression"
            raise error("TG210", message, name_location(text, call))
        if kind_of(name) is None:
            known = [*spark_functions(), *WINDOW_FUNCTIONS]
            hint = did_you_mean(name, known)
            raise error("TG209", f'there is no function "{call.name}"', name_location(text, call), hint)
    for cast in node.find_all(exp.Cast):
        try:
            from_datatype(cast.to)
        except ValueError as problem:
            raise error("TG208", str(problem), text.at(node_span(cast))) from None


def require_repeatable(text: Text, node: exp.Expr) -> None:
    """TG220 for functions of the clock and of chance: a retry has to decide as the first try did (W4), and a backfill
    to give what the live run gave (B1)."""
    for call in node.find_all(exp.Anonymous, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentUser):
        name = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
        if name in UNREPEATABLE or (name == "unix_timestamp" and not call.expressions):
            message = (
                f"{name}() is another value at every run, and a definition has to give the same each time"
            )
            hint = "let the row bring the value, in a column of its own"
            raise error("TG220", message, name_location(text, call), hint)


def name_location(text: Text, call: exp.Expr) -> Location:
    """Under the name of a function."""
    return text.at(call.meta.get("name_span") or node_span(call))


def aggregates(node: exp.Expr) -> list[exp.Expr]:
    """The aggregate function calls in an expression, outermost first."""
    return [c for c in node.find_all(exp.Anonymous) if kind_of(c.name) == "aggregate"]


def require_scalar(text: Text, node: exp.Expr, where: str) -> None:
    """TG210 for aggregates, windows, generators and subqueries in a place for a value of one row."""
    for found in aggregates(node):
        raise error("TG210", f"{found.name} is an aggregate: it can't be {where}", name_location(text, found))
    for window in node.find_all(exp.Window):
        raise error("TG210", f"OVER can't be {where}", text.at(node_span(window)))
    for call in node.find_all(exp.Anonymous):
        if kind_of(call.name) in ("table", "window") or call.name.lower() in _WINDOWING:
            hint = "use TUMBLE or HOP in FROM" if call.name.lower() in _WINDOWING else None
            raise error("TG210", f"{call.name} can't be {where}", name_location(text, call), hint)
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
            "TG214", f"{what} must be {' or '.join(wanted)}, this is {type_}", text.at(node_span(node))
        )


def known(ddl: str) -> SparkType | None:
    """A column's type as the catalog has it."""
    return None if ddl == UNKNOWN else parse_ddl(ddl)


def columns_of(columns: Iterable) -> tuple[ScopeColumn, ...]:
    """The columns of an object in the catalog, without watermarks."""
    return tuple(ScopeColumn(c.name, known(c.type)) for c in columns)
