"""What can be typed next: names where a relation is expected, else columns, functions, keywords, settings.

Pure: a text, the catalog, and the place of the cursor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from tidegate.cli.shell.meta import COMMANDS
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.catalog.system_tables import REVISIONS, SYSTEM_TABLES
from tidegate.sql.dialect.functions import spark_functions
from tidegate.sql.settings import SETTINGS

_STATEMENTS = (
    *("SELECT", "WITH", "VALUES", "INSERT INTO", "UPDATE", "DELETE FROM", "FLUSH", "EXPLAIN", "DESCRIBE"),
    *(
        "CREATE SOURCE",
        "CREATE TABLE",
        "CREATE MATERIALIZED VIEW",
        "CREATE SINK",
        "DROP SOURCE",
        "DROP TABLE",
    ),
    *("DROP MATERIALIZED VIEW", "ALTER SOURCE", "ALTER TABLE", "SHOW", "SET", "RESET"),
)
_KEYWORDS = (
    *(
        "SELECT",
        "DISTINCT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "OFFSET",
        "AS",
        "AND",
    ),
    *("OR", "NOT", "IN", "IS NULL", "IS NOT NULL", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END"),
    *(
        "CAST",
        "JOIN",
        "LEFT JOIN",
        "FULL JOIN",
        "ON",
        "UNION ALL",
        "INTERVAL",
        "OVER",
        "PARTITION BY",
        "ROWS",
    ),
    *("FILTER", "EMIT ON WINDOW CLOSE", "WATERMARK FOR", "APPEND ONLY", "PRIMARY KEY", "WITH TTL", "VALUES"),
    *("TUMBLE", "HOP", "SESSION", "CUMULATE", "TIMESTAMP", "TIMESTAMPTZ", "DATE", "VARCHAR", "BIGINT", "INT"),
    *("DECIMAL", "DOUBLE", "BOOLEAN", "TRUE", "FALSE", "NULL", "FORMAT PLAIN", "ENCODE JSON", "ASC", "DESC"),
    *("IF NOT EXISTS", "IF EXISTS", "FOR SYSTEM_TIME AS OF PROCTIME()", "EXCLUDE CURRENT ROW"),
)
_SHOW = ("SOURCES", "TABLES", "MATERIALIZED VIEWS", "SINKS", "COLUMNS FROM", "CREATE", "ALL")
_KINDS = ("SOURCE", "TABLE", "MATERIALIZED VIEW", "SINK")
_WINDOWS = ("TUMBLE", "HOP", "SESSION", "CUMULATE", "WATERMARK")
#: A relation comes right after one of these.
_BEFORE_NAMES = frozenset(
    ("FROM", "JOIN", "INTO", "UPDATE", "DESCRIBE", "DESC", "EXTENDED", "EXPLAIN", "TABLE", "SOURCE", "VIEW")
)
#: After these a sink can stand, too: it has no rows that could be read.
_OF_SINKS = frozenset(("DESCRIBE", "DESC", "EXTENDED", "EXPLAIN"))
_TOKEN = re.compile(
    r"""'(?:[^'\\]|''|\\.)*(?:'|$)|"(?:[^"]|"")*(?:"|$)|--[^\n]*|/\*.*?(?:\*/|$)|[A-Za-z_][\w$]*|\d[\w.]*|\S""",
    re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Suggestion:
    """`text` replaces the last `length` characters before the cursor; `kind` is shown beside it."""

    text: str
    length: int
    kind: str


def candidates(text: str, cursor: int, catalog: Catalog) -> list[Suggestion]:
    """What can stand at the cursor, best first."""
    before = text[:cursor]
    if before.lstrip().startswith("\\"):
        return _commands(before.lstrip(), catalog)
    start, end = _statement(text, cursor)
    tokens = list(_TOKEN.finditer(text[start:cursor]))
    word = ""
    if tokens and tokens[-1].end() == cursor - start:
        last = tokens[-1].group()
        if last.startswith(("'", "--", "/*")) or (
            last.startswith('"') and last.endswith('"') and last != '"'
        ):
            return []
        if last[0].isalpha() or last[0] in '_"':
            word = last
            tokens.pop()
    words = [t.group().upper() for t in tokens]
    quoted = word.startswith('"')
    found = _in_context(words, word, text[start:end], catalog)
    prefix = word.lstrip('"').casefold()
    chosen: dict[str, Suggestion] = {}
    for name, kind in found:
        if not name.strip('"').casefold().startswith(prefix) or (quoted and kind in ("keyword", "function")):
            continue
        if kind in ("keyword", "function") and word and word[-1].islower():
            name = name.lower()
        chosen.setdefault(name, Suggestion(name, len(word), kind))
    return list(chosen.values())


def _in_context(words: list[str], word: str, statement: str, catalog: Catalog) -> Iterator[tuple[str, str]]:
    previous = words[-1] if words else ""
    if not words:
        return ((s, "keyword") for s in _STATEMENTS)
    if words[0] in ("SET", "RESET", "SHOW") and len(words) == 1:
        settings = [(s, "setting") for s in SETTINGS]
        return iter(settings + [(s, "keyword") for s in _SHOW] if words[0] == "SHOW" else settings)
    if previous == "SINK" and words[0] != "CREATE":
        return _sinks(catalog)
    if words[0] in ("CREATE", "DROP", "ALTER") and len(words) == 1:
        return ((k, "keyword") for k in _KINDS)
    if previous == "." and len(words) > 1:
        return _qualified(words[-2], statement, catalog)
    after_window = previous == "(" and len(words) > 1 and words[-2] in _WINDOWS
    if (previous in _BEFORE_NAMES and not (words[0] == "CREATE" and len(words) < 4)) or after_window:
        names = _names(word, catalog)
        if words[0] in _OF_SINKS and previous in _OF_SINKS:
            names = chain(names, _sinks(catalog))
        windows = () if after_window else ((w, "function") for w in _WINDOWS)
        return iter([*names, *windows]) if previous in ("FROM", "JOIN") else iter([*names])
    return _anything(word, statement, catalog)


def _anything(word: str, statement: str, catalog: Catalog) -> Iterator[tuple[str, str]]:
    yield from _columns(_mentioned(statement, catalog), catalog)
    if any(re.search(rf"\b{w}\s*\(", statement, re.IGNORECASE) for w in _WINDOWS[:4]):
        yield from (("window_start", "column"), ("window_end", "column"))
    if not word:
        return
    yield from ((k, "keyword") for k in _KEYWORDS)
    yield from _names(word, catalog)
    yield from ((f, "function") for f in spark_functions() if _PLAIN.fullmatch(f))


def _names(word: str, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Relations and views; system tables as soon as a relation's name is there in full."""
    typed = word.lstrip('"').casefold()
    relations = {r.name: r for r in catalog.relations}
    for name in catalog.names():
        kind = relations[name].kind if name in relations else "view"
        yield _quoted(name), kind
        if isinstance(relations.get(name), Relation) and typed.startswith(name.casefold()):
            yield from ((f'"{name}${s}"', "system table") for s in SYSTEM_TABLES)
        if kind == "view" and typed.startswith(name.casefold()):
            yield f'"{name}${REVISIONS}"', "system table"


def _sinks(catalog: Catalog) -> Iterator[tuple[str, str]]:
    return ((_quoted(s.name), "sink") for s in catalog.sinks)


def _mentioned(statement: str, catalog: Catalog) -> list[str]:
    """Names in the statement that the catalog knows."""
    found = (m.group().strip('"') for m in _TOKEN.finditer(statement))
    return list(dict.fromkeys(name for name in found if name and catalog.find(name) is not None))


def _columns(names: Iterable[str], catalog: Catalog) -> Iterator[tuple[str, str]]:
    for name in names:
        found = catalog.find(name)
        for column in found.columns if found is not None else ():
            yield _quoted(column.name), "column"


def _qualified(qualifier: str, statement: str, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Columns of a relation, or of what an alias stands for."""
    alias = qualifier.strip('"').casefold()
    if catalog.find(alias) is not None:
        yield from _columns([alias], catalog)
        return
    for name in _mentioned(statement, catalog):
        # Behind the name itself, or behind the bracket of a window function over it.
        pattern = rf'\b{re.escape(name)}"?(?:[^()]*\))?\s+(?:AS\s+)?"?{re.escape(alias)}\b'
        if re.search(pattern, statement, re.IGNORECASE):
            yield from _columns([name], catalog)


def _commands(before: str, catalog: Catalog) -> list[Suggestion]:
    word, blank, rest = before.partition(" ")
    if not blank:
        return [Suggestion(c.word, len(word), "command") for c in COMMANDS if c.word.startswith(word)]
    if word not in ("\\d", "\\e"):
        return []
    typed = rest.lstrip()
    found = [n.strip('"') for n, _ in chain(_names(typed, catalog), _sinks(catalog))]
    return [Suggestion(n, len(typed), "name") for n in found if n.casefold().startswith(typed.casefold())]


def _statement(text: str, cursor: int) -> tuple[int, int]:
    """Where the statement around the cursor starts and ends."""
    start, end = 0, len(text)
    for match in _TOKEN.finditer(text):
        if match.group() == ";":
            if match.end() <= cursor:
                start = match.end()
            else:
                end = match.start()
                break
    return start, end


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
