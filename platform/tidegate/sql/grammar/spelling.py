"""When two texts of a view are one definition (E1): comments, line breaks, brackets that mean nothing and the case of
keywords and functions may differ; a literal, a name or anything else may not (R4)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sqlglot import exp

from tidegate.errors import TidegateError
from tidegate.sql.dialect.dialect import WINDOW_FUNCTIONS
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import CreateViewSyntax

#: What is kept as it stands (strings, raw strings, quoted names), and what only separates words.
_PIECES = re.compile(
    r"""((?<!\w)[rR]'[^']*'|'(?:[^'\\]|\\.|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`)|(?:--[^\n]*|/\*.*?\*/|\s)+""",
    re.DOTALL,
)
#: A query without CREATE, as a sink's, is read as a view's.
AS_VIEW = "CREATE MATERIALIZED VIEW v AS "


def plain(definition: str) -> str:
    """The text with one blank for whatever separates words: comments, line breaks, several blanks. Different texts
    of this form may still be one definition, but two definitions never have the same."""
    return _PIECES.sub(lambda piece: piece.group(1) or " ", definition).strip().rstrip("; ")


def plain_before(definition: str) -> str:
    """As the first release made it, which also took comments and blanks out of literals."""
    uncommented = re.sub(r"--[^\n]*|/\*.*?\*/", " ", definition, flags=re.DOTALL)
    return " ".join(uncommented.split()).rstrip("; ")


def alike(one: str, other: str) -> bool:
    """Whether two definitions of a view ask for the same."""
    return plain(one) == plain(other) or (
        (meaning := _meaning(one)) is not None and meaning == _meaning(other)
    )


def alike_but_for(before: str, now: str, names: Mapping[str, str]) -> bool:
    """Whether two definitions of a view ask for the same once what they read has the names of now. `names`: those by
    the ones of before, which are in small letters."""
    # (Whose letters may be small or capital ones.)
    spelled = {name.casefold(): name.casefold() for name in names.values()}
    meaning = _meaning(before, {old: name.casefold() for old, name in names.items()})
    return meaning is not None and meaning == _meaning(now, spelled)


def view_syntax(definition: str) -> CreateViewSyntax | None:
    """A view's definition, or the query of a sink's own view, read; None if the text is none."""
    for written in (definition, AS_VIEW + definition):
        text = Text(written)
        try:
            statements = [read_statement(text, tokens) for tokens, _ in split(text)]
        except TidegateError:
            continue
        if len(statements) == 1 and isinstance(found := statements[0], CreateViewSyntax):
            return found
    return None


def _meaning(definition: str, names: Mapping[str, str] = MappingProxyType({})) -> str | None:
    """A view's syntax tree, shown in one way only; None if the text is no view. `names`: of relations, in the places of
    others."""
    found = view_syntax(definition)
    if found is None:
        return None
    query = found.query.copy()
    for node in query.walk():
        node.comments = None
        if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
            node.set("this", node.this.upper())
        for name in _relation_names(node) if names else ():
            name.set("this", names.get(name.name.casefold(), name.name))
    # The tree itself says what belongs together.
    for brackets in [*query.find_all(exp.Paren)]:
        brackets.replace(brackets.this)
    return f"{query!r} {'EMIT' if found.emit is not None else ''}"


def _relation_names(node: exp.Expr) -> Iterator[exp.Identifier]:
    """The names of relations in a node of a tree: in FROM, before a column, or as what a window function reads."""
    found = [node.this] if isinstance(node, exp.Table) else []
    if isinstance(node, exp.Column):
        found.append(node.args.get("table"))
    if isinstance(node, exp.Anonymous) and node.name.upper() in WINDOW_FUNCTIONS and node.expressions:
        first = node.expressions[0]
        found.append(first.this if isinstance(first, exp.Column) else None)
    yield from (one for one in found if isinstance(one, exp.Identifier))
