"""GROUP BY, DISTINCT, HAVING and aggregates: which keys a result has, and the Spark SQL of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tidegate.errors import Location
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.functions import kind_of
from tidegate.sql.dialect.inner_names import LOST
from tidegate.sql.dialect.query import called, own, quoted_column, select_from, subquery
from tidegate.sql.dialect.rewrite import lost_totals, safe
from tidegate.sql.dialect.text import Text, node_span, without_places
from tidegate.sql.dialect.warnings import warn
from tidegate.sql.grammar.parts import group_by_all, keyword_location, refuse_arguments
from tidegate.sql.resolve.flow import Item
from tidegate.sql.resolve.scope import (
    ColumnScope,
    ScopeColumn,
    aggregates,
    name_location,
    refuse_subqueries,
    require_scalar,
    require_type,
)

KEY_PREFIX = "_key_"
_BOUNDS = ("window_start", "window_end")
_OF_NUMBERS = (
    *("sum", "try_sum", "avg", "mean", "try_avg"),
    *("stddev_samp", "stddev_pop", "stddev", "std", "var_samp", "var_pop", "variance"),
)
_SEVERAL = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}


@dataclass(frozen=True)
class Grouping:
    """`keys`: the expressions by which rows are grouped, resolved; `several`: (word, expressions) of ROLLUP and CUBE
    beside them; `having`: a resolved condition. `paired`: window_start and window_end stand for each other."""

    text: Text
    keys: tuple[exp.Expr, ...]
    several: tuple[tuple[str, tuple[exp.Expr, ...]], ...] = ()
    having: exp.Expr | None = None
    paired: bool = field(default=False)

    @property
    def everything(self) -> tuple[exp.Expr, ...]:
        """Keys of GROUP BY and those inside ROLLUP or CUBE."""
        return (*self.keys, *(k for _, keys in self.several for k in keys))

    def is_key(self, node: exp.Expr) -> bool:
        """Whether a resolved expression is a plain key, which every row of a group shares."""
        return node.unnest() in self.keys or (
            self.paired and is_bound(node) and any(map(is_bound, self.keys))
        )

    def checked(self, items: Sequence[Item]) -> list[Item]:
        """The items, where only keys carry watermarks. Raises TG211."""
        found = []
        for item in items:
            self._check(item.node)
            column = item.column
            if not self.is_key(item.node):
                column = replace(column, derived=None, spans={}, lost=None)
            found.append(replace(item, column=column))
        if self.having is not None:
            self._check(self.having)
        return found

    def query(
        self,
        source: exp.Expr,
        scope: ColumnScope,
        items: Sequence[Item],
        extra: Sequence[exp.Expr] = (),
        counted: bool = False,
    ) -> exp.Select:
        """SELECT … FROM source GROUP BY … HAVING …. `extra`: more items of SELECT. `counted`: with `LOST`, where a
        total can be too large."""
        scope, source, names = self.with_keys(source, scope)
        selected = [called(safe(with_names(i.node, names), scope.lookup), i.name.text) for i in items]
        lost: list[exp.Expr] = []
        if counted:
            nodes = [with_names(i.node, names) for i in items]
            lost = [exp.Paren(this=t) for node in nodes for t in lost_totals(node, scope.lookup)]
        if lost:
            selected.append(called(exp.or_(*lost, copy=False), LOST))
        having = None
        if self.having is not None:
            having = exp.Having(this=safe(with_names(self.having, names), scope.lookup))
        return select_from([*selected, *extra], source, group=self._group_by(names), having=having)

    def with_keys(
        self, source: exp.Expr, scope: ColumnScope
    ) -> tuple[ColumnScope, exp.Expr, dict[exp.Expr, str]]:
        """Keys that are expressions become columns of the source: evaluated once, and Spark need not see for itself
        that the expression in SELECT is the one in GROUP BY (for lambdas it doesn't)."""
        computed = [k for k in self.everything if not isinstance(k, exp.Column | exp.Literal)]
        names = {k: f"{KEY_PREFIX}{i + 1}" for i, k in enumerate(dict.fromkeys(computed))}
        if not names:
            return scope, source, names
        items = [exp.Star(), *(called(safe(k, scope.lookup), name) for k, name in names.items())]
        added = tuple(ScopeColumn(name, scope.type(k)) for k, name in names.items())
        return replace(scope, columns=(*scope.columns, *added)), subquery(select_from(items, source)), names

    def _group_by(self, names: dict[exp.Expr, str]) -> exp.Group | None:
        # A literal would be taken for an ordinal, and groups nothing anyway.
        keys = [without_places(with_names(k, names)) for k in self.keys if not isinstance(k, exp.Literal)]
        if self.paired and any(map(is_bound, self.keys)):
            keys = [*map(quoted_column, _BOUNDS), *keys]
        for word, inside in self.several:
            keys.append(exp.Anonymous(this=word, expressions=[with_names(k, names).copy() for k in inside]))
        if not keys and self.keys:
            keys = [own("1 = 1")]
        return exp.Group(expressions=[*dict.fromkeys(keys)]) if keys else None

    def _check(self, node: exp.Expr) -> None:
        """TG211 unless every column stands in an aggregate or is part of a group key."""
        if node.unnest() in self.everything or self.is_key(node):
            return
        if isinstance(node, exp.Anonymous) and (
            kind_of(node.name) == "aggregate" or node.name.lower() in ("grouping", "grouping_id")
        ):
            return
        if isinstance(node, exp.Filter | exp.WithinGroup):
            self._check(node.this)
            return
        if isinstance(node, exp.Column):
            hint = f"add {node.name} to GROUP BY, or use any_value({node.name})"
            where = self.text.at(node_span(node))
            raise error("TG211", f'"{node.name}" is neither grouped nor aggregated', where, hint)
        for child in node.iter_expressions():
            self._check(child)


def is_bound(node: exp.Expr) -> bool:
    """window_start or window_end itself."""
    node = node.unnest()
    return isinstance(node, exp.Column) and node.name in _BOUNDS


def with_names(node: exp.Expr, names: dict[exp.Expr, str]) -> exp.Expr:
    """The expression with computed keys as the columns that they became."""
    if not names:
        return node

    def visit(part: exp.Expr) -> exp.Expr:
        name = names.get(part)
        return exp.Column(this=exp.to_identifier(name, quoted=True)) if name else part

    return node.unnest().transform(visit)


def read_grouping(
    text: Text, select: exp.Select, scope: ColumnScope, items: Sequence[Item], paired: bool
) -> Grouping | None:
    """What a SELECT groups by; None if it does not. Raises TG210, TG217, TG106."""
    group, having, distinct = (select.args.get(k) for k in ("group", "having", "distinct"))
    aggregated = any(aggregates(i.node) for i in items)
    if group is None and having is None and distinct is None and not aggregated:
        return None
    for item in items:
        check_aggregates(text, item.node, scope)
    if distinct is not None:
        return _distinct(text, select, distinct, items, aggregated or group is not None)
    keys: list[exp.Expr] = []
    several: list[tuple[str, tuple[exp.Expr, ...]]] = []
    if group is not None:
        keys, several = _keys(text, select, group, scope, items)
    condition = None
    if having is not None:
        condition = scope.resolve(_with_aliases(having.this, scope, items))
        check_aggregates(text, condition, scope)
        require_type(text, having.this, scope.type(condition), ("boolean",), "HAVING")
    return Grouping(text, tuple(dict.fromkeys(keys)), tuple(several), condition, paired)


def warn_of_text(call: exp.Expr, scope: ColumnScope, where: Location) -> None:
    """TG903 for a sum of text, which Spark turns into numbers row by row. `call`: of any aggregate, resolved."""
    if call.name.lower() not in _OF_NUMBERS or not call.expressions:
        return
    kind = scope.type(call.expressions[0])
    if kind is not None and kind.name == "string":
        message = f"{call.name} of text: each value is converted to DOUBLE, which is not exact"
        hint = f"CAST the text to its real type, in the source or here: {call.name}(CAST(… AS DECIMAL))"
        warn("TG903", message, where, hint)


def check_aggregates(text: Text, node: exp.Expr, scope: ColumnScope) -> None:
    """TG210 for aggregates in aggregates; TG106 for what a group can't hold."""
    if isinstance(node, exp.Column):
        return
    for window in node.find_all(exp.Window):
        raise unsupported(
            "OVER beside aggregates", text.at(node_span(window)), "OVER around a subquery that groups"
        )
    refuse_subqueries(text, node)
    for call in aggregates(node):
        for argument in call.expressions:
            require_scalar(text, argument, f"inside {call.name}")
        warn_of_text(call, scope, name_location(text, call))
    for filtered in node.find_all(exp.Filter):
        condition = filtered.expression.this
        require_scalar(text, condition, "in FILTER")
        require_type(text, condition, scope.type(condition), ("boolean",), "FILTER")
    for call in node.find_all(exp.Anonymous):
        if kind_of(call.name) in ("table", "window") or call.name.lower() in ("window", "session_window"):
            raise unsupported(f"{call.name} in a view", name_location(text, call))


def _distinct(
    text: Text, select: exp.Select, distinct: exp.Expr, items: Sequence[Item], grouped: bool
) -> Grouping:
    where = keyword_location(text, select.expressions[0], "DISTINCT")
    if distinct.args.get("on"):
        hint = "row_number() OVER (PARTITION BY …) in a subquery, and WHERE … = 1"
        raise unsupported("DISTINCT ON in a view", where, hint)
    if grouped:
        raise unsupported("DISTINCT beside aggregates or GROUP BY", where, "put one of them into a subquery")
    return Grouping(text, tuple(dict.fromkeys(i.node.unnest() for i in items)))


def _keys(
    text: Text, select: exp.Select, group: exp.Expr, scope: ColumnScope, items: Sequence[Item]
) -> tuple[list[exp.Expr], list[tuple[str, tuple[exp.Expr, ...]]]]:
    if group.args.get("all"):
        raise unsupported("GROUP BY ALL in a view", group_by_all(text, select), "name the columns")
    several: list[tuple[str, tuple[exp.Expr, ...]]] = []
    for kind, word in _SEVERAL.items():
        for found in group.find_all(kind):
            if kind is exp.GroupingSets or not found.expressions:
                where = keyword_location(text, found, word)
                raise unsupported(
                    f"{word} in a view", where, "ROLLUP(…) or CUBE(…) beside the window in GROUP BY"
                )
            several.append((word, tuple(_key(text, k, scope, items) for k in found.expressions)))
    refuse_arguments(text, group, ("expressions", "rollup", "cube", "grouping_sets"), "in GROUP BY of a view")
    plain = [node for node in group.expressions if not isinstance(node, tuple(_SEVERAL))]
    return [_key(text, node, scope, items) for node in plain], several


def _key(text: Text, node: exp.Expr, scope: ColumnScope, items: Sequence[Item]) -> exp.Expr:
    if isinstance(node, exp.Literal) and not node.is_string:
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
            message = f"there is no column {node.name} in SELECT: the last one is {len(items)}"
            raise error("TG217", message, text.at(node_span(node)))
        key = items[int(node.name) - 1].node
    else:
        alias = None
        if isinstance(node, exp.Column) and not node.table and not scope.written(node.name):
            alias = next((i for i in items if i.name.text.casefold() == node.name.casefold()), None)
        key = alias.node if alias is not None else scope.resolve(node)
    for call in aggregates(key):
        where = text.at(node_span(node))
        raise error("TG210", f"{call.name} is an aggregate: it is not allowed in GROUP BY", where)
    require_scalar(text, key, "in GROUP BY")
    return key.unnest()


def _with_aliases(node: exp.Expr, scope: ColumnScope, items: Sequence[Item]) -> exp.Expr:
    """HAVING may name the columns of SELECT."""
    by_name = {i.name.text.casefold(): i for i in items}

    def visit(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column) and not part.table and not scope.written(part.name):
            item = by_name.get(part.name.casefold())
            return item.written.copy() if item is not None else part
        return part

    return node.copy().transform(visit)
