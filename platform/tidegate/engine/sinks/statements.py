"""What CREATE SINK, DROP SINK and SHOW SINKS do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.engine.dropping import ask_to_drop
from tidegate.engine.result import Result
from tidegate.engine.sinks.deliver import begin, deliver, forget
from tidegate.engine.sinks.upstream import Upstream
from tidegate.errors import TidegateError
from tidegate.plan.events import Event, RowsDelivered
from tidegate.sql import statements as st
from tidegate.sql.catalog.objects import View
from tidegate.sql.lineage import reads_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.engine.session import Session
    from tidegate.errors import Location
    from tidegate.sql.catalog.objects import Sink


def create_sink(session: Session, statement: st.CreateSink) -> Result:
    """Define it, and deliver what is final already, unless it does not want that."""
    from tidegate.engine.run import refresh, resolve

    sink = statement.sink
    if statement.exists:
        return Result(message=f"sink {sink.name} exists already")
    session.require_own(sink.name)
    session.borrowed.refuse(sink)
    if sink.view is not None:
        resolve(session, sink.view)
    session.catalog.add_sink(sink)
    try:
        if sink.view is not None and _has_input(session, sink.view):
            refresh(session, sink.view)
        begin(session, sink)
        report = deliver(session, sink, shown(session))
    except BaseException:
        # A place that it can't deliver into, say: the statement failed as a whole.
        _forget_view(session, sink)
        session.catalog.drop_sink(sink.name)
        raise
    session.project.save_definition(sink.name, sink.definition)
    delivered = f": {_rows(report.rows)} delivered" if report.rows else ""
    return Result(message=f"created sink {sink.name}{delivered}")


def drop_sink(session: Session, name: str, location: Location | None) -> Result:
    """Forget definition and position; what was delivered stays where it is."""
    sink = session.catalog.sinks.find(name)
    assert sink is not None
    if sink.view is not None:
        session.require_own(sink.view.name)
        ask_to_drop(session, sink.name, [sink.view.name], location)
    forget(session, sink)
    _forget_view(session, sink)
    if session.project.drop_definition(sink.name):
        session.catalog.drop_sink(sink.name)
        return Result(message=f"dropped sink {sink.name}; what it delivered stays")
    where = sink.location.file if sink.location else "assets/"
    return Result(message=f"dropped the position of {sink.name}; {where} still defines it")


def refuse_delivered(session: Session, name: str) -> None:
    """TG511 where a sink stands in the way of a DROP: rows that come again would be delivered again."""
    catalog = session.catalog
    of_queries = [s for s in catalog.sinks if s.view is not None and s.view in catalog.readers(name)]
    sinks = [*catalog.sinks.of(name), *of_queries]
    if not session.project.is_interactive(name):
        # A file in assets/ goes on defining what is dropped: then only a position stands in the way.
        sinks = [sink for sink in sinks if Upstream.of(session, sink) is not None]
    if sinks:
        raise TidegateError(
            "TG511",
            f'"{name}" is delivered by {", ".join(sink.name for sink in sinks)}',
            hint=f"DROP SINK {sinks[0].name} first",
        )


def show_sinks(session: Session) -> Result:
    """What SHOW SINKS answers."""
    names = [("name", "string"), ("delivers", "string"), ("connector", "string")]
    return Result(names, fixed=[_shown_sink(session, s) for s in session.catalog.sinks])


def _forget_view(session: Session, sink: Sink) -> None:
    """The results of the sink's own query, and the implicit relations that nobody else reads (W14)."""
    if sink.view is None:
        return
    session.forget(sink.view.name)
    for gate in sink.view.gates:
        if session.catalog.readers(gate.name) == (sink.view,):
            session.forget(gate.name)


def _shown_sink(session: Session, sink: Sink) -> tuple[str, str, str]:
    delivers = ", ".join(o.name for o in reads_of(session.catalog, sink))
    return sink.name, delivers, sink.connector.connector


def shown(session: Session) -> Callable[[Event], None] | None:
    """The session's listener for the rows of console sinks; a statement says the rest in its message."""
    listener = session.listener
    if listener is None:
        return None
    return lambda event: listener(event) if isinstance(event, RowsDelivered) else None


def _has_input(session: Session, view: View) -> bool:
    from tidegate.sql.lineage import sources_of

    return any(session.stored(o.name) is not None for o in sources_of(session.catalog, view))


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"
