"""Ordinary queries: any Spark SQL over sources, tables, views and system tables. Relations and columns are
found here, with suggestions; the rest is Spark's.

Why not by `resolve/scope.py`, as in definitions: that resolver knows every column and its type, and refuses what it
does not know. A query may have columns that only Spark knows (PIVOT, LATERAL, functions that make columns) and
subqueries that see the columns around them; here a name that may be one is left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import Location, did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.dialect.attempts import cut_all
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.system_names import NAMES, absent_hint
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.resolve.hidden import (
    LogTable,
    is_current_watermark,
    leave_out,
    log_table,
    replace_current_watermark,
)
from tidegate.sql.resolve.scope import check_functions, name_location
from tidegate.sql.views.inline_gate import watermark_call
from tidegate.sql.views.windows import window_function

Columns = list[str] | None
"""Names of output columns; None if only Spark can tell."""


@dataclass
class Sources:
    """What FROM brings into sight, by the name it goes by; `open` if it may hold names that are not known. `logs`: what
    of it has the hidden columns of a log (`hidden.py`)."""

    columns: dict[str, Columns] = field(default_factory=dict)
    logs: dict[str, LogTable] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    aliases: set[str] = field(default_factory=set)
    shared: bool = False
    natural: bool = False

    def add(self, name: str, columns: Columns) -> None:
        self.columns[name.casefold()] = columns
        self.names[name.casefold()] = name

    @property
    def open(self) -> bool:
        return any(c is None for c in self.columns.values())

    def owners(self, column: str) -> list[str]:
        found = []
        for name, columns in self.columns.items():
            found += [name] * sum(c.casefold() == column.casefold() for c in columns or ())
        return found

    def all_names(self) -> list[str]:
        return [c for columns in self.columns.values() for c in columns or ()]


@dataclass
class QueryAnalysis:
    """Walks one query; `query` is rewritten in place so that relations have their catalog names.

    `relations`: what it reads; `hidden`: what it reads with hidden columns (W12, W14), as `hidden_name` calls it.
    """

    text: Text
    catalog: Catalog
    relations: dict[str, None] = field(default_factory=dict)
    hidden: dict[str, None] = field(default_factory=dict)
    _found: set[int] = field(default_factory=set)

    def run(self, query: exp.Expr) -> Columns:
        """The output columns. Raises TG201–TG203, TG207–TG209, TG102."""
        columns = self._query(query, {}, [])
        self._require_found(query)
        check_functions(self.text, query)
        cut_all(query)
        return columns

    def _require_found(self, query: exp.Expr) -> None:
        """Raise TG106 for a relation in a place that is not known here: Spark would look for it by itself, and take a
        path for a name (X1)."""
        for table in query.find_all(exp.Table):
            if id(table) not in self._found:
                where = self.text.at(node_span(table))
                raise unsupported("a relation in this place", where, "read it in FROM, or in a subquery")

    def _query(self, query: exp.Expr, ctes: Mapping[str, Columns], outer: list[Sources]) -> Columns:
        ctes = self._with(query, ctes, outer)
        if isinstance(query, exp.SetOperation):
            columns = self._query(query.this, ctes, outer)
            self._query(query.expression, ctes, outer)
            return columns
        if isinstance(query, exp.Subquery):
            return self._query(query.this, ctes, outer)
        if isinstance(query, exp.Select):
            return self._select(query, ctes, outer)
        if isinstance(query, exp.Values):
            self._inner(query.expressions, ctes, outer)
            first = query.expressions[0] if query.expressions else None
            width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
            return query.alias_column_names or [f"col{i + 1}" for i in range(width)]
        return None

    def _with(
        self, query: exp.Expr, ctes: Mapping[str, Columns], outer: list[Sources]
    ) -> Mapping[str, Columns]:
        with_ = query.args.get("with_")
        if with_ is None:
            return ctes
        seen = dict(ctes)
        for cte in with_.expressions:
            names = [c.name for c in cte.args["alias"].args.get("columns") or ()]
            if with_.args.get("recursive"):
                seen[cte.alias.casefold()] = names or None
            columns = self._query(cte.this, seen, outer)
            seen[cte.alias.casefold()] = names or columns
        return seen

    def _select(self, select: exp.Select, ctes: Mapping[str, Columns], outer: list[Sources]) -> Columns:
        sources = Sources()
        from_ = select.args.get("from_")
        tables = [from_.this] if from_ is not None else []
        for table in list(tables):
            tables += [j.this for j in table.args.get("joins") or ()]
        joins = select.args.get("joins") or []
        for table in tables:
            self._source(table, sources, ctes, outer)
        for join in joins:
            self._join(join, sources, ctes, outer)
        for lateral in select.args.get("laterals") or ():
            names = [
                c.name for c in (lateral.args.get("alias") or exp.TableAlias()).args.get("columns") or ()
            ]
            sources.add(lateral.alias or "lateral", names or None)
        sources.aliases = {i.alias.casefold() for i in select.expressions if isinstance(i, exp.Alias)}
        for node in self._own(select):
            if isinstance(node, exp.Query):
                self._query(node, ctes, [sources, *outer])
            elif isinstance(node, exp.Anonymous):
                self._current_watermark(node, sources, outer)
            elif isinstance(node, exp.Column):
                self._column(node, sources, outer)
        columns = self._output(select, sources)
        leave_out(select, sources.logs)
        return columns

    def _own(self, select: exp.Select) -> list[exp.Expr]:
        """Columns and subqueries of this SELECT itself: not of its sources, nor of queries inside it."""
        found: list[exp.Expr] = []

        def visit(node: exp.Expr) -> None:
            hit = isinstance(node, exp.Query | exp.Column) or is_current_watermark(node)
            if hit and node is not select:
                found.append(node)
                return
            for child in node.iter_expressions():
                skip = isinstance(node, exp.From | exp.Join) and child is node.this
                if not skip and not isinstance(child, exp.With):
                    visit(child)

        visit(select)
        return found

    def _source(
        self, table: exp.Expr, sources: Sources, ctes: Mapping[str, Columns], outer: list[Sources]
    ) -> None:
        alias = table.args.get("alias")
        names = [c.name for c in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
        if isinstance(table, exp.Lateral):
            if not isinstance(table.this, exp.Query | exp.Subquery | exp.Func):
                # The name of a relation is no exp.Table here, and would not be looked for.
                where = self.text.at(node_span(table.this))
                hint = "LATERAL stands before a subquery or a function; read a relation without it"
                raise unsupported("LATERAL before a relation", where, hint)
            sources.shared = True
            columns = (
                self._query(table.this, ctes, [sources, *outer])
                if isinstance(table.this, exp.Query)
                else None
            )
            if isinstance(table.this, exp.Subquery):
                columns = self._query(table.this, ctes, [sources, *outer])
            sources.add(table.alias or "lateral", names or columns)
            return
        if isinstance(table, exp.Table):
            name, columns = self._table(table, ctes, sources, outer)
        elif _is_in_brackets(table):
            self._in_brackets(table, names, sources, ctes, outer)
            return
        else:
            name, columns = table.alias, self._query(table, ctes, outer)
        if table.args.get("pivots") or any(k in table.args and table.args[k] for k in ("unpivot",)):
            columns = None
        self._inner(table.args.get("pivots") or (), ctes, outer)
        for join in table.args.get("joins") or ():
            self._join(join, sources, ctes, outer)
        sources.add(table.alias or name or f"_{len(sources.columns)}", names or columns)

    def _join(
        self, join: exp.Join, sources: Sources, ctes: Mapping[str, Columns], outer: list[Sources]
    ) -> None:
        sources.natural |= join.args.get("method") == "NATURAL"
        sources.shared |= bool(join.args.get("using") or join.args.get("method"))
        sources.shared |= "SEMI" in (join.side, join.kind) or "ANTI" in (join.side, join.kind)
        self._source(join.this, sources, ctes, outer)

    def _in_brackets(
        self,
        table: exp.Expr,
        names: list[str],
        sources: Sources,
        ctes: Mapping[str, Columns],
        outer: list[Sources],
    ) -> None:
        """`(a JOIN b ON …)`: in sight under their own names, or all together under the alias of the brackets."""
        within = Sources() if table.alias else sources
        self._source(table.this, within, ctes, outer)
        for join in table.args.get("joins") or ():
            self._join(join, sources, ctes, outer)
        if within is sources:
            return
        columns = [column for found in within.columns.values() for column in found or ()]
        known = not within.open and not within.shared
        sources.add(table.alias, names or (columns if known else None))

    def _inner(self, nodes: Iterable[exp.Expr], ctes: Mapping[str, Columns], outer: list[Sources]) -> None:
        """The subqueries among arguments and values, and in what is made of them."""
        for node in nodes:
            if isinstance(node, exp.Query):
                self._query(node, ctes, outer)
            else:
                self._inner(node.iter_expressions(), ctes, outer)

    def _table(
        self, table: exp.Table, ctes: Mapping[str, Columns], sources: Sources, outer: list[Sources]
    ) -> tuple[str, Columns]:
        call = window_function(table)
        if call is not None:
            hint = "use it in CREATE MATERIALIZED VIEW, then SELECT from the view"
            raise unsupported(
                f"{call.name.upper()} outside of a materialized view", name_location(self.text, call), hint
            )
        if (gate := watermark_call(table)) is not None:
            hint = "use it in CREATE MATERIALIZED VIEW, then SELECT from the view"
            where = name_location(self.text, gate)
            raise unsupported("WATERMARK outside of a materialized view", where, hint)
        self._found.add(id(table))
        if not isinstance(table.this, exp.Identifier):
            self._inner([table.this], ctes, outer)
            return table.alias, None
        where = self.text.at(node_span(table.this))
        if table.args.get("db"):
            raise error("TG201", "schema-qualified names are not supported", where, table.name)
        if table.name.casefold() in ctes:
            return table.name, ctes[table.name.casefold()]
        found = self.catalog.get(table.name, where)
        self.relations[found.name] = None
        meta = table.this.meta
        if not table.alias:
            # The query may go on calling it by the name as it was written.
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(found.name, quoted=True))
        table.this.meta.update(meta)
        if (log := log_table(found, table)) is not None:
            sources.logs[(table.alias or table.name).casefold()] = log
        return table.alias or table.name, [c.name for c in found.columns]

    def _current_watermark(self, call: exp.Anonymous, sources: Sources, outer: list[Sources]) -> None:
        """CURRENT_WATERMARK(col): the hidden column of the log that `col` belongs to (W14)."""
        where = name_location(self.text, call)
        (column,) = call.expressions if len(call.expressions) == 1 else (None,)
        if not isinstance(column, exp.Column):
            message = "CURRENT_WATERMARK takes one column"
            raise error("TG323", message, where, "CURRENT_WATERMARK(time_column)")
        self._column(column, sources, outer)
        qualifier = column.table.casefold()
        for scope in [sources, *outer]:
            owners = [qualifier] if qualifier in scope.columns else scope.owners(column.name)
            if owners:
                replace_current_watermark(self.text, call, column, scope.logs.get(owners[0]), owners[0])
                self._hide(scope, owners[0], where)
                return
        raise error("TG323", f'"{column.name}" carries no watermark here', where)

    def _hide(self, scope: Sources, name: str, where: Location) -> None:
        """Read a log with its hidden columns."""
        if scope.natural:
            raise unsupported("a hidden column beside NATURAL JOIN", where, "JOIN … USING (…)")
        self.hidden[scope.logs[name].hide()] = None

    def _hidden(self, column: exp.Column, sources: Sources, outer: list[Sources]) -> bool:
        """Whether this is `$rowtime` or its kin (W12), which logs have and no list of columns holds."""
        name = column.name.casefold()
        if name not in NAMES or len(column.parts) > 2:
            return False
        where = self.text.at(node_span(column))
        for scope in [sources, *outer]:
            owners = [column.table.casefold()] if column.table else list(scope.logs)
            owners = [o for o in owners if o in scope.logs and name in scope.logs[o].columns]
            if len(owners) > 1:
                hint = " or ".join(f"{scope.names[o]}.{name}" for o in owners)
                raise error("TG203", f'"{name}" is in more than one relation', where, hint)
            if owners:
                self._hide(scope, owners[0], where)
                column.this.replace(exp.to_identifier(name, quoted=True))
                return True
        raise error("TG202", f'there is no column "{name}" here', where, absent_hint(name))

    def _column(self, column: exp.Column, sources: Sources, outer: list[Sources]) -> None:
        first, scopes = column.parts[0], [sources, *outer]
        name = first.name
        if self._hidden(column, sources, outer):
            return
        if isinstance(column.this, exp.Star) and len(column.parts) == 1:
            return
        if len(column.parts) > 1:
            for scope in scopes:
                if name.casefold() not in scope.columns:
                    continue
                columns, second = scope.columns[name.casefold()], column.parts[1]
                if columns is None or isinstance(second, exp.Star):
                    return
                if second.name.casefold() not in (c.casefold() for c in columns):
                    hint = did_you_mean(second.name, columns)
                    message = f'there is no column "{second.name}" in "{scope.names[name.casefold()]}"'
                    raise error("TG202", message, self.text.at(node_span(second)), hint)
                return
        for scope in scopes:
            owners = scope.owners(name)
            if len(owners) > 1 and not scope.shared and not scope.open:
                hint = " or ".join(f"{scope.names[o]}.{name}" for o in dict.fromkeys(owners))
                where = self.text.at(node_span(first))
                raise error("TG203", f'"{name}" is in more than one relation', where, hint)
            if owners or name.casefold() in scope.aliases or scope.open:
                return
        names = [c for s in scopes for c in s.all_names()]
        if len(column.parts) > 1:
            names += [n for s in scopes for n in s.names.values()]
        kind = "relation or column" if len(column.parts) > 1 else "column"
        where = self.text.at(node_span(first))
        hint = did_you_mean(name, names)
        if hint is None and not names:
            hint = f"write strings in single quotes: '{name}'"
        raise error("TG202", f'there is no {kind} "{name}" here', where, hint)

    def _output(self, select: exp.Select, sources: Sources) -> Columns:
        columns: list[str] = []
        for item in select.expressions:
            if item.is_star:
                star = item.this if isinstance(item, exp.Column) else item
                if (
                    sources.open
                    or sources.shared
                    or any(star.args.get(k) for k in ("except_", "replace", "rename"))
                ):
                    return None
                chosen = [item.table.casefold()] if isinstance(item, exp.Column) else list(sources.columns)
                columns += [c for name in chosen for c in sources.columns.get(name) or ()]
            elif any(isinstance(f, exp.Anonymous) and f.name.lower() in GENERATORS for f in item.walk()):
                return None
            else:
                columns.append(item.alias_or_name)
        return columns


def _is_in_brackets(table: exp.Expr) -> bool:
    """Whether these are brackets around relations, and not a query."""
    if not isinstance(table, exp.Subquery):
        return False
    inner = table.this
    return isinstance(inner, exp.Table) or (
        isinstance(inner, exp.Subquery)
        and (_is_in_brackets(inner) or bool(inner.args.get("joins") or inner.alias))
    )


#: Functions that make several rows of one.
GENERATORS = (
    "inline",
    "inline_outer",
    "posexplode",
    "posexplode_outer",
    "stack",
    "explode",
    "explode_outer",
    "json_tuple",
)
