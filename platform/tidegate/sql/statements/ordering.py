"""In which order the views of asset files are analysed: every one after those that it reads, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from sqlglot import exp

from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import WINDOW_FUNCTIONS
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.syntax import CreateViewSyntax

_OVER_RELATIONS = (*WINDOW_FUNCTIONS, "WATERMARK")


def in_reading_order(views: Sequence[tuple[Text, CreateViewSyntax]]) -> list[tuple[Text, CreateViewSyntax]]:
    """Raises TG201 for views that read each other in a circle."""
    by_name = {syntax.name.text.casefold(): (text, syntax) for text, syntax in views}
    if len(by_name) < len(views):
        return list(views)  # a name is given twice: the catalog says so
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, (_, syntax) in by_name.items():
        sorter.add(name, *(read for read in named(syntax.query) if read in by_name))
    try:
        return [by_name[name] for name in sorter.static_order()]
    except CycleError as problem:
        circle = list(reversed(problem.args[1]))
        text, syntax = by_name[circle[0]]
        names = " reads ".join(f'"{by_name[n][1].name.text}"' for n in circle)
        hint = "a view can read sources, tables and views that do not read it"
        raise error(
            "TG201", f"these views read each other in a circle: {names}", text.at(syntax.name.span), hint
        ) from None


def named(query: exp.Expr) -> Iterator[str]:
    """The relations that a query names, CTEs among them."""
    found = list(query.find_all(exp.Table, exp.Anonymous))
    for table in found:
        if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            yield table.name.casefold()
    for call in found:
        if isinstance(call, exp.Anonymous) and call.name.upper() in _OVER_RELATIONS and call.expressions:
            first = call.expressions[0]
            if isinstance(first, exp.Column):
                yield first.name.casefold()
