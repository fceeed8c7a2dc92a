"""What comes from what, over any number of views."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Object, Relation, Sink, View, reads


def sources_of(catalog: Catalog, obj: Object) -> tuple[Object, ...]:
    """Everything that an object's rows come from, over any number of views, without itself; each once."""

    def visit(name: str) -> Iterator[Object]:
        found = catalog.get(name)
        assert isinstance(found, Relation | View)
        for inner in reads(found):
            yield from visit(inner)
        yield found

    return tuple({o.name: o for name in reads(obj) for o in visit(name)}.values())


def readers_of(catalog: Catalog, name: str) -> tuple[View, ...]:
    """The views that read an object, themselves or through the implicit relation of a WATERMARK(…) of theirs."""
    direct = catalog.readers(name)
    gates = [
        o
        for o in catalog.order()
        if isinstance(o, Relation) and name.casefold() in (r.casefold() for r in reads(o))
    ]
    through = [v for gate in gates for v in catalog.readers(gate.name)]
    return tuple({v.name: v for v in [*direct, *through]}.values())


def reads_of(catalog: Catalog, obj: Object | Sink) -> tuple[Object, ...]:
    """The sources, tables and views that somebody has defined and that an object reads, or a sink delivers: in the
    place of the implicit relation of a WATERMARK(…) that on which it stands (W14), in that of a sink's own view what
    its query reads."""
    if isinstance(obj, Sink):
        if obj.view is not None:
            return reads_of(catalog, obj.view)
        upstream = catalog.get(obj.upstream)
        assert isinstance(upstream, Relation | View)
        return (upstream,)

    def visit(name: str) -> Iterator[Object]:
        found = catalog.get(name)
        assert isinstance(found, Relation | View)
        if isinstance(found, Relation) and found.kind == "gate":
            for inner in reads(found):
                yield from visit(inner)
        else:
            yield found

    return tuple({o.name: o for name in reads(obj) for o in visit(name)}.values())


def renamed_inputs(catalog: Catalog, view: View) -> dict[str, str]:
    """Of what a view reads, and has another name now: the name of now, by the one of before in small letters. Not of
    lookups: it is known by name which of their rows each tick has read (B1)."""
    lookups = {entry.name for entry in view.inputs if entry.lookup}
    found = [catalog.find(name) for name in view.reads if name not in lookups]
    return {
        one.renamed_from.casefold(): one.name
        for one in found
        if isinstance(one, View) and one.renamed_from is not None
    }


def computed(catalog: Catalog) -> tuple[Object | Sink, ...]:
    """All that is defined, in the order of computation: sinks last, without implicit relations and views."""
    defined = set(catalog.names())
    return (*(o for o in catalog.order() if o.name in defined), *catalog.sinks)


def families(catalog: Catalog) -> tuple[tuple[Object | Sink, ...], ...]:
    """All that is defined, split into sets between which no row flows; each in the order of computation."""
    objects = computed(catalog)
    family = {o.name: [o.name] for o in objects}
    for obj in objects:
        for source in reads_of(catalog, obj):
            one, other = family[source.name], family[obj.name]
            if one is not other:
                one += other
                for name in other:
                    family[name] = one
    found: dict[int, list[Object | Sink]] = {}
    for obj in objects:
        found.setdefault(id(family[obj.name]), []).append(obj)
    return tuple(tuple(members) for members in found.values())
