"""CREATE SINK, resolved: what it delivers must be rows that never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import VIEW_SUFFIX, CatalogColumn, Relation, Sink, SystemTable, View
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.syntax import CreateSinkSyntax, CreateViewSyntax, Name, OptionSyntax
from tidegate.sql.options.connectors import Guard, guarded, read_connector
from tidegate.sql.options.formats import Format, read_format
from tidegate.sql.options.kafka_options import KafkaSinkOptions
from tidegate.sql.options.option_types import SinkOptions
from tidegate.sql.options.sink_connectors import (
    LATER_SINK_CONNECTORS,
    SINK_CONNECTORS,
    FilesystemSinkOptions,
)
from tidegate.sql.resolve.relations import check_object_name
from tidegate.sql.views.views import analyse_view

_APPEND_ONLY = "a sink is append-only: it delivers rows that never change"
_EMIT = "SELECT … from a relation with a watermark, and write EMIT ON WINDOW CLOSE"


def analyse_sink(text: Text, syntax: CreateSinkSyntax, catalog: Catalog) -> Sink:
    """Raises TG351 for rows that can change, TG4xx for options, and whatever `analyse_view` raises for a query."""
    check_object_name(text, syntax.name)
    connector, format_ = _target(text, syntax, catalog.guard)
    view = None
    if syntax.upstream is not None:
        upstream = _upstream(text, syntax.upstream, catalog)
    else:
        view = _view(text, syntax, catalog)
        upstream = view.name
    delivered = view or catalog.get(upstream)
    assert isinstance(delivered, Relation | View)
    if connector.upserts and isinstance(delivered, Relation):
        message = f'rows of "{delivered.name}" are never amended: only the rows of views are amended (B2)'
        where = text.at(_option(syntax, "amendments").value_span)
        raise error("TG404", message, where, "leave it out")
    if connector.on_change is not None and isinstance(delivered, Relation):
        message = f'the rows of "{delivered.name}" are never replaced: only a view has versions (E6)'
        raise error("TG404", message, text.at(_option(syntax, "on_change").value_span), "leave it out")
    if isinstance(connector, KafkaSinkOptions) and connector.key:
        key = _key(text, syntax, connector.key, delivered.columns)
        connector = connector.model_copy(update={"key": key})
        if connector.upserts and isinstance(delivered, View):
            _tells_apart(text, syntax, key, delivered)
    return Sink(
        syntax.name.text,
        upstream,
        view,
        connector,
        format_,
        text.slice(syntax.span),
        syntax.description,
        text.at(syntax.name.span),
    )


def _target(text: Text, syntax: CreateSinkSyntax, guard: Guard | None) -> tuple[SinkOptions, Format | None]:
    where = text.at(syntax.name.span)
    if syntax.options is None or syntax.options_span is None:
        hint = f"add WITH (connector = '…', …); available connectors: {', '.join(sorted(SINK_CONNECTORS))}"
        raise error("TG403", f'sink "{syntax.name.text}" has no connector', where, hint)
    whole = text.at(syntax.options_span)
    connector = read_connector(text, syntax.options, whole, SINK_CONNECTORS, LATER_SINK_CONNECTORS)
    assert isinstance(connector, SinkOptions)
    if not isinstance(connector, FilesystemSinkOptions | KafkaSinkOptions):
        if syntax.format is not None:
            message = f"connector {connector.connector} has no FORMAT"
            raise error("TG406", message, text.at(syntax.format.format.span), "leave it out")
        guarded(text, guard, syntax.options, whole, connector, None, None)
        return connector, None
    if syntax.format is None:
        *others, last = [name.upper() for name in connector.encodings]
        hint = f"FORMAT PLAIN ENCODE {', '.join(others)}{' or ' if others else ''}{last} after WITH (…)"
        raise error("TG403", f'sink "{syntax.name.text}" has no FORMAT', where, hint)
    format_ = read_format(text, syntax.format, connector)
    guarded(text, guard, syntax.options, whole, connector, syntax.format, format_)
    return connector, format_


def _key(
    text: Text, syntax: CreateSinkSyntax, key: Sequence[str], delivers: Sequence[CatalogColumn]
) -> tuple[str, ...]:
    """The columns of `key.columns`, by the names that they are delivered under. Raises TG407 for one that is not there,
    TG405 for one that is given twice."""
    where = text.at(_option(syntax, "key.columns").value_span)
    names = {column.name.casefold(): column.name for column in delivers}
    found: list[str] = []
    for name in key:
        column = names.get(name.casefold())
        if column is None:
            hint = did_you_mean(name, names.values()) or f"available columns: {', '.join(names.values())}"
            raise error("TG407", f'key.columns: there is no column "{name}"', where, hint)
        if column in found:
            raise error("TG405", f'key.columns: "{name}" is given twice', where)
        found.append(column)
    return tuple(found)


def _tells_apart(text: Text, syntax: CreateSinkSyntax, key: Sequence[str], view: View) -> None:
    """TG404 if two groups of a view can have the same key: the message of one would replace that of the other (B2). Of
    the columns that say the same about the window, one is enough."""
    bounds = {c.column for c in view.watermarks if c.low is not None and c.low == c.high}
    missing = [name for name in view.group_columns if name not in key and name not in bounds]
    one_of = [name for name in view.group_columns if name in bounds]
    if one_of and not bounds & set(key):
        missing.insert(0, one_of[0])
    if missing:
        what = f"key.columns: without {' and '.join(missing)}, rows of different groups have the same key"
        hint = f"write '{', '.join([*key, *missing])}': an amended row replaces the message with the same key"
        raise error("TG404", what, text.at(_option(syntax, "key.columns").value_span), hint)


def _option(syntax: CreateSinkSyntax, name: str) -> OptionSyntax:
    return next(o for o in syntax.options or () if o.name.text.lower() == name)


def _upstream(text: Text, name: Name, catalog: Catalog) -> str:
    where = text.at(name.span)
    found = catalog.get(name.text, where)
    if isinstance(found, SystemTable):
        hint = f"CREATE SINK … FROM {found.relation.name} delivers its on-time rows"
        raise error("TG215", f"{found.name} is a system table", where, hint)
    if isinstance(found, View):
        _refuse_open(f'the rows of "{found.name}" are never final', found, where)
    elif isinstance(found, Relation) and found.primary_key:
        hint = f"a view over {found.name} with EMIT ON WINDOW CLOSE has rows that never change"
        raise error(
            "TG351", f'the rows of "{found.name}" change by its PRIMARY KEY; {_APPEND_ONLY}', where, hint
        )
    return found.name


def _view(text: Text, syntax: CreateSinkSyntax, catalog: Catalog) -> View:
    """The query as a view, under a name that no statement can give."""
    assert syntax.query is not None
    assert syntax.query_span is not None
    create = CreateViewSyntax(
        syntax.span, syntax.description, syntax.name, False, syntax.query, syntax.query_span, syntax.emit
    )
    view = analyse_view(text, create, catalog)
    _refuse_open("the rows of this query are never final", view, text.at(syntax.query_span))
    # Only the query: other options of the sink make no other view (R4).
    definition = text.slice(syntax.query_span) + (" EMIT ON WINDOW CLOSE" if syntax.emit else "")
    return replace(view, name=f"{syntax.name.text}{VIEW_SUFFIX}", definition=definition)


def _refuse_open(what: str, view: View, where: Location) -> None:
    if view.clock is None:
        raise _open_rows(what, where)


def _open_rows(what: str, where: Location) -> TidegateError:
    return error("TG351", f"{what}; {_APPEND_ONLY}", where, _EMIT)
