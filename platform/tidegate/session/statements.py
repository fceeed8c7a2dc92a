"""What each analysed statement does in a session. One function per statement."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, singledispatch
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.evolve.apply import open_log
from tidegate.iceberg.layout import quote
from tidegate.ingest.changes import change
from tidegate.ingest.insert import insert
from tidegate.runtime.result import Result, SinkReport
from tidegate.runtime.steps import Steps
from tidegate.session.alter import alter_column, alter_watermark, reset_watermark
from tidegate.session.describe import describe
from tidegate.session.dropping import ask_to_drop, drop_version
from tidegate.session.relations import frame_of
from tidegate.session.sink_statements import create_sink, drop_sink, refuse_delivered, show_sinks, shown
from tidegate.sinks.deliver import begin, deliver
from tidegate.sql.catalog.lineage import readers_of, sources_of
from tidegate.sql.catalog.objects import Sink, SystemTable, View, reads
from tidegate.sql.resolve.hidden import hidden_name
from tidegate.sql.statements import statements as st
from tidegate.views.retention import state_upkeep
from tidegate.views.versions.build import NEXT

if TYPE_CHECKING:
    from tidegate.runtime.context import Context
    from tidegate.sql.catalog.objects import Relation


def execute(context: Context, statement: object) -> Result:
    """Carry out one statement of `tidegate.sql.statements.analysis.analyse`. With `implicit_flush`, one that changes
    rows flushes too."""
    result = _execute(statement, context)
    if isinstance(statement, st.CHANGES) and context.settings.implicit_flush:
        flushed = _execute(st.Flush(), context)
        result = replace(result, message=f"{result.message}; {flushed.message}")
    return result


@singledispatch
def _execute(statement: object, context: Context) -> Result:
    raise AssertionError(f"no execution for {type(statement).__name__}")


@_execute.register(st.CreateRelation)
def _(statement: st.CreateRelation, context: Context) -> Result:
    relation = statement.relation
    if statement.exists:
        return Result(message=f"{relation.kind} {relation.name} exists already")
    context.catalog.add(relation)
    context.project.save_definition(relation.name, relation.definition)
    return Result(message=f"created {relation.kind} {relation.name}")


@_execute.register(st.CreateView)
def _(statement: st.CreateView, context: Context) -> Result:
    """A view over rows that are there already is filled at once, from the beginning of its inputs (R5)."""
    from tidegate.session.run import refresh, resolve

    view = statement.view
    if statement.exists:
        return Result(message=f"materialized view {view.name} exists already")
    context.catalog.add(view)
    try:
        resolve(context, view)
    except Exception:
        context.catalog.drop(view.name)
        raise
    context.project.save_definition(view.name, view.definition)
    if _has_rows(context, view):
        refresh(context, view)
    return Result(message=f"created materialized view {view.name}")


@_execute.register(st.CreateSink)
def _(statement: st.CreateSink, context: Context) -> Result:
    return create_sink(context, statement)


@_execute.register(st.AlterWatermark)
def _(statement: st.AlterWatermark, context: Context) -> Result:
    return alter_watermark(context, statement)


@_execute.register(st.AlterColumn)
def _(statement: st.AlterColumn, context: Context) -> Result:
    return alter_column(context, statement)


@_execute.register(st.ResetWatermark)
def _(statement: st.ResetWatermark, context: Context) -> Result:
    return reset_watermark(context, statement)


@_execute.register(st.InsertValues)
@_execute.register(st.InsertSelect)
def _(statement: st.InsertValues | st.InsertSelect, context: Context) -> Result:
    relation = context.relation(statement.table)
    _register(context, getattr(statement, "relations", ()), getattr(statement, "hidden", ()))
    with context.lease(relation.name):
        event = insert(context.spark, open_log(context, relation), statement.spark_sql, context.clock())
    parts = [f"{event.on_time} on time", f"{event.late} late", f"{event.rejected} rejected"]
    total = event.on_time + event.late + event.rejected
    text = f"inserted {total}: {', '.join(parts)}; watermark {event.watermark}"
    return Result(message=text, count=total)


@_execute.register(st.Change)
def _(statement: st.Change, context: Context) -> Result:
    return change(
        context, statement, lambda: _register(context, statement.relations, statement.hidden), open_log
    )


@_execute.register(st.SetSetting)
def _(statement: st.SetSetting, context: Context) -> Result:
    if statement.value is None:
        notice = context.settings.reset(statement.name)
        return Result(message="RESET", notice=notice)
    assert statement.name is not None
    return Result(message="SET", notice=context.settings.set(statement.name, statement.value))


@_execute.register(st.ShowSettings)
def _(statement: st.ShowSettings, context: Context) -> Result:
    if statement.name is not None:
        return Result([(statement.name, "string")], fixed=[(context.settings.text(statement.name),)])
    names = [("name", "string"), ("setting", "string"), ("description", "string")]
    return Result(names, fixed=list(context.settings.rows()))


@_execute.register(st.Flush)
def _(statement: st.Flush, context: Context) -> Result:
    """Closes what the watermarks allow, in every view whose inputs have rows, each after the views that it reads. What
    fails is raised when all the others are done."""
    from tidegate.session.run import refresh

    steps, catalog = Steps(), context.catalog
    closed: list[int] = []
    delivered: list[SinkReport] = []
    for sink in catalog.sinks:
        # One that a file defines, and that nobody has seen yet, begins here.
        steps.do(sink, partial(begin, context, sink))

    def close(view: View) -> None:
        closed.append(refresh(context, view).groups)

    def send(sink: Sink) -> None:
        delivered.append(deliver(context, sink, shown(context)))

    for view in catalog.order():
        if isinstance(view, View) and _has_rows(context, view):
            steps.do(view, partial(close, view))
    for sink in catalog.sinks:
        steps.do(sink, partial(send, sink))
    for relation in catalog.relations:
        steps.do(relation, partial(state_upkeep, context, [relation]))
    rows = "1 row" if sum(closed) == 1 else f"{sum(closed)} rows"
    message = f"flushed {len(closed)} view{'' if len(closed) == 1 else 's'}: {rows} closed"
    message += "".join(f"; {r.name}: {r.rows} delivered" for r in delivered if r.rows)
    steps.raise_first(message if closed or delivered else None)
    return Result(message=message)


@_execute.register(st.Drop)
def _(statement: st.Drop, context: Context) -> Result:
    """Removes definition and data. What a file in assets/ defines starts anew at the next run."""
    name = statement.name
    if not statement.exists:
        return Result(message=f"{name} does not exist")
    if name in context.catalog.sinks:
        return drop_sink(context, name, statement.location)
    found = context.catalog.get(name)
    if isinstance(found, SystemTable):
        return drop_version(context, found, statement.location)
    context.require_own(found.name)
    refuse_delivered(context, found.name)
    # A file in assets/ goes on defining what is dropped: then only stored results stand in the way.
    views = tuple(v for v in readers_of(context.catalog, found.name) if "$" not in v.name)
    if not context.project.is_interactive(found.name):
        views = tuple(v for v in views if context.stored(v.name) is not None)
    readers = [v.name for v in views]
    if readers:
        raise TidegateError(
            "TG511",
            f'"{name}" is read by {", ".join(readers)}',
            hint=f"DROP MATERIALIZED VIEW {readers[0]} first",
        )
    gates = orphaned_gates(context, found)
    with context.lease(found.name), context.lease(found.name, NEXT):
        ask_to_drop(context, found.name, [found.name, *gates], statement.location)
        context.forget(found.name)
    for gate in gates:
        context.forget(gate)
    if context.project.drop_definition(found.name):
        context.catalog.drop(found.name)
        return Result(message=f"dropped {found.name}")
    where = found.location.file if found.location else "assets/"
    return Result(
        message=f"dropped the data of {found.name}; {where} still defines it, and the next run begins again"
    )


@_execute.register(st.Select)
def _(statement: st.Select, context: Context) -> Result:
    _register(context, statement.relations, statement.hidden)
    frame = context.spark.sql(statement.spark_sql)
    return Result(columns=[(f.name, f.dataType.simpleString()) for f in frame.schema.fields], dataframe=frame)


@_execute.register(st.Show)
def _(statement: st.Show, context: Context) -> Result:
    catalog = context.catalog
    if statement.what == "sinks":
        return show_sinks(context)
    if statement.what == "create":
        assert statement.name is not None
        found = catalog.sinks.find(statement.name) or catalog.get(statement.name)
        assert not isinstance(found, SystemTable)  # TG215
        return Result([("name", "string"), ("create_sql", "string")], fixed=[(found.name, found.definition)])
    if statement.what == "columns":
        assert statement.name is not None
        return describe(catalog, statement.name, extended=False)
    if statement.what == "materialized views":
        views = [(v.name, ", ".join(v.reads), v.emit_on_window_close) for v in catalog.views]
        names = [("name", "string"), ("reads", "string"), ("emit_on_window_close", "boolean")]
        return Result(names, fixed=views)
    relations = [r for r in catalog.relations if f"{r.kind}s" == statement.what]
    rows = [(r.name, r.connector.connector if r.connector else None) for r in relations]
    return Result([("name", "string"), ("connector", "string")], fixed=rows)


@_execute.register(st.Describe)
def _(statement: st.Describe, context: Context) -> Result:
    return describe(context.catalog, statement.name, statement.extended)


@_execute.register(st.Explain)
def _(statement: st.Explain, context: Context) -> Result:
    from tidegate.plan.explain import explain
    from tidegate.runtime.kafka_reading import read_by

    what = statement.definition if statement.definition is not None else statement.name
    project = context.project
    reading = partial(read_by, master=project.env.spark.master)
    text = explain(context.catalog, what, namespace=project.storage.namespace_of, reading=reading)
    return Result([("plan", "string")], fixed=[(line,) for line in str(text).splitlines()])


def orphaned_gates(context: Context, dropped: Relation | View | SystemTable) -> list[str]:
    """The implicit relations of WATERMARK(…) whose logs go with what is dropped: those of a view that no other view
    with results reads, and those that stand on a source or table."""
    catalog = context.catalog
    if isinstance(dropped, View):
        gates = [g.name for g in dropped.gates]
    else:
        gates = [g.name for v in catalog.views for g in v.gates if dropped.name in reads(g)]
    return [
        gate
        for gate in dict.fromkeys(gates)
        if context.stored(gate) is not None
        and not any(v.name != dropped.name and context.stored(v.name) for v in catalog.readers(gate))
    ]


def _has_rows(context: Context, view: View) -> bool:
    """Whether anything that the view's rows come from is stored."""
    return any(context.stored(o.name) is not None for o in sources_of(context.catalog, view))


def _register(context: Context, names: tuple[str, ...], hidden: tuple[str, ...] = ()) -> None:
    """Make relations and system tables visible to Spark SQL under their own names."""
    for name in names:
        frame_of(context, name).createOrReplaceTempView(quote(name))
    for name in hidden:
        frame_of(context, name, hidden=True).createOrReplaceTempView(quote(hidden_name(name)))
