"""What each analysed statement does in a session. One function per statement."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, singledispatch
from typing import TYPE_CHECKING

from tidegate.engine.alter import alter_watermark, reset_watermark
from tidegate.engine.changes import change
from tidegate.engine.describe import describe
from tidegate.engine.dropping import ask_to_drop
from tidegate.engine.insert import insert
from tidegate.engine.layout import quote
from tidegate.engine.result import Result, SinkReport
from tidegate.engine.retention import tidy
from tidegate.engine.sinks.deliver import begin, deliver
from tidegate.engine.sinks.statements import create_sink, drop_sink, refuse_delivered, show_sinks, shown
from tidegate.engine.steps import Steps
from tidegate.errors import TidegateError
from tidegate.sql import statements as st
from tidegate.sql.catalog.objects import View, reads
from tidegate.sql.hidden import hidden_name
from tidegate.sql.lineage import readers_of, sources_of

if TYPE_CHECKING:
    from tidegate.engine.session import Session
    from tidegate.sql.catalog.objects import Relation, SystemTable


def execute(session: Session, statement: object) -> Result:
    """Carry out one statement of `tidegate.sql.analysis.analyse`. With `implicit_flush`, one that changes rows
    flushes too."""
    result = _execute(statement, session)
    if isinstance(statement, st.CHANGES) and session.settings.implicit_flush:
        flushed = _execute(st.Flush(), session)
        result = replace(result, message=f"{result.message}; {flushed.message}")
    return result


@singledispatch
def _execute(statement: object, session: Session) -> Result:
    raise AssertionError(f"no execution for {type(statement).__name__}")


@_execute.register(st.CreateRelation)
def _(statement: st.CreateRelation, session: Session) -> Result:
    relation = statement.relation
    if statement.exists:
        return Result(message=f"{relation.kind} {relation.name} exists already")
    session.catalog.add(relation)
    session.project.save_definition(relation.name, relation.definition)
    return Result(message=f"created {relation.kind} {relation.name}")


@_execute.register(st.CreateView)
def _(statement: st.CreateView, session: Session) -> Result:
    """A view over rows that are there already is filled at once, from the beginning of its inputs (R5)."""
    from tidegate.engine.run import refresh, resolve

    view = statement.view
    if statement.exists:
        return Result(message=f"materialized view {view.name} exists already")
    session.catalog.add(view)
    try:
        resolve(session, view)
    except Exception:
        session.catalog.drop(view.name)
        raise
    session.project.save_definition(view.name, view.definition)
    if _has_rows(session, view):
        refresh(session, view)
    return Result(message=f"created materialized view {view.name}")


@_execute.register(st.CreateSink)
def _(statement: st.CreateSink, session: Session) -> Result:
    return create_sink(session, statement)


@_execute.register(st.AlterWatermark)
def _(statement: st.AlterWatermark, session: Session) -> Result:
    return alter_watermark(session, statement)


@_execute.register(st.ResetWatermark)
def _(statement: st.ResetWatermark, session: Session) -> Result:
    return reset_watermark(session, statement)


@_execute.register(st.InsertValues)
@_execute.register(st.InsertSelect)
def _(statement: st.InsertValues | st.InsertSelect, session: Session) -> Result:
    relation = session.relation(statement.table)
    _register(session, getattr(statement, "relations", ()), getattr(statement, "hidden", ()))
    with session.lease(relation.name):
        event = insert(session.spark, session.log(relation), statement.spark_sql)
    parts = [f"{event.on_time} on time", f"{event.late} late", f"{event.rejected} rejected"]
    total = event.on_time + event.late + event.rejected
    text = f"inserted {total}: {', '.join(parts)}; watermark {event.watermark}"
    return Result(message=text, count=total)


@_execute.register(st.Change)
def _(statement: st.Change, session: Session) -> Result:
    return change(session, statement, lambda: _register(session, statement.relations, statement.hidden))


@_execute.register(st.SetSetting)
def _(statement: st.SetSetting, session: Session) -> Result:
    if statement.value is None:
        notice = session.settings.reset(statement.name)
        return Result(message="RESET", notice=notice)
    assert statement.name is not None
    return Result(message="SET", notice=session.settings.set(statement.name, statement.value))


@_execute.register(st.ShowSettings)
def _(statement: st.ShowSettings, session: Session) -> Result:
    if statement.name is not None:
        return Result([(statement.name, "string")], fixed=[(session.settings.text(statement.name),)])
    names = [("name", "string"), ("setting", "string"), ("description", "string")]
    return Result(names, fixed=list(session.settings.rows()))


@_execute.register(st.Flush)
def _(statement: st.Flush, session: Session) -> Result:
    """Closes what the watermarks allow, in every view whose inputs have rows, each after the views that it reads. What
    fails is raised when all the others are done."""
    from tidegate.engine.run import refresh

    steps, catalog = Steps(), session.catalog
    closed: list[int] = []
    delivered: list[SinkReport] = []
    for sink in catalog.sinks:
        # One that a file defines, and that nobody has seen yet, begins here.
        steps.do(sink, partial(begin, session, sink))
    for view in catalog.order():
        if isinstance(view, View) and _has_rows(session, view):
            steps.do(view, lambda view=view: closed.append(refresh(session, view).groups))
    for sink in catalog.sinks:
        steps.do(sink, lambda sink=sink: delivered.append(deliver(session, sink, shown(session))))
    for relation in catalog.relations:
        steps.do(relation, partial(tidy, session, [relation]))
    rows = "1 row" if sum(closed) == 1 else f"{sum(closed)} rows"
    message = f"flushed {len(closed)} view{'' if len(closed) == 1 else 's'}: {rows} closed"
    message += "".join(f"; {r.name}: {r.rows} delivered" for r in delivered if r.rows)
    steps.raise_first(message if closed or delivered else None)
    return Result(message=message)


@_execute.register(st.Drop)
def _(statement: st.Drop, session: Session) -> Result:
    """Removes definition and data. What a file in assets/ defines starts anew at the next run."""
    name = statement.name
    if not statement.exists:
        return Result(message=f"{name} does not exist")
    if name in session.catalog.sinks:
        return drop_sink(session, name, statement.location)
    found = session.catalog.get(name)
    session.require_own(found.name)
    refuse_delivered(session, found.name)
    # A file in assets/ goes on defining what is dropped: then only stored results stand in the way.
    views = tuple(v for v in readers_of(session.catalog, found.name) if "$" not in v.name)
    if not session.project.is_interactive(found.name):
        views = tuple(v for v in views if session.stored(v.name) is not None)
    readers = [v.name for v in views]
    if readers:
        raise TidegateError(
            "TG511",
            f'"{name}" is read by {", ".join(readers)}',
            hint=f"DROP MATERIALIZED VIEW {readers[0]} first",
        )
    gates = orphaned_gates(session, found)
    with session.lease(found.name):
        ask_to_drop(session, found.name, [found.name, *gates], statement.location)
        session.forget(found.name)
    for gate in gates:
        session.forget(gate)
    if session.project.drop_definition(found.name):
        session.catalog.drop(found.name)
        return Result(message=f"dropped {found.name}")
    where = found.location.file if found.location else "assets/"
    return Result(
        message=f"dropped the data of {found.name}; {where} still defines it, the next run starts anew"
    )


@_execute.register(st.Select)
def _(statement: st.Select, session: Session) -> Result:
    _register(session, statement.relations, statement.hidden)
    frame = session.spark.sql(statement.spark_sql)
    return Result(columns=[(f.name, f.dataType.simpleString()) for f in frame.schema.fields], dataframe=frame)


@_execute.register(st.Show)
def _(statement: st.Show, session: Session) -> Result:
    catalog = session.catalog
    if statement.what == "sinks":
        return show_sinks(session)
    if statement.what == "create":
        found = catalog.sinks.find(statement.name) or catalog.get(statement.name)
        return Result([("name", "string"), ("create_sql", "string")], fixed=[(found.name, found.definition)])
    if statement.what == "columns":
        return describe(catalog, statement.name, extended=False)
    if statement.what == "materialized views":
        rows = [(v.name, ", ".join(v.reads), v.emit_on_window_close) for v in catalog.views]
        names = [("name", "string"), ("reads", "string"), ("emit_on_window_close", "boolean")]
        return Result(names, fixed=rows)
    found = [r for r in catalog.relations if f"{r.kind}s" == statement.what]
    rows = [(r.name, r.connector.connector if r.connector else None) for r in found]
    return Result([("name", "string"), ("connector", "string")], fixed=rows)


@_execute.register(st.Describe)
def _(statement: st.Describe, session: Session) -> Result:
    return describe(session.catalog, statement.name, statement.extended)


@_execute.register(st.Explain)
def _(statement: st.Explain, session: Session) -> Result:
    from tidegate.plan.explain import explain

    what = statement.definition if statement.definition is not None else statement.name
    text = explain(session.catalog, what, namespace=session.project.storage.namespace_of)
    return Result([("plan", "string")], fixed=[(line,) for line in str(text).splitlines()])


def orphaned_gates(session: Session, dropped: Relation | View | SystemTable) -> list[str]:
    """The implicit relations of WATERMARK(…) whose logs go with what is dropped: those of a view that no other view
    with results reads, and those that stand on a source or table."""
    catalog = session.catalog
    if isinstance(dropped, View):
        gates = [g.name for g in dropped.gates]
    else:
        gates = [g.name for v in catalog.views for g in v.gates if dropped.name in reads(g)]
    return [
        gate
        for gate in dict.fromkeys(gates)
        if session.stored(gate) is not None
        and not any(v.name != dropped.name and session.stored(v.name) for v in catalog.readers(gate))
    ]


def _has_rows(session: Session, view: View) -> bool:
    """Whether anything that the view's rows come from is stored."""
    return any(session.stored(o.name) is not None for o in sources_of(session.catalog, view))


def _register(session: Session, names: tuple[str, ...], hidden: tuple[str, ...] = ()) -> None:
    """Make relations and system tables visible to Spark SQL under their own names."""
    for name in names:
        session.table(name).createOrReplaceTempView(quote(name))
    for name in hidden:
        session.table(name, hidden=True).createOrReplaceTempView(quote(hidden_name(name)))
