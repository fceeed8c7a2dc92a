"""`--select` and `--exclude`: which sources, tables, views and sinks are meant. The one place that knows this grammar.

orders_hourly      a name; `*` and `?` stand for any text
tag:finance        a tag of the front matter; `tag:domain=shops` with its value
owner:team:shops   an owner; `team:shops` may be written without `team:`
group:orders       a group of the front matter
kind:view          source, table, view or sink
path:assets/shops  a file, or everything in a folder
+x  x+  +x+        with what it reads; with what reads it; `2+x` and `x+1`: so many steps
x,y                what is in both; x y (or two options): what is in one of them
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from tidegate.errors import Location, TidegateError, did_you_mean
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import computed, reads_of
from tidegate.sql.catalog.objects import Object, Relation, Sink, View

_TERM = re.compile(r"^(?:(?P<up>\d*)\+)?(?P<what>.+?)(?:\+(?P<down>\d*))?$")
_PATTERN = re.compile(r"[*?\[]")


def select(
    catalog: Catalog,
    wanted: Iterable[str] = (),
    exclude: Iterable[str] = (),
    location: Location | None = None,
) -> list[str]:
    """Names of what `wanted` means and `exclude` does not, in the order of computation. Nothing wanted: everything.

    Raises TG613, at `location`: a selection is misspelt or nothing fits it, or the exclusion leaves nothing.
    """
    graph = _Graph(catalog, location)
    chosen = graph.union(wanted) if (wanted := list(wanted)) else set(graph.names)
    left_out = graph.union(exclude) if (exclude := list(exclude)) else set()
    found = [name for name in graph.names if name in chosen - left_out]
    if not found and chosen:
        raise TidegateError("TG613", "--exclude leaves out everything that is selected", location=location)
    return found


def covered(catalog: Catalog, texts: Iterable[str]) -> list[str]:
    """What a schedule of jobs/*.yaml brings up to date: of a bare name also all that reads it, as `name+`; of anything
    else just what it selects. In the order of computation; TG613 as `select`."""
    graph = _Graph(catalog, None)
    found: set[str] = set()
    for text in texts:
        found |= graph.with_readers(text) if is_plain(text, graph.names) else graph.union([text])
    return [name for name in graph.names if name in found]


def is_plain(text: str, names: Iterable[str]) -> bool:
    """Whether a selection is just a name: of something that is there, or could be one."""
    return text in set(names) or re.fullmatch(r"[\w$.-]+", text) is not None


class _Graph:
    def __init__(self, catalog: Catalog, location: Location | None) -> None:
        self._catalog, self._location = catalog, location
        self._objects = {obj.name: obj for obj in computed(catalog)}
        self.names = list(self._objects)
        self._reads = {name: [o.name for o in reads_of(catalog, obj)] for name, obj in self._objects.items()}
        self._readers: dict[str, list[str]] = {name: [] for name in self.names}
        for name, inputs in self._reads.items():
            for one in inputs:
                self._readers[one].append(name)

    def with_readers(self, text: str) -> set[str]:
        """A name, and everything that reads it."""
        return self._walk(self._by_name(text), self._readers, "")

    def union(self, texts: Iterable[str]) -> set[str]:
        """What is in one of them; blanks separate, but for a name that has some."""
        found: set[str] = set()
        for text in texts:
            parts = [text] if text in self._objects else text.split()
            if not parts:
                raise self._error(
                    "the selection is empty", "write a name, or tag:NAME; tidegate check lists all names"
                )
            for part in parts:
                found |= self._intersection(part)
        return found

    def _intersection(self, text: str) -> set[str]:
        if text in self._objects:
            return {text}
        sets = [self._term(part) for part in text.split(",")]
        found = set.intersection(*sets)
        if not found:
            raise self._error(
                f'nothing matches all parts of "{text}"',
                "a comma means that both parts must match, a space means that one is enough",
            )
        return found

    def _term(self, text: str) -> set[str]:
        match = _TERM.match(text)
        if match is None:
            raise self._error(
                f'"{text}" is not a selection', "write for example orders+, tag:finance, or +orders_hourly"
            )
        found = self._named(match["what"])
        with_all = set(found)
        if match["up"] is not None:
            with_all |= self._walk(found, self._reads, match["up"])
        if match["down"] is not None:
            with_all |= self._walk(found, self._readers, match["down"])
        return with_all

    def _walk(self, start: set[str], edges: Mapping[str, list[str]], steps: str) -> set[str]:
        found, edge = set(start), set(start)
        left = int(steps) if steps else len(self.names)
        while edge and left > 0:
            edge = {one for name in edge for one in edges[name]} - found
            found |= edge
            left -= 1
        return found

    def _named(self, text: str) -> set[str]:
        method, colon, value = text.partition(":")
        if text in self._objects or not colon:
            return self._by_name(text)
        if method not in _METHODS:
            methods = f"write {', '.join(f'{m}:' for m in _METHODS)} or a name"
            raise self._error(f'"{method}:" is not a selector', did_you_mean(method, _METHODS) or methods)
        values = {name: _METHODS[method](self._catalog, obj) for name, obj in self._objects.items()}
        found = {name for name, has in values.items() if any(_fits(one, value) for one in has)}
        if not found:
            known = sorted({one for has in values.values() for one in has})
            hint = did_you_mean(value, known) or (f"available: {', '.join(known[:8])}" if known else None)
            raise self._error(f'nothing matches {method} "{value}"', hint)
        return found

    def _by_name(self, text: str) -> set[str]:
        folded = {name.casefold(): name for name in self.names}
        if text.casefold() in folded:
            return {folded[text.casefold()]}
        found = {
            n for n in self.names if _PATTERN.search(text) and fnmatchcase(n.casefold(), text.casefold())
        }
        if not found:
            known = f"available: {', '.join(self.names[:8]) or 'no assets yet'}"
            raise self._error(f'there is no asset "{text}"', did_you_mean(text, self.names) or known)
        return found

    def _error(self, message: str, hint: str | None) -> TidegateError:
        return TidegateError("TG613", message, hint=hint, location=self._location)


def _fits(one: str, value: str) -> bool:
    return one == value or (_PATTERN.search(value) is not None and fnmatchcase(one, value))


def _paths(_: Catalog, obj: Object | Sink) -> list[str]:
    """The file, and every folder that it is in."""
    if obj.location is None:
        return []
    parts = obj.location.file.split("/")
    whole = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    return [*whole, *(f"{folder}/" for folder in whole[:-1])]


def _owners(catalog: Catalog, obj: Object | Sink) -> list[str]:
    owners = catalog.annotations_of(obj.name).owners
    return [*owners, *(o.removeprefix("team:") for o in owners if o.startswith("team:"))]


def _kind(_: Catalog, obj: Object | Sink) -> list[str]:
    return [obj.kind if isinstance(obj, Relation) else "view" if isinstance(obj, View) else "sink"]


def _group(catalog: Catalog, obj: Object | Sink) -> list[str]:
    group = catalog.annotations_of(obj.name).group
    return [group] if group else []


_METHODS: dict[str, Callable[[Catalog, Object | Sink], list[str]]] = {
    "tag": lambda catalog, obj: list(catalog.annotations_of(obj.name).tag_names),
    "owner": _owners,
    "group": _group,
    "kind": _kind,
    "path": _paths,
}
