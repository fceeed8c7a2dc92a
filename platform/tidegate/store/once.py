"""Answers that are put together from hundreds of tables: each is read once, and a catalog in SQLite is asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tidegate.store import sqlite_catalog

_Table = TypeVar("_Table")


@dataclass
class _Once:
    """`tables`: as they were read, by (warehouse, namespace, name); `locations`: by (file, namespace), where a catalog
    in SQLite has its tables; None: of one that was read already."""

    tables: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    locations: dict[tuple[Path, str], dict[str, str | None]] = field(default_factory=dict)


_ONCE: ContextVar[_Once | None] = ContextVar("_ONCE", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """While the block runs, each table is read once, and a catalog in SQLite is asked once for all of a namespace."""
    token = _ONCE.set(_ONCE.get() or _Once())
    try:
        yield
    finally:
        _ONCE.reset(token)


def kept(key: tuple[str, str, str], read: Callable[[], _Table]) -> _Table:
    """The table of this key: as it was read before in this block, else as `read` gives it."""
    once = _ONCE.get()
    if once is None:
        return read()
    if key not in once.tables:
        once.tables[key] = read()
    found: _Table = once.tables[key]
    return found


def location(file: Path, namespace: str, name: str) -> str | None:
    """As `sqlite_catalog.location`. Who asks again has found that the file of metadata is gone: it is looked up."""
    once = _ONCE.get()
    if once is None:
        return sqlite_catalog.location(file, namespace, name)
    if (file, namespace) not in once.locations:
        once.locations[file, namespace] = {**sqlite_catalog.locations(file, namespace)}
    known = once.locations[file, namespace]
    # Most of what is asked for and not there is never there: the next version of a view.
    if name not in known:
        return None
    found, known[name] = known[name], None
    return found or sqlite_catalog.location(file, namespace, name)
