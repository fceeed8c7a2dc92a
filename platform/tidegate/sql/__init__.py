"""The SQL of tidegate: a dialect on sqlglot's Spark dialect, a catalog, and an analysis that resolves every
name and type before anything runs. No Spark here: everything answers without a JVM.

What this package gives by its name is loaded when it is asked for: of definitions that are taken from the cache
(`project/kept_definitions.py`) nothing is analysed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import CatalogColumn, Relation, View, Watermark
    from tidegate.sql.options.connectors import FilesystemOptions, ReplayOptions
    from tidegate.sql.options.formats import Format
    from tidegate.sql.statements.analysis import analyse, load_catalog
    from tidegate.sql.statements.statements import (
        CreateRelation,
        CreateView,
        Describe,
        Drop,
        Explain,
        Flush,
        InsertSelect,
        InsertValues,
        Select,
        Show,
        Statement,
    )

__all__ = [
    "Catalog",
    "CatalogColumn",
    "CreateRelation",
    "CreateView",
    "Describe",
    "Drop",
    "Explain",
    "FilesystemOptions",
    "Flush",
    "Format",
    "InsertSelect",
    "InsertValues",
    "Relation",
    "ReplayOptions",
    "Select",
    "Show",
    "Statement",
    "View",
    "Watermark",
    "analyse",
    "load_catalog",
]

_NAMES = {
    "catalog.catalog": ("Catalog",),
    "catalog.objects": ("CatalogColumn", "Relation", "View", "Watermark"),
    "options.connectors": ("FilesystemOptions", "ReplayOptions"),
    "options.formats": ("Format",),
    "statements.analysis": ("analyse", "load_catalog"),
    "statements.statements": (
        "CreateRelation",
        "CreateView",
        "Describe",
        "Drop",
        "Explain",
        "Flush",
        "InsertSelect",
        "InsertValues",
        "Select",
        "Show",
        "Statement",
    ),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
