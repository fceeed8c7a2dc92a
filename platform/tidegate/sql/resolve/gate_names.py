"""What implicit gates (`sql/views/inline_gate.py`) are called, and what they are over other columns of their relation:
who changes columns asks this of gates that are read already."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from tidegate.sql.catalog.objects import CatalogColumn, Relation
from tidegate.sql.dialect.dialect import Read, to_spark
from tidegate.sql.dialect.query import SLICE, called, everything, quoted_column, select_from, subquery
from tidegate.sql.dialect.system_names import ROWTIME
from tidegate.sql.options.connectors import LOG_PLACE, LogOptions

#: In `Relation.made_of`: by `*`, whatever there is.
STAR = "*"


def over_columns(gate: Relation, columns: tuple[CatalogColumn, ...]) -> Relation:
    """A gate that has all columns of its relation, as it is where these are its own columns."""
    assert isinstance(gate.connector, LogOptions)
    made: exp.Expr = Read(this=SLICE)
    if columns and columns[-1].name == ROWTIME:
        (time,) = (e.this for e in gate.connector.sql.tree.find_all(exp.Alias) if e.alias == ROWTIME)
        made = timed(columns[:-1], time.copy(), made)
    connector = gate.connector.model_copy(update={"sql": everything(made)})
    return replace(gate, columns=columns, connector=connector)


def timed(columns: tuple[CatalogColumn, ...], time: exp.Expr, made: exp.Expr) -> exp.Subquery:
    """These columns of `made`, with `time` as `$rowtime`."""
    items = [*(quoted_column(c.name) for c in columns), called(time, ROWTIME), *map(quoted_column, LOG_PLACE)]
    return subquery(select_from(items, made))


def first_name(gate: Relation) -> str:
    """The name that the first release gives a gate: by its columns, too."""
    assert isinstance(gate.connector, LogOptions)
    assert gate.watermark is not None
    facts = {
        "relation": gate.connector.relation,
        "columns": [(c.name, c.type) for c in gate.columns],
        "rows": to_spark(gate.connector.sql.tree.args["from_"].this),
        "column": gate.watermark.column,
        "strategy": str(gate.watermark.strategy),
    }
    return name_by(facts)


def name_by(facts: Mapping[str, object]) -> str:
    """The name of an implicit relation of which these are the facts."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]
    return f"{facts['relation']}$gate_{digest}"
