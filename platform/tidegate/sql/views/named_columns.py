"""Which columns a view's query may read: every name that it mentions, in any case of its letters. Names that happen to
be the same count, too: then a view is recomputed once too often, and never once too seldom (E3)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.sql.catalog.objects import View
from tidegate.sql.grammar.spelling import view_syntax


@dataclass(frozen=True)
class Named:
    """`text`: has every name as a word of its own. `everything`: the query may read columns that it does not name."""

    text: str
    everything: bool


def named_in(view: View) -> Named:
    """What the query of a view names."""
    return Named(view.definition, _reads_unnamed(view))


def _reads_unnamed(view: View) -> bool:
    """Whether it says `*` for columns, joins by all names that two sides have in common, or decides between rows by
    columns that nobody has named: those that complete an order which its author has left open (C4, O1)."""
    syntax = view_syntax(view.definition)
    if syntax is None:
        return True
    query, over = syntax.query, view.over
    stars = (star for star in query.find_all(exp.Star) if _counted(star.parent) != "COUNT")
    natural = (join for join in query.find_all(exp.Join) if str(join.args.get("method")).upper() == "NATURAL")
    if next(stars, None) is not None or next(natural, None) is not None or query.find(exp.Limit, exp.Fetch):
        return True
    windows = len(list(query.find_all(exp.Window)))
    ties = [
        name for name in (*view.order, *(over.ties if over is not None else ())) if not name.startswith("_")
    ]
    unnamed = any(name.casefold() not in view.definition.casefold() for name in ties)
    return unnamed or windows != (len(over.functions) if over is not None else 0)


def _counted(call: exp.Expr | None) -> str:
    """The name of the function whose only argument a `*` is."""
    return str(call.name or call.key).upper() if isinstance(call, exp.Func) else ""
