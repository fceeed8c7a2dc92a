"""Inline gates (W14): a WATERMARK(…) in FROM has a log and a watermark of its own, and stands in nobody's files."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import VIEW_SUFFIX, Object, Relation, Sink, View, reads


def is_gate(item: Object | Sink) -> bool:
    """Whether an object is the implicit relation of a WATERMARK(…)."""
    return isinstance(item, Relation) and item.kind == "gate"


def gates_of(catalog: Catalog, items: Iterable[Object | Sink]) -> tuple[Relation, ...]:
    """The gates that objects bring along, each once, in the order of computation: those of a view or of a sink's own
    view, and those over a relation."""
    views, below = set(), set()
    for item in items:
        view = item.view if isinstance(item, Sink) else item
        if isinstance(view, View):
            views |= {gate.name for gate in view.gates}
        elif view is not None:
            below.add(view.name)
    return tuple(
        o
        for o in catalog.order()
        if isinstance(o, Relation) and is_gate(o) and (o.name in views or below.intersection(reads(o)))
    )


def read_by(catalog: Catalog, gate: Relation) -> tuple[str, ...]:
    """The views that have it; the one of a sink's own query is called like the sink, as people know it."""
    return tuple(view.name.removesuffix(VIEW_SUFFIX) for view in catalog.readers(gate.name))
