"""Which columns of a relation a view's query may read (E2, E3). Told from the statement alone, since a name can mean
something else once the columns have changed. What is not sure counts as read: then a view is recomputed once too often,
and never once too seldom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.catalog.objects import View, reads
from tidegate.sql.grammar.spelling import view_syntax

#: A column, and fields inside of it, in lower case.
Path = tuple[str, ...]
#: The names that stand for the parts of FROM of one SELECT: whether that is the relation.
Sides = Mapping[str, bool]


@dataclass(frozen=True)
class Named:
    """`everything`: the query may read columns that it does not name."""

    paths: frozenset[Path] = frozenset()
    everything: bool = False

    def reads(self, path: Path) -> bool:
        """Whether the query may read this, something inside of it, or what it is in."""
        return self.everything or any(p[: len(path)] == path[: len(p)] for p in self.paths)


def named_in(view: View, definition: str, relation: str) -> Named:
    """What the query of a view, by this text, names of a relation that it reads."""
    syntax = view_syntax(definition)
    if syntax is None:
        return Named(everything=True)
    query = syntax.query
    # A gate stands in FROM by the name of what it goes over: WATERMARK(s, …) over s.
    gates = {gate.name: reads(gate)[0] for gate in view.gates}
    sides = _sides(query, gates.get(relation, relation).casefold())
    nodes = [(node, sides.get(id(node.find_ancestor(exp.Select)))) for node in query.find_all(*_NAMING)]
    if not any(True in found.values() for found in sides.values()) or any(s is None for _, s in nodes):
        return Named(everything=True)
    over = [(node, found) for node, found in nodes if found and True in found.values()]
    everything = any(_is_all(node, found) for node, found in over) or _reads_unnamed(view, query)
    return Named(frozenset(path for node, found in over for path in _paths(node, found)), everything)


#: What can name columns.
_NAMING = (exp.Column, exp.Star, exp.Join)


def _sides(query: exp.Expr, relation: str) -> Mapping[int, Sides]:
    """By SELECT (its `id`): what stands in its FROM."""
    found: dict[int, dict[str, bool]] = defaultdict(dict)
    for select in query.find_all(exp.Select):
        found[id(select)] = {}
    for item in query.find_all(exp.Table, exp.Subquery):
        name = _over(item).name.casefold()
        called, sides = item.alias.casefold() or name, found[id(item.find_ancestor(exp.Select))]
        sides[called] = sides.get(called, False) or name == relation
    return found


def _over(item: exp.Expr) -> exp.Expr:
    """The name of a part of FROM, or of what its function goes over: TUMBLE(s, …) over s."""
    node: exp.Expr = item.this
    while isinstance(node, exp.Anonymous) and node.expressions:
        node = node.expressions[0]
    return node


def _is_all(node: exp.Expr, sides: Sides) -> bool:
    """`*`, or a join by all names that two sides have in common."""
    if isinstance(node, exp.Join):
        return str(node.args.get("method")).upper() == "NATURAL"
    if isinstance(node, exp.Column):
        return isinstance(node.this, exp.Star) and sides.get(node.table.casefold(), False)
    return not isinstance(node.parent, exp.Column) and _counted(node.parent) != "COUNT"


def _paths(node: exp.Expr, sides: Sides) -> Iterator[Path]:
    """The columns that something names, whatever it means: `a.b` is the field of a column, or the column of a side."""
    if isinstance(node, exp.Join):
        yield from ((name.name.casefold(),) for name in node.args.get("using") or ())
    table = node.find_ancestor(exp.Table, exp.Select)
    if not isinstance(node, exp.Column) or (isinstance(table, exp.Table) and _over(table) is node):
        return
    path = tuple(part.name.casefold() for part in node.parts)
    whole: exp.Expr = node
    while isinstance(outer := whole.parent, exp.Dot | exp.Paren):
        if isinstance(outer, exp.Dot):
            if outer.this is not whole or not isinstance(outer.expression, exp.Identifier):
                break
            path += (outer.expression.name.casefold(),)
        whole = outer
    yield path
    if len(path) > 1 and sides.get(path[0]):
        yield path[1:]


def _reads_unnamed(view: View, query: exp.Expr) -> bool:
    """Whether it decides between rows by columns that nobody has named: those that complete an order which its author
    has left open (C4, O1)."""
    if query.find(exp.Limit, exp.Fetch):
        return True
    over = view.over
    # WINDOW w AS (…) is no call.
    windows = sum(window.arg_key != "windows" for window in query.find_all(exp.Window))
    names = {part.name.casefold() for column in query.find_all(exp.Column) for part in column.parts}
    shown = {column.name for column in view.columns}
    ties = [name for name in view.order if name not in shown]
    ties += [name for name in (over.ties if over is not None else ()) if name.casefold() not in names]
    return any(not name.startswith("_") for name in ties) or windows != (
        len(over.functions) if over is not None else 0
    )


def _counted(call: exp.Expr | None) -> str:
    """The name of the function whose only argument a `*` is."""
    return str(call.name or call.key).upper() if isinstance(call, exp.Func) else ""
