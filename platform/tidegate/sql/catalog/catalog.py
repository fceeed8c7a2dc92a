"""The catalog: every definition by its name, in the order of definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.sql.catalog.objects import CatalogColumn, Object, Relation, Sink, SystemTable, View, reads
from tidegate.sql.catalog.system_tables import SYSTEM_TABLES, system_table_of, version_in, version_table
from tidegate.sql.dialect.codes import error
from tidegate.sql.grammar.front_matter import Annotations, Block
from tidegate.sql.options.connectors import Guard
from tidegate.sql.options.formats import SchemaReader


class Sinks:
    """The sinks of a catalog, in the order of definition; names are looked up whatever their case."""

    def __init__(self) -> None:
        self._sinks: dict[str, Sink] = {}

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._sinks

    def __iter__(self) -> Iterator[Sink]:
        return iter(self._sinks.values())

    def find(self, name: str) -> Sink | None:
        """The sink of this name, or None."""
        return self._sinks.get(name.casefold())

    def of(self, upstream: str) -> tuple[Sink, ...]:
        """Those that deliver this view or relation."""
        return tuple(s for s in self if s.upstream.casefold() == upstream.casefold())

    def add(self, sink: Sink) -> None:
        """The name is free: `Catalog.add_sink` sees to that."""
        self._sinks[sink.name.casefold()] = sink

    def drop(self, name: str) -> Sink:
        """Forget it; KeyError if there is none of this name."""
        return self._sinks.pop(name.casefold())


def no_version(view: str, number: int) -> tuple[CatalogColumn, ...] | None:
    """Of definitions alone: which versions of a view are stored, they do not say."""
    return None


class Catalog:
    """Names are looked up whatever their case; one name is one object."""

    def __init__(self, schemas: SchemaReader | None = None, guard: Guard | None = None) -> None:
        #: Says what connectors may not reach; None: they may reach everything.
        self.guard = guard
        #: Reads the files that AVRO and PROTOBUF sources name; None: their columns are taken as they are written.
        self.schemas = schemas
        #: The columns of a view's version with a number, of what is stored (`evolve/kept_versions.py`).
        self.versions: Callable[[str, int], tuple[CatalogColumn, ...] | None] = no_version
        #: Names that implicit gates have kept from the first release, by those of now (`runtime/stored_gates.py`).
        self.gate_names: Mapping[str, str] = {}
        #: Implicit gates as a view knows them that was written before their columns were changed, by name.
        self.gates_seen: Mapping[str, Relation] = {}
        self._objects: dict[str, Object] = {}
        self.sinks = Sinks()
        #: Front matter above the statements of files, and what it says, by name (`project/front_matter.py`).
        self.blocks: tuple[Block, ...] = ()
        self.annotations: dict[str, Annotations] = {}

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._objects or name in self.sinks

    def add(self, obj: Object) -> None:
        """Raises TG204 if the name is taken."""
        if obj.name in self:
            raise self._taken(obj)
        for gate in obj.gates if isinstance(obj, View) else ():
            self._objects.setdefault(gate.name.casefold(), gate)
        self._objects[obj.name.casefold()] = obj

    def find(self, name: str) -> Object | SystemTable | None:
        """The object or system table of this name, or None."""
        obj = self._objects.get(name.casefold())
        if obj is not None:
            return obj
        base, _, suffix = name.rpartition("$")
        found, suffix = self._objects.get(base.casefold()), suffix.casefold()
        number = version_in(suffix)
        if isinstance(found, View) and number is not None:
            columns = self.versions(found.name, number)
            return None if columns is None else version_table(found, suffix, columns)
        return system_table_of(found, suffix)

    def get(self, name: str, location: Location | None = None) -> Object | SystemTable:
        """Raises TG201 with a suggestion."""
        obj = self.find(name)
        if obj is None and name in self.sinks:
            sink = self.sinks.find(name)
            hint = (
                f"a sink only delivers the rows of {sink.upstream}: read {sink.upstream} instead"
                if sink
                else None
            )
            raise error("TG215", f'"{name}" is a sink', location, hint)
        if obj is None:
            known = [*self.names(), *(f"{r.name}${s}" for r in self.relations for s in SYSTEM_TABLES)]
            hint = did_you_mean(name, known)
            if hint is None and "$" not in name:
                hint = (
                    f"available names: {', '.join(self.names())}"
                    if self.names()
                    else "nothing is defined yet"
                )
            raise error("TG201", f'there is no source, table or view "{name}"', location, hint)
        return obj

    def annotations_of(self, name: str) -> Annotations:
        """What the front matter of an object says; nothing is said by default."""
        return self.annotations.get(name.casefold(), Annotations())

    def copied(self) -> Catalog:
        """The same definitions; what comes and goes in one does not in the other."""
        other = copy(self)
        other._objects, other.annotations, other.sinks = dict(self._objects), dict(self.annotations), Sinks()
        for sink in self.sinks:
            other.sinks.add(sink)
        return other

    def having(self, view: View) -> Catalog:
        """This catalog, and the implicit gates of a view that may not be in it."""
        other = copy(self)
        other._objects = {**{g.name.casefold(): g for g in view.gates}, **self._objects}
        return other

    def replace(self, obj: Object) -> None:
        """Put an altered definition in the place of the one of this name. Raises TG201 if there is none."""
        self.get(obj.name)
        self._objects[obj.name.casefold()] = obj

    def renew(self, other: Catalog) -> None:
        """Put the definitions of another reading in the places of those of the same names."""
        self._objects = {name: other._objects.get(name, obj) for name, obj in self._objects.items()}
        for sink in [other.sinks.find(sink.name) for sink in self.sinks]:
            if sink is not None:
                self.sinks.add(sink)

    def drop(self, name: str) -> None:
        """Raises TG201 if there is no such object."""
        obj = self.get(name)
        del self._objects[name.casefold()]
        for gate in obj.gates if isinstance(obj, View) else ():
            if not self.readers(gate.name):
                del self._objects[gate.name.casefold()]

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Sources and tables, without the implicit gates of WATERMARK(…)."""
        return tuple(o for o in self._objects.values() if isinstance(o, Relation) and o.kind != "gate")

    @property
    def views(self) -> tuple[View, ...]:
        """Materialized views, without the implicit ones of sinks."""
        return tuple(o for o in self._objects.values() if isinstance(o, View) and "$" not in o.name)

    def names(self) -> list[str]:
        """The names of relations and views in the order of definition, without the implicit gates and views."""
        return [
            o.name for o in self._objects.values() if "$" not in o.name and getattr(o, "kind", "") != "gate"
        ]

    def add_sink(self, sink: Sink) -> None:
        """With its implicit view, if it has one. Raises TG204 if the name is taken."""
        if sink.name in self:
            raise self._taken(sink)
        if sink.view is not None:
            self.add(sink.view)
        self.sinks.add(sink)

    def drop_sink(self, name: str) -> None:
        """With its implicit view. KeyError if there is no such sink."""
        sink = self.sinks.drop(name)
        if sink.view is not None:
            self.drop(sink.view.name)

    def _taken(self, obj: Object | Sink) -> TidegateError:
        taken = self._objects.get(obj.name.casefold()) or self.sinks.find(obj.name)
        return error("TG204", f'"{obj.name}" exists already', obj.location, _where(taken))

    def readers(self, name: str) -> tuple[View, ...]:
        """The views that read this object themselves, the implicit ones of sinks too."""
        views = (o for o in self._objects.values() if isinstance(o, View))
        return tuple(v for v in views if name.casefold() in (r.casefold() for r in v.reads))

    def order(self) -> list[Object]:
        """Every object after what it reads; otherwise in the order of definition."""

        def visit(obj: Object) -> Iterator[Object]:
            for name in reads(obj):
                yield from visit(self._objects[name.casefold()])
            yield obj

        return list({o.name: o for obj in self._objects.values() for o in visit(obj)}.values())


def _where(obj: Object | Sink | None) -> str | None:
    return f"it is defined at {obj.location.file}:{obj.location.line}" if obj and obj.location else None
