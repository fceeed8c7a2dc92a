"""From text to statements whose every name and type is resolved, and from asset files to a catalog."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from sqlglot import exp, parse_one

from tidegate.errors import FAIL_FAST, Problems, did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation, Sink, SystemTable, View
from tidegate.sql.catalog.system_tables import version_in
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.dialect import to_spark
from tidegate.sql.dialect.parsing import too_deep
from tidegate.sql.dialect.text import Span, Text, token_span
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.grammar.syntax import (
    AlterColumnSyntax,
    AlterWatermarkSyntax,
    CreateRelationSyntax,
    CreateSinkSyntax,
    CreateViewSyntax,
    DeleteSyntax,
    DescribeSyntax,
    DropSyntax,
    ExplainSyntax,
    FlushSyntax,
    InsertSyntax,
    Name,
    ResetWatermarkSyntax,
    SelectSyntax,
    SetSyntax,
    ShowSettingSyntax,
    ShowSyntax,
    StatementSyntax,
    UpdateSyntax,
)
from tidegate.sql.options.connectors import Guard
from tidegate.sql.options.formats import SchemaReader
from tidegate.sql.resolve.relations import analyse_relation
from tidegate.sql.statements.alter import analyse_alter, analyse_reset
from tidegate.sql.statements.alter_columns import analyse_alter_column
from tidegate.sql.statements.changes import analyse_delete, analyse_update
from tidegate.sql.statements.definitions import Definitions, read_definitions
from tidegate.sql.statements.inserts import analyse_insert
from tidegate.sql.statements.ordering import in_reading_order, named
from tidegate.sql.statements.queries import QueryAnalysis
from tidegate.sql.statements.set_statements import analyse_set, analyse_show_setting
from tidegate.sql.statements.sinks import analyse_sink
from tidegate.sql.statements.statements import (
    CreateRelation,
    CreateSink,
    CreateView,
    Describe,
    Drop,
    Explain,
    Flush,
    Select,
    Show,
    Statement,
)
from tidegate.sql.views.views import analyse_view


def analyse(text: str, catalog: Catalog, file: str = "<sql>", base_line: int = 1) -> Iterator[Statement]:
    """The statements of `text`, one by one, each resolved against `catalog` as it is when it is asked for.

    Nothing is added to the catalog: the caller adds what a CREATE defines, and drops what a DROP names,
    before it asks for the next statement. `file` and `base_line` (the number of the first line) are for error
    locations. Raises `TidegateError` with a code of `codes.py`.
    """
    source = Text(text, file, base_line)
    for tokens, description in split(source):
        with _bounded(source, token_span(tokens[0])):
            statement = _analyse(source, read_statement(source, tokens, description), catalog)
        yield statement


def load_catalog(
    files: Iterable[tuple[str, str]],
    schemas: SchemaReader | None = None,
    problems: Problems = FAIL_FAST,
    guard: Guard | None = None,
    gate_names: Mapping[str, str] | None = None,
) -> Catalog:
    """The catalog of asset files (name, text), which may define things in any order. All else: see `Catalog`.
    Raises `TidegateError`; TG107 for a statement that is not a CREATE. `problems`: takes down every error of every
    statement instead; what could not be read is left out, and so is, without a word, what reads that."""
    read = read_definitions(files, problems)
    catalog, broken = Catalog(schemas, guard), problems.broken
    catalog.gate_names = gate_names or {}
    for text, relation in read.relations:
        with _taken_down(problems, read, text, relation.name) as first:
            analysed = analyse_relation(text, relation, schemas, guard)
            if first:
                catalog.add(analysed)
    # A name that is given twice has its first definition.
    broken -= {name.casefold() for name in catalog.names()}
    _alter_columns(read, catalog, problems)
    for text, view in _in_order(read, problems):
        if broken and not broken.isdisjoint(named(view.query)):
            broken.add(view.name.text.casefold())
            continue
        with _taken_down(problems, read, text, view.name) as first:
            made = analyse_view(text, view, catalog)
            if first:
                catalog.add(made)
    for text, sink in read.sinks:
        reads = named(sink.query) if sink.query is not None else [sink.upstream.text] if sink.upstream else []
        if not broken.isdisjoint(name.casefold() for name in reads):
            broken.add(sink.name.text.casefold())
            continue
        with _taken_down(problems, read, text, sink.name) as first:
            target = analyse_sink(text, sink, catalog)
            if first:
                catalog.add_sink(target)
    _check_former_names(read, catalog, problems)
    catalog.blocks = tuple(block for block in read.blocks if block.name.casefold() not in broken)
    return catalog


def _check_former_names(read: Definitions, catalog: Catalog, problems: Problems) -> None:
    """TG204 for a view that has its name from another one's (E2): two of them, or one that is still defined."""
    given: set[str] = set()
    for text, view in read.views:
        if view.renamed_from is not None:
            with problems.caught():
                _refuse_former_name(text, view, catalog, given)
            given.add(view.renamed_from.text.casefold())


