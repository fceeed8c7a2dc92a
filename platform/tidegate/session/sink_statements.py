"""What CREATE SINK, DROP SINK and SHOW SINKS do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.plan.events import Event, RowsDelivered
from tidegate.runtime.result import Result
from tidegate.session.dropping import ask_to_drop
from tidegate.sinks.deliver import begin, deliver, forget
from tidegate.sinks.upstream import Upstream
from tidegate.sql.catalog.lineage import reads_of
from tidegate.sql.catalog.objects import View
from tidegate.sql.statements import statements as st
from tidegate.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.errors import Location
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Sink


def create_sink(context: Context, statement: st.CreateSink) -> Result:
    """Define it, and deliver what is final already, unless it does not want that."""
    from tidegate.session.run import refresh, resolve

    sink = statement.sink
    if statement.exists:
        return Result(message=f"sink {sink.name} exists already")
    context.require_own(sink.name)
    context.borrowed.refuse(sink)
    if sink.view is not None:
        resolve(context, sink.view)
    context.catalog.add_sink(sink)
    try:
        if sink.view is not None and _has_input(context, sink.view):
            refresh(context, sink.view)
        begin(context, sink)
        report = deliver(context, sink, shown(context))
    except BaseException:
        # A place that it can't deliver into, say: the statement failed as a whole.
        _forget_view(context, sink)
        context.catalog.drop_sink(sink.name)
        raise
    context.project.save_definition(sink.name, sink.definition)
    delivered = f": {counted(report.rows, 'row')} delivered" if report.rows else ""
    return Result(message=f"created sink {sink.name}{delivered}")


def drop_sink(context: Context, name: str, location: Location | None) -> Result:
    """Forget definition and position; what was delivered stays where it is."""
    sink = context.catalog.sinks.find(name)
    assert sink is not None
    if sink.view is not None:
        context.require_own(sink.view.name)
        ask_to_drop(context, sink.name, [sink.view.name], location)
    forget(context, sink)
    _forget_view(context, sink)
    if context.project.drop_definition(sink.name):
        context.catalog.drop_sink(sink.name)
        return Result(message=f"dropped sink {sink.name}; the rows that it delivered are kept")
    where = sink.location.file if sink.location else "assets/"
    return Result(message=f"dropped the position of {sink.name}; {where} still defines it")


def refuse_delivered(context: Context, name: str) -> None:
    """TG511 where a sink stands in the way of a DROP: rows that come again would be delivered again."""
    catalog = context.catalog
    of_queries = [s for s in catalog.sinks if s.view is not None and s.view in catalog.readers(name)]
    sinks = [*catalog.sinks.of(name), *of_queries]
    if not context.project.is_interactive(name):
        # A file in assets/ goes on defining what is dropped: then only a position stands in the way.
        sinks = [sink for sink in sinks if Upstream.of(context, sink) is not None]
    if sinks:
        raise TidegateError(
            "TG511",
            f'"{name}" is delivered by {", ".join(sink.name for sink in sinks)}',
            hint=f"DROP SINK {sinks[0].name} first",
        )


def show_sinks(context: Context) -> Result:
    """What SHOW SINKS answers."""
    names = [("name", "string"), ("delivers", "string"), ("connector", "string")]
    return Result(names, fixed=[_shown_sink(context, s) for s in context.catalog.sinks])


def _forget_view(context: Context, sink: Sink) -> None:
    """The results of the sink's own query, and the implicit relations that nobody else reads (W14)."""
    if sink.view is None:
        return
    context.forget(sink.view.name)
    for gate in sink.view.gates:
        if context.catalog.readers(gate.name) == (sink.view,):
            context.forget(gate.name)


def _shown_sink(context: Context, sink: Sink) -> tuple[str, str, str]:
    delivers = ", ".join(o.name for o in reads_of(context.catalog, sink))
    return sink.name, delivers, sink.connector.connector


def shown(context: Context) -> Callable[[Event], None] | None:
    """The listener for the rows of console sinks; a statement says the rest in its message."""
    listener = context.listener
    if listener is None:
        return None
    return lambda event: listener(event) if isinstance(event, RowsDelivered) else None


def _has_input(context: Context, view: View) -> bool:
    from tidegate.sql.catalog.lineage import sources_of

    return any(context.stored(o.name) is not None for o in sources_of(context.catalog, view))
