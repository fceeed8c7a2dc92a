"""Queries of random graphs as DuckDB's SQL over whole numbers: the truth once everything is known, by somebody else.

All times are BIGINT, in ticks, so that windows are plain arithmetic and no type of time can be at fault.
"""

from __future__ import annotations

from tests.graphs.model import Filter, Join, Node, Project, Read, Union, Value
from tests.graphs.windows import Group, Over, Session, Windowed, Within

_LENGTHS = {"hour": 3_600_000_000, "day": 86_400_000_000}


def query(node: Node) -> str:
    """A whole query with the columns of the node, in their order."""
    match node:
        case Read():
            return f"SELECT {_names(node)} FROM {node.name}"
        case Filter():
            return f"SELECT * FROM ({query(node.child)}) WHERE {node.column} % {node.by} = {node.rest}"
        case Project():
            return f"SELECT {_items(node.values)} FROM ({query(node.child)})"
        case Union():
            return f"{query(node.left)} UNION ALL {query(node.right)}"
        case Windowed():
            return _windowed(node)
        case Group():
            if node.distinct:
                return f"SELECT DISTINCT {_items(node.keys)} FROM ({query(node.child)})"
            places = ", ".join(str(i + 1) for i in range(len(node.keys)))
            return f"SELECT {_items(node.keys)}, count(*) AS n FROM ({query(node.child)}) GROUP BY {places}"
        case Join():
            return _join(node)
        case Session():
            return _session(node)
        case Within():
            call = f"count(*) OVER (PARTITION BY {node.partition}) AS m"
            return f"SELECT {_items(node.values)}, {call} FROM ({query(node.child)})"
        case Over():
            return _over(node)
    raise NotImplementedError(type(node).__name__)


def ambiguous(node: Node) -> str | None:
    """A query that finds a row where the result depends on an order that nothing tells: rows of one time under lag or
    lead, other than a table's own (those come in the order of their ids)."""
    if not isinstance(node, Over) or node.function == "range" or isinstance(node.child, Read):
        return None
    return f"SELECT 1 FROM ({query(node.child)}) GROUP BY {node.key}, {node.time} HAVING count(*) > 1 LIMIT 1"


def _names(node: Node) -> str:
    return ", ".join(c.name for c in node.cols)


def _items(values: tuple[Value, ...]) -> str:
    return ", ".join(f"{_value(v, v.column)} AS {v.name}" for v in values)


def _value(value: Value, column: str) -> str:
    at = f"make_timestamp({column})"
    if value.how in _LENGTHS:
        return f"({column} - {column} % {_LENGTHS[value.how]})"
    return {
        "column": column,
        "shift": f"({column} + {value.by})",
        "month": f"epoch_us(date_trunc('month', {at}))",
        "epoch": f"({column} // 1000000)",
        "year": f"year({at})",
    }[value.how]


def _windowed(node: Windowed) -> str:
    child = [c.name for c in node.child.cols if c.name not in ("window_start", "window_end")]
    t = node.time
    if node.function == "MONTH":
        start = f"epoch_us(date_trunc('month', make_timestamp({t})))"
        end = f"epoch_us(date_trunc('month', make_timestamp({t})) + INTERVAL 1 MONTH)"
        items = ", ".join([*child, f"{start} AS window_start", f"{end} AS window_end"])
        return f"SELECT {items} FROM ({query(node.child)}) WHERE {t} IS NOT NULL"
    many = f"unnest(range({node.size // node.slide}))"
    rows = f"(SELECT *, {t} AS at_, {many} AS i_ FROM ({query(node.child)}) WHERE {t} IS NOT NULL)"
    if node.function == "CUMULATE":
        start = f"at_ - (at_ - {node.offset}) % {node.size}"
        end = f"{start} + (i_ + 1) * {node.slide}"
    else:
        start = f"at_ - (at_ - {node.offset}) % {node.slide} - i_ * {node.slide}"
        end = f"{start} + {node.size}"
    names = ", ".join(
        f"{expression} AS {name}"
        for name, expression in [*((c, c) for c in child), ("window_start", start), ("window_end", end)]
    )
    return f"SELECT {names} FROM {rows} WHERE {end} > at_"


def _join(node: Join) -> str:
    items = [
        f"coalesce(l.{node.a}, r.{node.b}) AS {value.name}"
        if side == "both"
        else f"{_value(value, f'{side}.{value.column}')} AS {value.name}"
        for side, value in node.values
    ]
    on = f"l.{node.a} BETWEEN r.{node.b} + {node.low} AND r.{node.b} + {node.high}"
    if node.low == node.high:
        on = f"l.{node.a} = r.{node.b} + {node.low}"
    if node.same:
        on += f" AND l.{node.same[0]} = r.{node.same[1]}"
    sides = f"({query(node.left)}) AS l {node.how} JOIN ({query(node.right)}) AS r"
    return f"SELECT {', '.join(items)} FROM {sides} ON {on}"


def _session(node: Session) -> str:
    keys, t = [node.key] if node.key else [], node.time
    by = f"PARTITION BY {node.key} " if node.key else ""
    begins = f"CASE WHEN {t} - lag({t}) OVER ({by}ORDER BY {t}) < {node.gap} THEN 0 ELSE 1 END AS begins_"
    marked = f"SELECT *, {begins} FROM ({query(node.child)}) WHERE {t} IS NOT NULL"
    which = f"SELECT *, sum(begins_) OVER ({by}ORDER BY {t}) AS which_ FROM ({marked})"
    bounds = {"window_start": f"min({t})", "window_end": f"max({t})"}
    if not node.group:
        together = f"OVER (PARTITION BY {', '.join(['which_', *keys])})"
        bounds = {name: f"{call} {together}" for name, call in bounds.items()}
    bounds["window_end"] += f" + {node.gap}"
    found = ["count(*) AS n"] if node.group else []
    columns = [c.name for c in node.cols[: len(node.cols) - len(found)]]
    items = ", ".join([*(f"{bounds[c]} AS {c}" if c in bounds else c for c in columns), *found])
    groups = f" GROUP BY {', '.join(['which_', *keys])}" if node.group else ""
    return f"SELECT {items} FROM ({which}){groups}"


def _over(node: Over) -> str:
    order = f"PARTITION BY {node.key} ORDER BY {node.time}"
    if node.function == "range":
        call = f"count(*) OVER ({order} RANGE BETWEEN {node.before} PRECEDING AND {node.after} FOLLOWING)"
    else:
        ties = ", id" if isinstance(node.child, Read) and any(c.name == "id" for c in node.child.cols) else ""
        call = f"{node.function}({node.time}) OVER ({order}{ties})"
    rows = (
        f"SELECT {_names(node.child)}, {call} AS o FROM ({query(node.child)}) WHERE {node.time} IS NOT NULL"
    )
    # The last row of a key is never final under lead: a later one may still come (D4).
    return f"SELECT * FROM ({rows}) WHERE o IS NOT NULL" if node.function == "lead" else rows
