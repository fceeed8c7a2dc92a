"""The SQL of tidegate: a dialect on sqlglot's Spark dialect, a catalog, and an analysis that resolves every
name and type before anything runs. No Spark here: everything answers without a JVM."""

from __future__ import annotations

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
