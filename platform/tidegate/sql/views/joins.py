"""JOIN in a view: which columns still carry a watermark behind it, and how far its sides are apart in time (D2, D4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.errors import Location, TidegateError
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.inner_names import unless_taken
from tidegate.sql.dialect.intervals import constant_ticks
from tidegate.sql.dialect.query import called, quoted_column, select_from, subquery
from tidegate.sql.dialect.rewrite import safe
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.grammar.parts import keyword_location
from tidegate.sql.resolve.flow import Flow, Reader, held, losing
from tidegate.sql.resolve.reach import Ways, add, between, hull, moved
from tidegate.sql.resolve.scope import (
    ColumnScope,
    LostWatermark,
    ScopeColumn,
    common_type,
    require_scalar,
    require_type,
)
from tidegate.sql.views.lookups import looked_up, lookup_side
from tidegate.watermark import TimeKind, least, shift

_COMPARED = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MOST_WAYS = 100
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Distance:
    """`left` - `right`, two columns that carry watermarks, lies in [low, high] in every pair of rows that match."""

    left: ScopeColumn
    right: ScopeColumn
    low: int
    high: int


def join(reader: Reader, left: Flow, right: Flow, node: exp.Join, where: exp.Expr | None) -> Flow:
    """Both sides joined. `where`: the WHERE behind it, whose conditions bound an inner join in time as ON does.
    Raises TG106 for kinds of joins that are not there, TG344 and TG345 for tables that can't be looked up."""
    text = reader.text
    side = _side(text, node)
    left, right = _qualified(left), _apart(_qualified(right), left)
    on, scope = _condition(text, node, left, right)
    lookup = lookup_side(reader, node, left, right)
    conditions = [on] if on is not None else []
    if side == "INNER" and where is not None:
        conditions.append(_bounds_in(scope, where))
    if lookup:
        left, right = looked_up(reader, node, left, right, lookup, side)
        distance = None
    else:
        distance = _distance(text, conditions, left, right)
        left, right = _timed(text, node, left, right, distance, side)
    return _joined(reader, node, left, right, side, on, scope, distance)


def _side(text: Text, node: exp.Join) -> str:
    if node.args.get("method"):
        raise unsupported(f"{node.method} JOIN", text.at(node_span(node.this)), "name the columns: USING (…)")
    kind, side = (node.kind or "").upper(), (node.side or "").upper()
    if kind in ("SEMI", "ANTI"):
        hint = "LEFT JOIN … WHERE … IS [NOT] NULL"
        raise unsupported(f"{kind} JOIN in a view", keyword_location(text, node.this, kind), hint)
    if isinstance(node.this, exp.Lateral | exp.Unnest):
        raise unsupported("LATERAL in a view", text.at(node_span(node.this)), "explode(…) in a subquery")
    return side or "INNER"


def _qualified(flow: Flow) -> Flow:
    if all(c.qualifier is not None for c in flow.columns):
        return flow
    return replace(flow, columns=tuple(replace(c, qualifier=flow.name.casefold()) for c in flow.columns))


def _apart(right: Flow, left: Flow) -> Flow:
    """The right side with inside names that the left one does not have."""
    taken = {c.name.casefold() for c in left.columns}
    number, names = max(right.reads), [c.name for c in (*left.columns, *right.columns)]
    columns = tuple(
        replace(c, name=unless_taken(f"_{number}_{c.name}", names), written=c.called)
        if c.name.casefold() in taken
        else c
        for c in right.columns
    )
    items = [
        called(quoted_column(old.name), new.name) for old, new in zip(right.columns, columns, strict=True)
    ]
    return replace(right, columns=columns, rows=subquery(select_from(items, right.rows)))


def _condition(text: Text, node: exp.Join, left: Flow, right: Flow) -> tuple[exp.Expr | None, ColumnScope]:
    """ON or USING, resolved over both sides, and their common scope."""
    qualifiers = {c.qualifier for c in (*left.columns, *right.columns) if c.qualifier}
    scope = ColumnScope(text, (*left.columns, *right.columns), frozenset(qualifiers))
    using = node.args.get("using")
    if using:
        equal: list[exp.Expr] = []
        for name in using:
            sides = []
            for flow in (left, right):
                found = [
                    c for c in flow.columns if c.called.casefold() == name.name.casefold() and c.unqualified
                ]
                if len(found) != 1:
                    message = f'"{flow.name}" has no column "{name.name}", or more than one'
                    raise error("TG202", message, text.at(node_span(name)))
                sides.append(exp.Column(this=exp.to_identifier(found[0].name, quoted=True)))
            equal.append(exp.EQ(this=sides[0], expression=sides[1]))
        return exp.and_(*equal, copy=False), scope
    on = node.args.get("on")
    if on is None:
        return None, scope
    resolved = scope.resolve(on)
    require_scalar(text, resolved, "in ON")
    require_type(text, on, scope.type(resolved), ("boolean",), "ON")
    return resolved, scope


