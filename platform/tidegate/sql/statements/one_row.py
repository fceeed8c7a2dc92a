"""Queries that read nothing: Spark computes them while it plans, if they have a FROM that it can see through."""

from __future__ import annotations

from sqlglot import exp, parse_one


def with_one_row(query: exp.Expr) -> exp.Expr:
    """The query with `FROM VALUES (0)` where a SELECT has no FROM: the same rows, and no Spark job for them."""
    for select in list(query.find_all(exp.Select)):
        if not select.args.get("from_") and not select.args.get("laterals"):
            select.set("from_", parse_one("SELECT 1 FROM VALUES (0)", dialect="spark").args["from_"])
    return query