def _refuse_former_name(
    text: Text, view: CreateViewSyntax, catalog: Catalog, given: Collection[str] = ()
) -> None:
    if view.renamed_from is None:
        return
    former, where = view.renamed_from.text, text.at(view.renamed_from.span)
    if former.casefold() == view.name.text.casefold():
        message = f'"{view.name.text}" is renamed from its own name'
        raise error("TG204", message, where, "RENAMED FROM takes the name that the view had before")
    if former.casefold() in given:
        message = f'two views are renamed from "{former}"'
        raise error("TG204", message, where, "one of them has its results; the other one is a new view")
    if former in catalog:
        message = f'"{view.name.text}" is renamed from "{former}", which is defined, too'
        hint = f"remove one of them; once the view is renamed everywhere, remove RENAMED FROM, and define {former}"
        raise error("TG204", message, where, hint)


def _alter_columns(read: Definitions, catalog: Catalog, problems: Problems) -> None:
    """ALTER of columns in files, in their order. Raises TG204 for a column with a name that a column has had before,
    which an earlier ALTER has dropped or renamed again: as the text stands, nobody can tell the two (E2)."""
    gone: set[tuple[str, str]] = set()
    for text, syntax in read.alters:
        if syntax.name.text.casefold() in problems.broken:
            continue
        relation = None
        with problems.caught():
            relation = _altered(text, syntax, catalog)
        if relation is None:
            continue
        with problems.caught(relation.name):
            name = syntax.column.text
            if syntax.action == "add" and (relation.name, name.casefold()) in gone:
                message = f'column "{name}" is added, and an earlier ALTER drops or renames one of this name'
                hint = "write the earlier changes into CREATE, run, and then add the column: it is another one (E2)"
                raise error("TG204", message, text.at(syntax.column.span), hint)
            column = relation.column(name)
            if column is not None and syntax.action in ("drop", "rename"):
                # (The definition of a renamed column says what it was called, until it is renamed again.)
                names = [column.renamed_from, name if syntax.action == "drop" else None]
                gone |= {(relation.name, one.casefold()) for one in names if one is not None}
            catalog.replace(analyse_alter_column(text, syntax, relation, catalog).relation)


@contextmanager
def _taken_down(problems: Problems, read: Definitions, text: Text, name: Name) -> Iterator[bool]:
    """Whether this definition is the first of its name. An error in a later one says nothing about the first."""
    first = not read.is_again(text, name)
    with problems.caught(*([name.text] if first else [])), _bounded(text, name.span):
        yield first


@contextmanager
def _bounded(text: Text, span: Span) -> Iterator[None]:
    """TG102 for a statement that is nested more deeply than the analysis gets."""
    try:
        yield
    except RecursionError:
        raise too_deep(text.at(span)) from None


def _in_order(read: Definitions, problems: Problems) -> list[tuple[Text, CreateViewSyntax]]:
    """Every view after those that it reads; at last, those whose names are taken. None, if they read each other in a
    circle."""
    again = [(text, view) for text, view in read.views if read.is_again(text, view.name)]
    first = [(text, view) for text, view in read.views if not read.is_again(text, view.name)]
    with problems.caught(*(view.name.text for _, view in first)):
        return [*in_reading_order(first), *again]
    return []


def _analyse(text: Text, syntax: StatementSyntax, catalog: Catalog) -> Statement:
    match syntax:
        case CreateRelationSyntax():
            exists = _exists(text, syntax.name, syntax.if_not_exists, catalog)
            return CreateRelation(
                analyse_relation(text, syntax, catalog.schemas, catalog.guard), syntax.if_not_exists, exists
            )
        case CreateViewSyntax():
            exists = _exists(text, syntax.name, syntax.if_not_exists, catalog)
            _refuse_former_name(text, syntax, catalog)
            return CreateView(analyse_view(text, syntax, catalog), syntax.if_not_exists, exists)
        case CreateSinkSyntax():
            exists = _exists(text, syntax.name, syntax.if_not_exists, catalog)
            return CreateSink(analyse_sink(text, syntax, catalog), syntax.if_not_exists, exists)
        case AlterWatermarkSyntax():
            return analyse_alter(text, syntax, _altered(text, syntax, catalog))
        case AlterColumnSyntax():
            return analyse_alter_column(text, syntax, _altered(text, syntax, catalog), catalog)
        case ResetWatermarkSyntax():
            found = catalog.find(syntax.name.text)
            if not isinstance(found, Relation) or found.kind != "gate":
                found = _altered(text, syntax, catalog)
            return analyse_reset(text, syntax, found, catalog)
        case InsertSyntax():
            return analyse_insert(text, syntax, catalog)
        case UpdateSyntax():
            return analyse_update(text, syntax, catalog)
        case DeleteSyntax():
            return analyse_delete(text, syntax, catalog)
        case FlushSyntax():
            return Flush()
        case SetSyntax():
            return analyse_set(text, syntax)
        case ShowSettingSyntax():
            return analyse_show_setting(text, syntax)
        case DropSyntax():
            return _drop(text, syntax, catalog)
        case ShowSyntax():
            return _show(text, syntax, catalog)
        case DescribeSyntax():
            described = catalog.sinks.find(syntax.name.text)
            if described is None:
                return Describe(
                    catalog.get(syntax.name.text, text.at(syntax.name.span)).name, syntax.extended
                )
            return Describe(described.name, syntax.extended)
        case ExplainSyntax():
            return _explain(text, syntax, catalog)
        case SelectSyntax():
            analysis = QueryAnalysis(text, catalog)
            analysis.run(syntax.query)
            query = syntax.query if analysis.relations else _with_one_row(syntax.query)
            return Select(to_spark(query), tuple(analysis.relations), tuple(analysis.hidden))
    raise AssertionError(f"no analysis for {type(syntax).__name__}")


