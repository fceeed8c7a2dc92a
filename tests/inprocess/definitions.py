"""What definitions mean, worked out once: tests open the same project again and again, and most of that is analysis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from unittest.mock import patch

from tidegate.errors import FAIL_FAST, Problems
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.options.connectors import Guard
from tidegate.sql.options.formats import LOCATION, Format, SchemaReader
from tidegate.sql.statements import analysis

_analysed = analysis.load_catalog

#: Catalogs by the names and texts of their files. What is in them is never changed, only replaced.
_known: dict[tuple[tuple[str, str], ...], Catalog] = {}
_AT_MOST = 512


@contextmanager
def analysed_once() -> Iterator[None]:
    """While the block runs, files with the same names and texts are analysed once."""
    with patch.object(analysis, "load_catalog", _load):
        yield


def _load(
    files: Iterable[tuple[str, str]],
    schemas: SchemaReader | None = None,
    problems: Problems = FAIL_FAST,
    guard: Guard | None = None,
    gate_names: Mapping[str, str] | None = None,
) -> Catalog:
    """As `load_catalog`. What is outside of the texts is asked anew: files of schemas, and what the guard says."""
    key = tuple(files)
    if problems is not FAIL_FAST or gate_names:
        return _analysed(key, schemas, problems, guard, gate_names)
    found = _known.get(key)
    if found is None or not _allowed(found, guard):
        found = _analysed(key, schemas, problems, guard)
        if len(_known) >= _AT_MOST:
            _known.clear()
        if not any(LOCATION in form.options for form in _formats(found)):
            _known[key] = _copy(found, None, None)
    return _copy(found, schemas, guard)


def _copy(catalog: Catalog, schemas: SchemaReader | None, guard: Guard | None) -> Catalog:
    """One to which things can be added while the other stays as it is."""
    other = copy(catalog)
    other.schemas, other.guard = schemas, guard
    other._objects, other.annotations = dict(catalog._objects), dict(catalog.annotations)
    other.sinks = copy(catalog.sinks)
    other.sinks._sinks = dict(catalog.sinks._sinks)
    return other


def _formats(catalog: Catalog) -> Iterator[Format]:
    for one in (*catalog.relations, *catalog.sinks):
        if one.format is not None:
            yield one.format


def _allowed(catalog: Catalog, guard: Guard | None) -> bool:
    if guard is None:
        return True
    given = [one for one in (*catalog.relations, *catalog.sinks) if one.connector is not None]
    return not any(list(guard(one.connector, one.format)) for one in given)