def _bounds_in(scope: ColumnScope, where: exp.Expr) -> exp.Expr:
    """WHERE as far as it can be resolved here: conditions on relations that are joined later say nothing yet."""
    found: list[exp.Expr] = []
    for part in where.flatten() if isinstance(where, exp.And) else [where]:
        try:
            found.append(scope.resolve(part))
        except TidegateError:
            continue
    return exp.and_(*found) if found else exp.true()


def _timed(
    text: Text, node: exp.Join, left: Flow, right: Flow, distance: Distance | None, side: str
) -> tuple[Flow, Flow]:
    """Both sides with the watermarks that their columns have behind the join."""
    if not left.carriers() and not right.carriers():
        return left, right
    if distance is None:
        a, b = left.carriers()[0], right.carriers()[0]
        reason = "a join without a bound in time carries no watermark (D4)"
        hint = f"{a.qualifier}.{a.called} = {b.qualifier}.{b.called}, or BETWEEN … - INTERVAL … AND … + INTERVAL …"
        lost = LostWatermark(f"{reason}: add {hint}", text.at(node_span(node.this)))
        return losing(left, lost), losing(right, lost)
    a, b = distance.left, distance.right
    where = text.at(node_span(node.this))
    new_left = _behind(left, a, b, (distance.low, -distance.high, -distance.low), where)
    new_right = _behind(right, b, a, (-distance.high, distance.low, distance.high), where)
    unmatched = 'it is NULL if no row of "{}" matches'
    if side in ("LEFT", "FULL"):
        new_right = losing(
            new_right, LostWatermark(unmatched.format(left.name), text.at(node_span(node.this)))
        )
    if side in ("RIGHT", "FULL"):
        new_left = losing(
            new_left, LostWatermark(unmatched.format(right.name), text.at(node_span(node.this)))
        )
    return new_left, new_right


def _behind(
    flow: Flow, own: ScopeColumn, other: ScopeColumn, apart: tuple[int, int, int], where: Location
) -> Flow:
    """One side behind the join. `apart` is (low, near, far): own >= other + low, and other lies in [own + near,
    own + far]."""
    low, near, far = apart
    assert other.derived is not None
    reason = f"its distance from {own.called}, by which it is joined, is not known"
    found = held(flow, own, shift(other.derived, low), LostWatermark(reason, where))
    columns = []
    for column in found.columns:
        if column.derived is not None:
            to_own = (0, 0) if column.name == own.name else between(column.spans, own.spans, flow.ways)
            column = replace(column, spans={**column.spans, **moved(other.spans, add(to_own, (near, far)))})
        columns.append(column)
    return replace(found, columns=tuple(columns))


def _distance(text: Text, conditions: Sequence[exp.Expr], left: Flow, right: Flow) -> Distance | None:
    """The tightest bound in time that the conditions put on two columns with watermarks."""
    bounds: dict[tuple[str, str], list[int | None]] = {}
    columns = {c.name: c for c in (*left.columns, *right.columns)}
    lefts = {c.name for c in left.columns}
    for condition in conditions:
        for a, sign, b, ticks in _comparisons(text, condition, columns):
            if (a in lefts) == (b in lefts):
                continue
            if a not in lefts:
                a, b, sign, ticks = b, a, _FLIPPED[sign], -ticks
            # columns a, b: a - b <sign> ticks
            pair = bounds.setdefault((a, b), [None, None])
            if sign in ("=", ">=", ">"):
                low = ticks + (sign == ">")
                pair[0] = low if pair[0] is None else max(pair[0], low)
            if sign in ("=", "<=", "<"):
                high = ticks - (sign == "<")
                pair[1] = high if pair[1] is None else min(pair[1], high)
    known = [
        Distance(columns[a], columns[b], low, high)
        for (a, b), (low, high) in bounds.items()
        if low is not None and high is not None
    ]
    return min(known, key=lambda d: d.high - d.low, default=None)


def _comparisons(
    text: Text, condition: exp.Expr, columns: dict[str, ScopeColumn]
) -> Iterable[tuple[str, str, str, int]]:
    """(a, sign, b, ticks): a - b <sign> ticks, of every condition that must hold."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from _comparisons(text, condition.this, columns)
        yield from _comparisons(text, condition.expression, columns)
        return
    if isinstance(condition, exp.Between):
        parts = ((">=", condition.args["low"]), ("<=", condition.args["high"]))
        pairs = [(condition.this, sign, bound) for sign, bound in parts]
    elif isinstance(condition, exp.Binary) and type(condition) in _COMPARED:
        pairs = [(condition.this, _COMPARED[type(condition)], condition.expression)]
    else:
        return
    for one, sign, other in pairs:
        a, b = _linear(text, one, columns), _linear(text, other, columns)
        if a is not None and b is not None and common_type(a[0], b[0]) is not None:
            yield a[0].name, sign, b[0].name, b[1] - a[1]


def _linear(text: Text, node: exp.Expr, columns: dict[str, ScopeColumn]) -> tuple[ScopeColumn, int] | None:
    """A column with a watermark, plus a constant."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        column = columns.get(node.name)
        return (column, 0) if column is not None and column.derived is not None else None
    if not isinstance(node, exp.Add | exp.Sub):
        return None
    inner = _linear(text, node.this, columns)
    if inner is None:
        return None
    kind = TimeKind.from_spark_type(str(inner[0].type))
    try:
        ticks = constant_ticks(text, node.expression, kind) if kind is not None else None
    except ValueError:
        return None
    if ticks is None:
        return None
    return inner[0], inner[1] + (ticks if isinstance(node, exp.Add) else -ticks)