def _with_one_row(query: exp.Expr) -> exp.Expr:
    """A query that reads nothing, with `FROM VALUES (0)` where a SELECT has no FROM: the same rows, which Spark
    computes while it plans, without a job."""
    for select in list(query.find_all(exp.Select)):
        if not select.args.get("from_") and not select.args.get("laterals"):
            select.set("from_", parse_one("SELECT 1 FROM VALUES (0)", dialect="spark").args["from_"])
    return query


def _exists(text: Text, name: Name, if_not_exists: bool, catalog: Catalog) -> bool:
    if name.text not in catalog:
        return False
    if not if_not_exists:
        raise error(
            "TG204",
            f'"{name.text}" exists already',
            text.at(name.span),
            "DROP it first, or write IF NOT EXISTS",
        )
    return True


def _drop(text: Text, syntax: DropSyntax, catalog: Catalog) -> Drop:
    kind, name = syntax.kind.text, syntax.name.text
    if syntax.if_exists and name not in catalog and catalog.find(name) is None:
        return Drop(kind, name, True, exists=False)
    version = catalog.find(name)
    if kind == "materialized view" and isinstance(version, SystemTable) and version_in(version.suffix):
        return Drop(kind, version.name, syntax.if_exists, location=text.at(syntax.name.span))
    found = _of_kind(text, syntax.kind, syntax.name, catalog)
    if isinstance(found, View) and "$" in name:
        hint = f"DROP SINK {name.partition('$')[0]}"
        raise error("TG215", f"{name} belongs to a sink", text.at(syntax.name.span), hint)
    return Drop(kind, found.name, syntax.if_exists, location=text.at(syntax.name.span))


def _altered(
    text: Text, syntax: AlterWatermarkSyntax | AlterColumnSyntax | ResetWatermarkSyntax, catalog: Catalog
) -> Relation:
    found = _of_kind(text, syntax.kind, syntax.name, catalog)
    assert isinstance(found, Relation)  # the grammar has ALTER SOURCE and ALTER TABLE only
    return found


def _of_kind(text: Text, kind: Name, name: Name, catalog: Catalog) -> Relation | View | Sink:
    if kind.text == "sink" and name.text not in catalog and catalog.find(name.text) is None:
        hint = did_you_mean(name.text, [sink.name for sink in catalog.sinks])
        raise error(
            "TG201", f'there is no sink "{name.text}"', text.at(name.span), hint or "SHOW SINKS lists them"
        )
    found = catalog.sinks.find(name.text) or catalog.get(name.text, text.at(name.span))
    if isinstance(found, SystemTable):
        raise error(
            "TG215",
            f"{found.name} is a system table",
            text.at(name.span),
            f"it belongs to {found.relation.name}",
        )
    actual = found.kind if isinstance(found, Relation) else "sink"
    if isinstance(found, View):
        actual = "materialized view"
    if actual != kind.text:
        message = f"{found.name} is a {actual}, not a {kind.text}"
        hint = (
            f"write {actual.upper()}"
            if actual != "gate"
            else "a gate is part of the views that write WATERMARK(…)"
        )
        raise error("TG215", message, text.at(kind.span), hint)
    return found


def _show(text: Text, syntax: ShowSyntax, catalog: Catalog) -> Show:
    if syntax.name is None:
        return Show(syntax.what)
    if syntax.kind is not None:
        return Show(syntax.what, _of_kind(text, syntax.kind, syntax.name, catalog).name)
    return Show(syntax.what, catalog.get(syntax.name.text, text.at(syntax.name.span)).name)


def _explain(text: Text, syntax: ExplainSyntax, catalog: Catalog) -> Explain:
    if syntax.create is None:
        assert syntax.name is not None
        if (sink := catalog.sinks.find(syntax.name.text)) is not None:
            return Explain(sink.name)
        return Explain(catalog.get(syntax.name.text, text.at(syntax.name.span)).name)
    if isinstance(syntax.create, CreateSinkSyntax):
        sink = analyse_sink(text, syntax.create, catalog)
        return Explain(sink.name, sink)
    if isinstance(syntax.create, CreateRelationSyntax):
        relation = analyse_relation(text, syntax.create, catalog.schemas, catalog.guard)
        return Explain(relation.name, relation)
    view = analyse_view(text, syntax.create, catalog)
    return Explain(view.name, view)
