"""The queries that tidegate makes for Spark: syntax trees. Whose rows a query reads is a node of the tree, `Read`, so
that no text of a user's can be taken for it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.sql.dialect.dialect import Fragment, to_spark
from tidegate.sql.dialect.text import without_places

#: Roles: rows with the results of calls with OVER in event time, and what a gate inline is to judge.
OVER, SLICE = "over", "slice"


@dataclass(frozen=True, repr=False)
class Query:
    """A SELECT of Spark's, made once and never changed. Shown as text, `{role}` stands for what is read."""

    tree: exp.Select
    _spelled: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict, init=False, compare=False)

    def __getstate__(self) -> bytes:
        """The tree has most nodes of what is analysed. Most commands that take it from the cache never look at it."""
        packed: bytes | None = self.__dict__.get("packed")
        return packed or pickle.dumps(self.tree, protocol=5)

    def __setstate__(self, state: bytes) -> None:
        self.__dict__.update(_spelled={}, packed=state)

    def __getattr__(self, name: str) -> exp.Select:
        # (Threads that ask for it at the same time get equal trees.)
        if name != "tree" or "packed" not in self.__dict__:
            raise AttributeError(name)
        tree: exp.Select = pickle.loads(self.__dict__["packed"])
        self.__dict__["tree"] = tree
        return tree

    def spark_sql(self, names: Mapping[str, str]) -> str:
        """Its text, which reads the relation `names[role]` for each role. The same names give the same text, which is
        made once: a tick costs no walk through the tree."""
        key = tuple(names.items())
        if key not in self._spelled:
            self._spelled[key] = to_spark(self.tree, names)
        return self._spelled[key]

    def __str__(self) -> str:
        if () not in self._spelled:
            self._spelled[()] = to_spark(self.tree)
        return self._spelled[()]

    def __repr__(self) -> str:
        return repr(str(self))


def input_role(number: int) -> str:
    """The role of the rows of a view's input."""
    return f"input_{number}"


def own(sql: str) -> Fragment:
    """An expression of tidegate's own as an item of a tree."""
    return Fragment(this=sql)


def quoted_column(name: str) -> exp.Column:
    """A column by its exact name."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def called(node: exp.Expr, name: str) -> exp.Expr:
    """An item of SELECT: `node AS name`, or a column that is called so already."""
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name == name:
        return node
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def select_from(
    items: Iterable[exp.Expr],
    source: exp.Expr,
    where: exp.Expr | None = None,
    **clauses: exp.Expr | list[exp.Join] | None,
) -> exp.Select:
    """SELECT items FROM source WHERE …, and what else `clauses` say. A `source` may be read by several queries."""
    read = without_places(source) if source.parent else source
    found = exp.Select(expressions=list(items), from_=exp.From(this=read))
    if where is not None:
        found.set("where", exp.Where(this=where))
    for key, clause in clauses.items():
        found.set(key, clause)
    return found


def with_column(source: exp.Expr, name: str, value: exp.Expr, where: exp.Expr | None = None) -> exp.Subquery:
    """Everything of `source` and a column more, as an item of FROM."""
    return subquery(select_from([exp.Star(), called(value, name)], source, where))


def everything(source: exp.Expr) -> Query:
    """SELECT * of an item of FROM."""
    return Query(select_from([exp.Star()], source))


def subquery(query: exp.Select | exp.Union) -> exp.Subquery:
    """A query as an item of FROM."""
    return exp.Subquery(this=query)