def _joined(
    reader: Reader,
    node: exp.Join,
    left: Flow,
    right: Flow,
    side: str,
    on: exp.Expr | None,
    scope: ColumnScope,
    distance: Distance | None,
) -> Flow:
    columns = [*left.columns, *right.columns]
    items: list[exp.Expr] = [quoted_column(c.name) for c in columns]
    merged = dict(left.merged) | dict(right.merged)
    if side == "FULL" and distance is not None:
        # Of an unmatched row, only one of the two times is there.
        a, b = distance.left, distance.right
        whole = _timed(reader.text, node, _restored(left, a), _restored(right, b), distance, "INNER")
        pair = [next(c for c in f.columns if c.name == n.name) for f, n in zip(whole, (a, b), strict=True)]
        both = replace(
            pair[0],
            name=unless_taken(f"_time_{max(right.reads)}", [c.name for c in columns]),
            derived=least(*(c.derived for c in pair if c.derived is not None)),
            type=common_type(a, b),
            spans=hull(*(c.spans for c in pair)),
            written=f"{a.called} of either side",
            qualifier="",
            starred=False,
            unqualified=False,
        )
        merged[frozenset((a.name, b.name))] = both
        columns.append(both)
        items.append(_first_of(a, b, both.name))
    using = node.args.get("using")
    if using:
        columns, items = _using(using, columns, items, left, right, side, merged)
    joined = exp.Join(this=right.rows, side="" if side == "INNER" else side)
    if on is None:
        joined = exp.Join(this=right.rows, kind="CROSS")
    else:
        joined.set("on", safe(on, scope.lookup))
    of_left = subquery(select_from([quoted_column(c.name) for c in left.columns], left.rows))
    title = "join" if side == "INNER" else f"{side.lower()} join"
    reads = (*left.reads, *right.reads)
    found = Flow(
        f"{left.name}, {right.name}",
        tuple(columns),
        subquery(select_from(items, of_left, joins=[joined])),
        (),
        reads,
        (*left.nodes, *right.nodes),
        merged=merged,
        ways=_ways(left, right, side),
    )
    names = f"{title} {left.name} with {right.name}"
    return replace(found, nodes=(*found.nodes, found.node(names)))


def _first_of(a: ScopeColumn, b: ScopeColumn, name: str) -> exp.Expr:
    """The value of either side, under a name of its own."""
    return called(
        exp.Anonymous(this="coalesce", expressions=[quoted_column(a.name), quoted_column(b.name)]), name
    )


def _ways(left: Flow, right: Flow, side: str) -> Ways:
    """The inputs that have a part in a row of the join for certain. Those of the left side alone are right, too, where
    there are too many ways to tell them all."""
    if side == "FULL":
        return (*left.ways, *right.ways)
    if side == "INNER" and len(left.ways) * len(right.ways) <= _MOST_WAYS:
        return tuple(a | b for a in left.ways for b in right.ways)
    return right.ways if side == "RIGHT" else left.ways


def _restored(flow: Flow, column: ScopeColumn) -> Flow:
    """The flow with this column as it was before the join took its watermark away."""
    return replace(flow, columns=tuple(column if c.name == column.name else c for c in flow.columns))


def _using(
    using: Sequence[exp.Expr],
    columns: list[ScopeColumn],
    items: list[exp.Expr],
    left: Flow,
    right: Flow,
    side: str,
    merged: dict[frozenset[str], ScopeColumn],
) -> tuple[list[ScopeColumn], list[exp.Expr]]:
    """One column for each name of USING, before all others; those of the sides need their qualifier."""
    first: list[ScopeColumn] = []
    first_items: list[exp.Expr] = []
    for number, name in enumerate(using):
        a, b = (
            next(c for c in columns if c.called.casefold() == name.name.casefold() and c in flow.columns)
            for flow in (left, right)
        )
        info = {
            "RIGHT": b,
            "FULL": merged.get(frozenset((a.name, b.name)), replace(a, derived=None, spans={})),
        }
        type_, shown = common_type(a, b), info.get(side, a)
        shown = replace(
            shown,
            type=type_,
            derived=shown.derived if type_ is not None else None,
            name=unless_taken(f"_using_{max(right.reads)}_{number}", [c.name for c in columns]),
            written=a.called,
            qualifier="",
            starred=True,
            unqualified=True,
        )
        first.append(shown)
        first_items.append(_first_of(a, b, shown.name))
        for one in (a, b):
            columns[columns.index(one)] = replace(one, starred=False, unqualified=False)
    return [*first, *columns], [*first_items, *items]
