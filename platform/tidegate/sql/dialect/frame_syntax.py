"""Frames of OVER that sqlglot does not read or write as they are: SESSION WITH GAP, EXCLUDE, and the short forms."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Text, node_span

CURRENT_ROW = "CURRENT ROW"
SESSION = "SESSION"


class FrameParser(SparkParser):
    """`ROWS 2 PRECEDING` becomes `ROWS BETWEEN 2 PRECEDING AND CURRENT ROW`; `SESSION WITH GAP i` a frame of the kind
    SESSION that starts at `i`."""

    _gap: exp.Expr | None = None

    def _parse_partition_and_order(self) -> tuple[list[exp.Expr], exp.Expr | None]:
        parts = super()._parse_partition_and_order()
        if self._match_text_seq(SESSION, "WITH", "GAP"):
            self._gap = self._parse_bitwise()
            if self._gap is None:
                self.raise_error("Expected an INTERVAL")
        return parts

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        first = self._curr
        window = super()._parse_window(this, alias)
        gap, self._gap = self._gap, None
        if not isinstance(window, exp.Window) or window is this:
            return window
        if gap is not None:
            window.set("spec", self.expression(exp.WindowSpec(kind=SESSION, start=gap)))
        spec = window.args.get("spec")
        if spec is not None and gap is None and not spec.args.get("end"):
            spec.set("end", CURRENT_ROW)
        if first is not None and self._prev is not None:
            # What follows the call: what is wrong with a window is shown there.
            window.meta["over_span"] = (first.start, self._prev.end)
        return window


class FrameGenerator(SparkGenerator):
    """Writes what `FrameParser` reads."""

    SUPPORTS_WINDOW_EXCLUDE = True
    #: Spark takes WITH in a subquery, where it may hide a name of the query around it: it stays where it stands.
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Any]] = SparkGenerator.TRANSFORMS

    def windowspec_sql(self, expression: exp.WindowSpec) -> str:
        if expression.text("kind") == SESSION:
            return f"{SESSION} WITH GAP {self.sql(expression, 'start')}"
        return super().windowspec_sql(expression)

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        kind = expression.to
        if kind.args.get("nested") or kind.this is exp.DType.JSON or isinstance(expression.this, exp.Literal):
            return super().cast_sql(expression, safe_prefix)
        # What Spark's generator has of its own is for those above. To see that, it parses the word json each time.
        return Generator.cast_sql(self, expression, safe_prefix)


def refuse_frames(text: Text, node: exp.Expr) -> None:
    """TG362 for frames that Spark itself does not have: they are there for rows in event time, in a view."""
    for spec in node.find_all(exp.WindowSpec):
        kind = spec.text("kind").upper()
        what = (
            f"{kind} frames"
            if kind not in ("ROWS", "RANGE")
            else "EXCLUDE"
            if spec.args.get("exclude")
            else None
        )
        if what is not None:
            window = spec.find_ancestor(exp.Window)
            where = text.at(node_span(window if window is not None else spec))
            hint = "in a view, a watermark column comes first in ORDER BY"
            raise error("TG362", f"{what} is only allowed in a materialized view", where, hint)
