"""The frame of a call with OVER: which rows around the current one it takes in (C5)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Location
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.frame_syntax import CURRENT_ROW, SESSION
from tidegate.sql.dialect.intervals import constant_ticks
from tidegate.sql.dialect.text import Text, node_span
from tidegate.watermark import TimeKind

#: Spark counts the rows of a frame in an INT.
_MOST_ROWS = 2**31 - 1
_EXAMPLES = (
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW, RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW"
)


@dataclass(frozen=True)
class Frame:
    """See `OverFunction`: `unit`, `preceding`, `following` and `exclude` (EXCLUDE CURRENT ROW, where the frame holds
    the current row)."""

    unit: str
    preceding: int | None
    following: int
    exclude: bool = False

    @property
    def is_running(self) -> bool:
        """From UNBOUNDED PRECEDING: what later ticks need of it is a value, not rows."""
        return self.unit != "session" and self.preceding is None


#: C5: what an aggregate has that says none.
DEFAULT = Frame("rows", None, 0)


def read_frame(text: Text, spec: exp.WindowSpec, kind: TimeKind, terms: int, where: Location) -> Frame:
    """The frame over an event time of `kind`; `terms`: how many expressions ORDER BY has. Raises TG362."""
    unit = str(spec.args.get("kind")).upper()
    if unit == SESSION:
        gap = _length(text, spec.args["start"], kind, "the gap of a session", where)
        if gap <= 0:
            raise error("TG362", "the gap of a session must be longer than zero", where)
        return Frame("session", gap, 0, _excludes(spec, where))
    if unit not in ("ROWS", "RANGE"):
        raise error(
            "TG362",
            f"{unit} frames are not supported",
            where,
            f"ROWS counts rows, RANGE measures time: {_EXAMPLES}",
        )
    start, end = (_bound(text, spec, side, unit, kind, where) for side in ("start", "end"))
    if end is None:
        hint = (
            "write how far the frame reaches, such as 5 FOLLOWING; or use SESSION WITH GAP, or a "
            "window in PARTITION BY"
        )
        raise error("TG362", "a frame to UNBOUNDED FOLLOWING is never complete", where, hint)
    if start is not None and start > end:
        raise error("TG362", "this frame ends before it starts", where, _EXAMPLES)
    if unit == "RANGE" and terms > 1 and {start, end} - {None, 0}:
        hint = "write only the time in ORDER BY, or use a ROWS frame"
        raise error("TG362", "a RANGE with a length needs one expression in ORDER BY", where, hint)
    exclude = _excludes(spec, where) and (start is None or start <= 0) and end >= 0
    if exclude and start == end == 0 and unit == "ROWS":
        raise error("TG362", "this frame never contains a row", where, _EXAMPLES)
    if exclude and unit == "ROWS" and 0 in (start, end):
        # The same without EXCLUDE: the current row is the frame's first or last.
        start, end, exclude = (1, end, False) if start == 0 else (start, -1, False)
    return Frame(unit.lower(), None if start is None else -start, end, exclude)


def plain_frame(spec: exp.WindowSpec, where: Location) -> exp.WindowSpec:
    """The frame of a call inside one closed window, as Spark has it. Raises TG362 for what Spark has no word for."""
    unit = str(spec.args.get("kind")).upper()
    if unit not in ("ROWS", "RANGE"):
        hint = "group by SESSION(…) in FROM" if unit == SESSION else _EXAMPLES
        raise error("TG362", f"{unit} frames are not supported within a window", where, hint)
    copy = spec.copy()
    if not _excludes(spec, where):
        copy.set("exclude", None)
        return copy
    first, last = (spec.args.get(side) == CURRENT_ROW for side in ("start", "end"))
    if unit != "ROWS" or first == last:
        hint = (
            "write two calls, one for the rows before and one for those after: ROWS BETWEEN 2 "
            "PRECEDING AND 1 PRECEDING"
        )
        raise error(
            "TG362",
            "EXCLUDE CURRENT ROW in the middle of a frame is not supported within a window",
            where,
            hint,
        )
    copy.set("exclude", None)
    copy.set("start" if first else "end", exp.Literal.number(1))
    copy.set("start_side" if first else "end_side", "FOLLOWING" if first else "PRECEDING")
    return copy


def _bound(
    text: Text, spec: exp.WindowSpec, side: str, unit: str, kind: TimeKind, where: Location
) -> int | None:
    """Rows or ticks from the current row, negative before it; None: unbounded on this side."""
    value, direction = spec.args.get(side), str(spec.args.get(f"{side}_side") or "").upper()
    if value == CURRENT_ROW:
        return 0
    if value == "UNBOUNDED":
        if (side == "start") != (direction == "PRECEDING"):
            raise error("TG362", f"a frame can't {side} at UNBOUNDED {direction}", where, _EXAMPLES)
        return None
    if not isinstance(value, exp.Expr) or direction not in ("PRECEDING", "FOLLOWING"):
        raise error("TG362", "a bound must be PRECEDING, FOLLOWING or CURRENT ROW", where, _EXAMPLES)
    if unit == "ROWS":
        count = int(value.name) if isinstance(value, exp.Literal) and value.name.isdigit() else None
        if count is None or value.is_string or count > _MOST_ROWS:
            message = "a bound of ROWS must be a number of rows"
            raise error("TG362", message, text.at(node_span(value)), "use RANGE for a length of time")
        length = count
    else:
        length = _length(text, value, kind, "a bound of RANGE", where)
        if length < 0:
            raise error("TG362", "a length must not be negative", text.at(node_span(value)), _EXAMPLES)
    return length if direction == "FOLLOWING" else -length


def _length(text: Text, node: exp.Expr, kind: TimeKind, what: str, where: Location) -> int:
    form = (
        "an integer, in the unit of the time column"
        if kind is TimeKind.EPOCH
        else "an INTERVAL of fixed length"
    )
    try:
        ticks = constant_ticks(text, node, kind)
    except ValueError as problem:
        raise error("TG362", f"{what}: {problem}", where, f"write {form}") from None
    if ticks is None:
        raise error("TG362", f"{what} must be {form}", where, _EXAMPLES)
    return ticks


def _excludes(spec: exp.WindowSpec, where: Location) -> bool:
    """Whether the current row is left out."""
    written = spec.args.get("exclude")
    what = written.name.upper() if isinstance(written, exp.Expr) else ""
    if what in ("GROUP", "TIES"):
        raise error(
            "TG362",
            f"EXCLUDE {what} is not supported",
            where,
            "write EXCLUDE CURRENT ROW, which leaves out the row itself",
        )
    return what == CURRENT_ROW
