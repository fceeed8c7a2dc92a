"""FROM: relations, views, CTEs, subqueries, window functions, gates inline, and their joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tidegate.errors import did_you_mean
from tidegate.sql.catalog.objects import Relation
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.functions import kind_of
from tidegate.sql.dialect.text import node_span
from tidegate.sql.grammar.parts import refuse_arguments
from tidegate.sql.resolve.flow import Flow, Reader, named, relation_name
from tidegate.sql.resolve.scope import name_location
from tidegate.sql.views.inline_gate import advisory_gate, inline_gate, watermark_call
from tidegate.sql.views.joins import join
from tidegate.sql.views.windows import through_window, window_function

_TABLE_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION", "WATERMARK")


@dataclass(frozen=True)
class Cte:
    """WITH name AS (query): read again wherever it is named, so that each place has inputs of its own."""

    name: str
    query: exp.Expr
    sees: Mapping[str, Cte]


Ctes = Mapping[str, Cte]
#: Reads a query inside of FROM, given the CTEs in its sight.
ReadQuery = Callable[[Reader, exp.Expr, Ctes], Flow]


def with_ctes(reader: Reader, query: exp.Expr, outer: Ctes) -> Ctes:
    """The CTEs in sight of a query: those outside, and its own, each seeing those before it."""
    text = reader.text
    with_ = query.args.get("with_")
    if with_ is None:
        return outer
    if with_.args.get("recursive"):
        raise unsupported("WITH RECURSIVE", text.at(node_span(with_)))
    seen = dict(outer)
    for cte in with_.expressions:
        if cte.args["alias"].args.get("columns"):
            where = text.at(node_span(cte.args["alias"]))
            raise unsupported(
                "a list of column names", where, "name the columns in the SELECT itself: SELECT x AS name"
            )
        seen[cte.alias.casefold()] = Cte(cte.alias, cte.this, dict(seen))
    return seen


def check_ctes(reader: Reader, query: exp.Expr, ctes: Ctes, read_query: ReadQuery) -> None:
    """CTEs that nobody names are checked all the same, and leave nothing behind."""
    with_ = query.args.get("with_")
    for cte in with_.expressions if with_ is not None else ():
        own = ctes[cte.alias.casefold()]
        read_query(Reader(reader.text, reader.catalog), own.query, own.sees)


def read_from(reader: Reader, select: exp.Select, ctes: Ctes, read_query: ReadQuery) -> Flow:
    """What stands in FROM, joined."""
    text = reader.text
    from_ = select.args.get("from_")
    if from_ is None:
        raise error("TG102", "this SELECT reads nothing", text.at(node_span(select)))
    source = _From(reader, ctes, read_query)
    flow = source.item(from_.this, "FROM")
    where = select.args.get("where")
    for node in [*(from_.this.args.get("joins") or ()), *(select.args.get("joins") or ())]:
        right = source.item(node.this, "JOIN")
        for part in (flow, right):
            refuse_over(reader, part, node.this, "OVER in event time below a JOIN")
        flow = join(reader, flow, right, node, where.this if where is not None else None)
    return flow


def refuse_over(reader: Reader, flow: Flow, node: exp.Expr, what: str) -> None:
    """TG343 where the result of OVER in event time, or of SESSION, goes into another operator of the same query."""
    if flow.over is not None:
        hint = "put the part with OVER into a view of its own, and read that view"
        raise error("TG343", f"{what} in one query", reader.text.at(node_span(node)), hint)
    if flow.open_sql is not None:
        hint = "put the part with SESSION into a view of its own, and read that view"
        raise error(
            "TG343",
            f"{what.replace('OVER in event time', 'SESSION')} in one query",
            reader.text.at(node_span(node)),
            hint,
        )


@dataclass(frozen=True)
class _From:
    """What reads FROM of one query: `ctes` are in its sight, `read_query` reads queries inside of it."""

    reader: Reader
    ctes: Ctes
    read_query: ReadQuery

    def item(self, node: exp.Expr, clause: str) -> Flow:
        text = self.reader.text
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.args.get("columns"):
            raise unsupported("a list of column names", text.at(node_span(alias)), "name them in the SELECT")
        if isinstance(node, exp.Subquery):
            refuse_arguments(text, node, ("this", "alias", "joins"))
            return named(self.read_query(self.reader, node.this, self.ctes), node.alias)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous):
            refuse_arguments(text, node, ("this", "alias", "joins"))
            return named(self._call(node), node.alias)
        if not isinstance(node, exp.Table):
            name = {"values": "VALUES", "unnest": "UNNEST", "lateral": "LATERAL"}.get(
                node.key, node.key.upper()
            )
            raise unsupported(f"{name} in {clause} of a view", text.at(node_span(node)))
        refuse_arguments(
            text,
            node,
            ("this", "db", "catalog", "alias", "joins", "version" if clause == "JOIN" else "alias"),
        )
        return named(self._named(node, clause), node.alias)

    def _call(self, table: exp.Table) -> Flow:
        if watermark_call(table) is not None:
            return self._gate(table.this)
        call = window_function(table)
        if call is None:
            name = table.this.name
            hint = did_you_mean(name, _TABLE_FUNCTIONS)
            where = name_location(self.reader.text, table.this)
            if hint is not None or kind_of(name) is None:
                raise error("TG209", f'there is no function "{name}"', where, hint)
            raise unsupported(f"{name} in FROM of a view", where)
        if not call.expressions:
            raise error(
                "TG310", f"{call.name.upper()} needs a relation", name_location(self.reader.text, call)
            )
        advisory = advisory_gate(self.reader.text, call, self.reader.catalog, self.ctes)
        if advisory is not None:
            flow = _judged(self.reader, advisory)
        else:
            flow = self._argument(call.expressions[0], call.name.upper())
        refuse_over(self.reader, flow, call, f"OVER in event time below {call.name.upper()}")
        return through_window(self.reader.text, call, flow, self.reader.window())

    def _argument(self, node: exp.Expr, function: str) -> Flow:
        """The relation that a window function goes over."""
        text = self.reader.text
        if isinstance(node, exp.Subquery):
            refuse_arguments(text, node, ("this", "alias"))
            return named(self.read_query(self.reader, node.this, self.ctes), node.alias)
        if (gate := watermark_call(node)) is not None:
            return self._gate(gate)
        if isinstance(node, exp.Anonymous) and node.name.upper() in _TABLE_FUNCTIONS:
            hint = f"{function}((SELECT … FROM {node.name.upper()}(…)), …)"
            where = name_location(text, node)
            raise error(
                "TG310", f"{node.name.upper()} is not allowed directly inside {function}", where, hint
            )
        return self._named(node, function)

    def _named(self, node: exp.Expr, clause: str) -> Flow:
        name = relation_name(self.reader.text, node, clause)
        cte = self.ctes.get(name.text.casefold())
        if cte is None:
            return self.reader.read(name)
        return named(self.read_query(self.reader, cte.query, cte.sees), cte.name)

    def _gate(self, call: exp.Anonymous) -> Flow:
        return _judged(self.reader, inline_gate(self.reader.text, call, self.reader.catalog, self.ctes))


def _judged(reader: Reader, gate: Relation) -> Flow:
    reader.gates[gate.name] = gate
    upstream = getattr(gate.connector, "relation", gate.name)
    return replace(reader.relation(gate), name=upstream)
