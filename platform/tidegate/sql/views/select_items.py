"""The items of SELECT: their names, expressions and columns, with what a star stands for."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.inner_names import unless_taken
from tidegate.sql.dialect.query import called
from tidegate.sql.dialect.rewrite import safe
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.grammar.parts import refuse_arguments
from tidegate.sql.grammar.syntax import Name
from tidegate.sql.resolve.derivation import derive
from tidegate.sql.resolve.flow import Item
from tidegate.sql.resolve.relations import check_column_name
from tidegate.sql.resolve.scope import ColumnScope


def output_name(text: Text, item: exp.Expr) -> Name:
    """The name of an item of SELECT: its alias, its column's or field's name, or that of its function."""
    value = item.unalias().unnest() if not isinstance(item, exp.Alias) else item
    if isinstance(item, exp.Alias):
        identifier = item.args["alias"]
        name = Name(identifier.name, node_span(identifier))
    elif isinstance(value, exp.Column | exp.Dot):
        last = value.this if isinstance(value, exp.Column) else value.expression
        name = Name(last.name, node_span(last))
    else:
        call = value.this if isinstance(value, exp.Filter | exp.Window) else value
        if not isinstance(call, exp.Anonymous):
            raise error(
                "TG216", "this column has no name", text.at(node_span(item)), "write AS name after it"
            )
        name = Name(call.name.lower(), call.meta.get("name_span") or node_span(item))
    check_column_name(text, name)
    return name


def _positional(item: exp.Expr, number: int, scope: ColumnScope) -> Name:
    """On the right of UNION ALL, where the left names the columns."""
    return Name(unless_taken(f"_column_{number}", [c.called for c in scope.columns]), node_span(item))


def safe_item(item: Item, scope: ColumnScope) -> exp.Expr:
    """`expression AS name` for Spark."""
    return called(safe(item.node, scope.lookup), item.name.text)


def read_items(text: Text, written: list[exp.Expr], scope: ColumnScope, named: bool) -> list[Item]:
    """The items as they are written, resolved. `named`: each needs a name of its own. Raises TG206, TG216."""
    items: list[Item] = []
    for item in written:
        columns: list[Item | exp.Expr] = [*_starred(text, item, scope)] or [item]
        for one in columns:
            if isinstance(one, Item):
                name = one.name
            else:
                name = output_name(text, one) if named else _positional(one, len(items), scope)
            if any(name.text.casefold() == i.name.text.casefold() for i in items):
                where = text.at(name.span)
                raise error("TG206", f'column "{name.text}" is given twice', where, "write AS another_name")
            items.append(one if isinstance(one, Item) else _item(text, one, name, scope))
    return items


def _item(text: Text, item: exp.Expr, name: Name, scope: ColumnScope) -> Item:
    written = item.unalias()
    node = scope.resolve(written)
    found = derive(text, node, written, scope)
    column = replace(
        found,
        name=name.text,
        # COALESCE of the two times of a FULL JOIN, of which one has a time zone, is what its column says.
        type=scope.type(node) or (found.type if found.derived is not None else None),
        written=None,
        qualifier=None,
        starred=True,
        unqualified=True,
    )
    return Item(name, node, written, column)


def _starred(text: Text, item: exp.Expr, scope: ColumnScope) -> list[Item]:
    """The columns of `*` or `relation.*`; nothing for other items."""
    qualifier = None
    star = item
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        qualifier, star = item.table.casefold(), item.this
        if qualifier not in scope.qualifiers:
            raise error("TG202", f'there is no relation "{item.table}" here', text.at(node_span(item)))
    if not isinstance(star, exp.Star):
        return []
    refuse_arguments(text, star, ())
    span = node_span(item)
    found = []
    for column in scope.columns:
        if qualifier is None and not column.starred:
            continue
        if qualifier is not None and column.qualifier not in (None, qualifier):
            continue
        node = exp.Column(this=exp.to_identifier(column.name, quoted=True))
        node.meta["span"] = span
        shown = replace(
            column, name=column.called, written=None, qualifier=None, starred=True, unqualified=True
        )
        found.append(Item(Name(column.called, span), node, item, shown))
    return found
