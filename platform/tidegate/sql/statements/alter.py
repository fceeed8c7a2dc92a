"""ALTER … WATERMARK (W13) and RESET WATERMARK (W9), resolved against the relation that they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation, Watermark, reads
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.system_names import ROWTIME
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.types import display
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import (
    AlterWatermarkSyntax,
    CreateRelationSyntax,
    ResetWatermarkSyntax,
    WatermarkSyntax,
)
from tidegate.sql.resolve.relations import analyse_relation, analyse_watermark
from tidegate.sql.statements.statements import AlterWatermark, ResetWatermark


def analyse_alter(text: Text, syntax: AlterWatermarkSyntax, relation: Relation) -> AlterWatermark:
    """The relation with the new strategy; everything else of it, its text included, stays as it is.

    Raises TG321 for another column than the watermark's, or where there is no watermark; TG304 for WITH TTL where
    there was none; otherwise what CREATE would raise, at its place in the ALTER statement.
    """
    watermark = _watermark(text, syntax, relation)
    name = syntax.watermark.column
    if name.text.casefold() != watermark.column.casefold():
        message = f'the watermark of "{relation.name}" is on {watermark.column}, not on {name.text}'
        hint = (
            f"write WATERMARK FOR {watermark.column}; to put the watermark on another column, "
            "DROP and CREATE again"
        )
        raise error("TG321", message, text.at(name.span), hint)
    written = Text(relation.definition)
    created = created_by(written)
    (old,) = created.watermarks
    if syntax.watermark.ttl is not None and old.ttl is None:
        hint = "leave WITH TTL out; to add it, DROP the table and CREATE it again"
        message = f'"{relation.name}" was not created WITH TTL'
        raise error("TG304", message, text.at(syntax.watermark.ttl), hint)
    # First as it stands in this statement, so that carets point into it.
    altered = replace(syntax.watermark, ttl=old.ttl and syntax.watermark.span)
    analyse_watermark(text, replace(created, watermarks=(altered,)), relation.columns)
    definition = _definition(written, old, syntax.watermark)
    again = Text(definition)
    new = analyse_relation(again, created_by(again))
    kept = replace(new, description=relation.description, location=relation.location)
    return AlterWatermark(kept, watermark.expression, text.at(syntax.name.span))


def analyse_reset(
    text: Text, syntax: ResetWatermarkSyntax, relation: Relation, catalog: Catalog
) -> ResetWatermark:
    """Of a relation that declares no watermark, the gate of the one WATERMARK(…) over its rows is reset.

    Raises TG321 where there is no watermark, or several such gates; TG214 for what is no value of the column.
    """
    gates = gates_over(catalog, relation) if relation.watermark is None else []
    if len(gates) > 1:
        message = (
            f'{relation.kind} "{relation.name}" declares no watermark, and {len(gates)} gates judge its rows'
        )
        raise error("TG321", message, text.at(syntax.name.span), f"name one of these gates: {named(gates)}")
    relation = gates[0] if gates else relation
    watermark = _watermark(text, syntax, relation)
    try:
        value = watermark.kind.parse(syntax.value.text)
    except ValueError:
        column = relation.time_column
        type_ = display(column.type) if column is not None else watermark.kind.value
        example = watermark.kind.format(0)
        hint = f"{watermark.column} is {type_}: write a value such as '{example}'"
        message = f"'{syntax.value.text}' is not a {type_}"
        raise error("TG214", message, text.at(syntax.value.span), hint) from None
    return ResetWatermark(relation.name, value, text.at(syntax.name.span))


def gates_over(catalog: Catalog, relation: Relation) -> list[Relation]:
    """The implicit gates of WATERMARK(…) over the rows of a relation (W14)."""
    gates = (o for o in catalog.order() if isinstance(o, Relation) and o.kind == "gate")
    return [gate for gate in gates if relation.name in reads(gate)]


def named(gates: Sequence[Relation]) -> str:
    """Implicit gates for people: what a statement calls them, and what a view has written."""
    return ", ".join(f'"{gate.name}" ({gate.definition})' for gate in gates)


def _watermark(
    text: Text, syntax: AlterWatermarkSyntax | ResetWatermarkSyntax, relation: Relation
) -> Watermark:
    if relation.watermark is None:
        message = f'{relation.kind} "{relation.name}" declares no watermark'
        hint = "DROP it and CREATE it again with WATERMARK FOR column AS expression"
        if isinstance(syntax, AlterWatermarkSyntax) and syntax.watermark.column.text.casefold() == ROWTIME:
            strategy = syntax.watermark.text
            hint = (
                f"the watermark on {ROWTIME} is only advisory; to use it in a view, write "
                f"WATERMARK({relation.name}, {ROWTIME}, {strategy})"
            )
        raise error("TG321", message, text.at(syntax.name.span), hint)
    return relation.watermark


def created_by(text: Text) -> CreateRelationSyntax:
    """The CREATE statement that a definition is."""
    ((tokens, description),) = split(text)
    syntax = read_statement(text, tokens, description)
    assert isinstance(syntax, CreateRelationSyntax)
    return syntax


def _definition(written: Text, old: WatermarkSyntax, new: WatermarkSyntax) -> str:
    """The CREATE statement as the user wrote it, with the new strategy in the place of the old one."""
    ttl = "" if old.ttl is None else " WITH TTL"
    clause = f"WATERMARK FOR {written.slice(old.column.span)} AS {new.text}{ttl}"
    start, end = old.span
    return written.sql[:start] + clause + written.sql[end + 1 :]
