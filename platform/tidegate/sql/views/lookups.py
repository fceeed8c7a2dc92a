"""JOIN with a table that is looked up as it is when a row is processed: which side that is, and why it may not be."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from tidegate.sql.catalog.lineage import sources_of
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.codes import error, unsupported
from tidegate.sql.dialect.text import Text, node_span
from tidegate.sql.grammar.parts import keyword_location
from tidegate.sql.resolve.flow import Flow, Reader, losing
from tidegate.sql.resolve.scope import LostWatermark


def lookup_side(reader: Reader, node: exp.Join, left: Flow, right: Flow) -> str | None:
    """ "right" or "left" for the side that is looked up: it has no time of its own, or the join says so. Raises TG345
    where a side has a time and lost its watermark: what it holds then depends on when the other side's rows come."""
    if isinstance(node.this, exp.Table) and node.this.args.get("version") is not None:
        _check_clock(reader.text, node.this)
        return "right"
    if bool(left.carriers()) is bool(right.carriers()):
        return None
    side, table = ("right", right) if left.carriers() else ("left", left)
    timed = next((name for number in table.reads if (name := _timed_input(reader, number)) is not None), None)
    if timed is not None:
        what = f'no column of "{table.name}" carries a watermark, but "{timed}" has one'
        now = (
            f"{table.name} FOR SYSTEM_TIME AS OF PROCTIME() reads the table as it is when a row is processed"
        )
        if side == "left" or not isinstance(node.this, exp.Table):
            now = (
                "put it into a view: JOIN … FOR SYSTEM_TIME AS OF PROCTIME() can then look up that "
                "view when a row is processed"
            )
        hint = f"join it by a column that carries a watermark; or {now}"
        raise error("TG345", f"{what}{_why(reader, table)}", reader.text.at(node_span(node.this)), hint)
    return side


def _timed_input(reader: Reader, number: int) -> str | None:
    """The relation with a watermark that this input is or stands on; None if there is none, or if it is looked up."""
    entry = reader.inputs[number]
    found = reader.gates.get(entry.name) or reader.catalog.get(entry.name)
    assert isinstance(found, Relation | View)
    if entry.lookup:
        return None
    below = (found, *sources_of(reader.catalog, found)) if entry.name not in reader.gates else (found,)
    return next((o.name for o in below if isinstance(o, Relation) and o.watermark is not None), None)


def _why(reader: Reader, table: Flow) -> str:
    """Where the watermark of a side was lost, as far as that is known: in this query, or in a view that it reads."""
    lost = next((c.lost for c in table.columns if c.lost is not None), None)
    if lost is not None:
        return f": it was lost at line {lost.location.line}, column {lost.location.column}, because {lost.reason}"
    for number in table.reads:
        view = reader.catalog.find(reader.inputs[number].name)
        if not isinstance(view, View):
            continue
        for step in reversed(view.derived):
            for column, reason in step.lost:
                return f": {view.name} lost the watermark of {column}, because {reason}"
    return ""


def looked_up(
    reader: Reader, node: exp.Join, left: Flow, right: Flow, lookup: str, side: str
) -> tuple[Flow, Flow]:
    """Both sides, that of `lookup` without watermarks. Raises TG344 for a join that keeps all of its rows."""
    text = reader.text
    table, kept = (right, {"INNER", "LEFT"}) if lookup == "right" else (left, {"INNER", "RIGHT"})
    if side not in kept:
        message = f'{side} JOIN would have to keep the rows of "{table.name}", which has no time, forever'
        hint = f"use {('LEFT' if lookup == 'right' else 'RIGHT')} JOIN, or exchange the two sides"
        raise error("TG344", message, keyword_location(text, node.this, side), hint)
    for number in table.reads:
        reader.inputs[number] = replace(reader.inputs[number], time_column=None, lookup=True)
    reason = f'"{table.name}" is looked up as it is when the row is processed'
    quiet = losing(table, LostWatermark(reason, text.at(node_span(node.this))))
    return (left, quiet) if lookup == "right" else (quiet, right)


def _check_clock(text: Text, table: exp.Table) -> None:
    """FOR SYSTEM_TIME AS OF PROCTIME() and nothing else."""
    version = table.args["version"]
    clock = version.expression
    name = clock.name.lower() if isinstance(clock, exp.Anonymous) else ""
    if version.text("kind").upper() != "AS OF" or name not in ("proctime", "proc_time"):
        hint = (
            "write FOR SYSTEM_TIME AS OF PROCTIME(), which reads the table as it is when the row is processed"
        )
        raise unsupported(
            "FOR SYSTEM_TIME AS OF a time other than PROCTIME()", text.at(node_span(table)), hint
        )
