"""What each analysed statement does in a session. One function per statement."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from tidegate.engine.insert import insert
from tidegate.engine.layout import quote
from tidegate.engine.result import Result
from tidegate.errors import TidegateError
from tidegate.sql import statements as st
from tidegate.sql.catalog import Relation, View
from tidegate.sql.types import display

if TYPE_CHECKING:
    from tidegate.engine.session import Session


def execute(session: Session, statement: object) -> Result:
    """Carry out one statement of `tidegate.sql.analysis.analyse`."""
    return _execute(statement, session)


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
    """A view over rows that are there already is filled at once, from the log's beginning (R5)."""
    from tidegate.engine.run import resolve, run_view

    view = statement.view
    if statement.exists:
        return Result(message=f"materialized view {view.name} exists already")
    resolve(session, view)
    session.catalog.add(view)
    session.project.save_definition(view.name, view.definition)
    if session.stored(view.upstream) is not None:
        run_view(session, view, lambda event: None)
    return Result(message=f"created materialized view {view.name}")


@_execute.register(st.InsertValues)
@_execute.register(st.InsertSelect)
def _(statement: st.InsertValues | st.InsertSelect, session: Session) -> Result:
    relation = session.relation(statement.table)
    _register(session, getattr(statement, "relations", ()))
    with session.lease(relation.name):
        event = insert(session.spark, session.log(relation), statement.spark_sql)
    parts = [f"{event.on_time} on time", f"{event.late} late", f"{event.rejected} rejected"]
    total = event.on_time + event.late + event.rejected
    return Result(message=f"inserted {total}: {', '.join(parts)}; watermark {event.watermark}")


@_execute.register(st.Flush)
def _(statement: st.Flush, session: Session) -> Result:
    """Closes what the watermarks allow, in every view whose upstream has a log."""
    from tidegate.engine.run import run_view

    closed = 0
    views = [v for v in session.catalog.views if session.stored(v.upstream) is not None]
    for view in views:
        closed += run_view(session, view, lambda event: None).groups
    rows = "1 row" if closed == 1 else f"{closed} rows"
    return Result(message=f"flushed {len(views)} view{'' if len(views) == 1 else 's'}: {rows} closed")


@_execute.register(st.Drop)
def _(statement: st.Drop, session: Session) -> Result:
    """Removes definition and data. What a file in assets/ defines starts anew at the next run."""
    name = statement.name
    if not statement.exists:
        return Result(message=f"{name} does not exist")
    found = session.catalog.get(name)
    # A file in assets/ goes on defining what is dropped: then only stored results stand in the way.
    views = session.catalog.readers(found.name)
    if not session.project.is_interactive(found.name):
        views = tuple(v for v in views if session.stored(v.name) is not None)
    readers = [v.name for v in views]
    if readers:
        raise TidegateError(
            "TG511",
            f'"{name}" is read by {", ".join(readers)}',
            hint=f"DROP MATERIALIZED VIEW {readers[0]} first",
        )
    with session.lease(found.name):
        session.forget(found.name)
    if session.project.drop_definition(found.name):
        session.catalog.drop(found.name)
        return Result(message=f"dropped {found.name}")
    where = found.location.file if found.location else "assets/"
    return Result(
        message=f"dropped the data of {found.name}; {where} still defines it, the next run starts anew"
    )


@_execute.register(st.Select)
def _(statement: st.Select, session: Session) -> Result:
    _register(session, statement.relations)
    frame = session.spark.sql(statement.spark_sql)
    return Result(columns=[(f.name, f.dataType.simpleString()) for f in frame.schema.fields], dataframe=frame)


@_execute.register(st.Show)
def _(statement: st.Show, session: Session) -> Result:
    catalog = session.catalog
    if statement.what == "create":
        found = catalog.get(statement.name)
        return Result([("name", "string"), ("create_sql", "string")], fixed=[(found.name, found.definition)])
    if statement.what == "columns":
        return _describe(session, statement.name)
    if statement.what == "materialized views":
        rows = [(v.name, v.upstream, v.emit_on_window_close) for v in catalog.views]
        names = [("name", "string"), ("upstream", "string"), ("emit_on_window_close", "boolean")]
        return Result(names, fixed=rows)
    found = [r for r in catalog.relations if f"{r.kind}s" == statement.what]
    rows = [(r.name, r.connector.connector if r.connector else None) for r in found]
    return Result([("name", "string"), ("connector", "string")], fixed=rows)


@_execute.register(st.Describe)
def _(statement: st.Describe, session: Session) -> Result:
    return _describe(session, statement.name)


@_execute.register(st.Explain)
def _(statement: st.Explain, session: Session) -> Result:
    from tidegate.plan.explain import explain

    what = statement.definition if statement.definition is not None else statement.name
    text = explain(session.catalog, what, namespace=session.project.env.warehouse.namespace)
    return Result([("plan", "string")], fixed=[(line,) for line in str(text).splitlines()])


def _describe(session: Session, name: str) -> Result:
    """Columns with their types as written, and what is special about them."""
    found = session.catalog.get(name)
    rows = []
    for column in found.columns:
        notes = []
        if isinstance(found, Relation):
            if found.watermark is not None and found.watermark.column == column.name:
                notes.append(f"watermark {found.watermark.expression}")
            if column.generated is not None:
                notes.append("generated")
        elif isinstance(found, View) and column.name in found.group_columns:
            notes.append("group key")
        rows.append((column.name, display(column.type), column.nullable, ", ".join(notes) or None))
    names = ("column", "type", "nullable", "notes")
    return Result([(n, "boolean" if n == "nullable" else "string") for n in names], fixed=rows)


def _register(session: Session, names: tuple[str, ...]) -> None:
    """Make relations and system tables visible to Spark SQL under their own names."""
    for name in names:
        session.table(name).createOrReplaceTempView(quote(name))
