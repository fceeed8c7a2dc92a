"""Which columns a view shows as they are: each of its rows comes from rows of its input with the same values there.

So the rows of the view that a condition on these columns finds come from rows of the input that it finds, and from no
others: where those go, these go, and no other row of the view changes (E9).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.sql.catalog.objects import View
from tidegate.sql.dialect.dialect import Fragment, Read
from tidegate.sql.dialect.functions import kind_of

#: A row of a query with one of these may depend on rows that have other values. (A text that only looks like one of
#: them is taken for it.)
_OTHERS = (
    " over ",
    " over(",
    " limit ",
    " join ",
    " union ",
    "grouping sets",
    "rollup",
    "cube",
    "explode",
    "stack(",
)
#: What is said of a group of rows, and not of one of them; the bounds of a window; tidegate's own columns.
_COUNTS = ("count", "sum", "try_sum", "avg", "try_avg")
_BOUNDS, _OWN = ("window_start", "window_end"), ("_window_start", "_window_end", "_rows")


@dataclass
class _Shown:
    """What a query shows: by the name of a column of it, the column of the input that it is, None if it is computed.
    `rest`: the names that are not there are those of the input itself."""

    columns: dict[str, str | None] = field(default_factory=dict)
    rest: bool = False

    def origin(self, name: str) -> str | None:
        return name if self.rest and name not in self.columns else self.columns.get(name)


def passed_columns(view: View) -> dict[str, str]:
    """By the columns of a view's one input that it shows as they are, what they are called in the view; {} for a view
    whose rows may depend on rows with other values."""
    text = str(view.query_sql).casefold()
    if len(view.inputs) != 1 or view.over is not None or any(word in text for word in _OTHERS):
        return {}
    shown = _shown(view.query_sql.tree)
    if shown is None:
        return {}
    found = {column.name: shown.origin(column.name) for column in view.columns}
    return {origin: name for name, origin in found.items() if origin is not None}


def counts_only(view: View, columns: Collection[str]) -> bool:
    """Whether a view over one relation has nothing of these columns, and of each window or group only counts, sums and
    averages of rows: none of its values is one row's alone, unless the group is that of one row."""
    query, text = view.query_sql.tree, str(view.query_sql).casefold()
    group = query.args.get("group")
    if len(view.inputs) != 1 or view.accounts is None or view.open_sql is not None or group is None:
        return False
    if any(word in text for word in _OTHERS) or any(group.args.get(kind) for kind in ("rollup", "cube")):
        return False
    below = _shown(query.args["from_"].this)
    if below is None or not all(_is_count(item, below, columns) for item in query.expressions):
        return False
    # A key that is not shown makes a group as small as one that is.
    return all(_is_count(key, below, columns) for key in group.expressions)


def _is_count(item: exp.Expr, below: _Shown, columns: Collection[str]) -> bool:
    """Whether a column of a group tells nothing of these columns, nor of one row."""
    node = item.this if isinstance(item, exp.Alias) else item
    if isinstance(node, Fragment):
        # The bounds of the window, and how many rows there were: tidegate's own.
        return item.alias_or_name in _OWN
    return _of_counts(node, below, columns)


def _of_counts(node: exp.Expr, below: _Shown, columns: Collection[str]) -> bool:
    """Whether an expression is made of counts, sums, averages, the bounds of a window, and keys that are none of these
    columns."""
    if isinstance(node, exp.Column):
        origin = below.origin(node.name) if len(node.parts) == 1 else None
        return node.name in _BOUNDS if origin is None else origin not in columns
    if isinstance(node, exp.Anonymous):
        if node.name.casefold() in _COUNTS:
            return True
        if kind_of(node.name) != "scalar":
            return False
    elif isinstance(node, Fragment | exp.Query):
        return False
    return all(_of_counts(child, below, columns) for child in node.iter_expressions())


def _shown(query: exp.Expr) -> _Shown | None:
    """None for a query of another form."""
    while isinstance(query, exp.Subquery):
        query = query.this
    if isinstance(query, Read):
        return _Shown(rest=True)
    if not isinstance(query, exp.Select) or query.args.get("joins") or query.args.get("laterals"):
        return None
    below, found = _shown(query.args["from_"].this), _Shown()
    if below is None:
        return None
    for item in query.expressions:
        if isinstance(item, exp.Star):
            found.columns |= below.columns
            found.rest |= below.rest
            continue
        column = item.this if isinstance(item, exp.Alias) else item
        plain = isinstance(column, exp.Column) and len(column.parts) == 1
        found.columns[item.alias_or_name] = below.origin(column.name) if plain else None
    return found
