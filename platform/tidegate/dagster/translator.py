"""How sources, tables and views become Dagster assets: a class whose small methods are the places to change."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from dagster import (
    AssetKey,
    AssetSpec,
    BetaWarning,
    CodeReferencesMetadataValue,
    FreshnessPolicy,
    LocalFileCodeReference,
    TableColumn,
    TableColumnConstraints,
    TableSchema,
)

from tidegate.dagster import markdown
from tidegate.project import Project
from tidegate.project.storage import CATALOG
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.lineage import families, reads_of
from tidegate.sql.catalog.objects import CatalogColumn, Relation, Sink, View
from tidegate.sql.dialect.types import UNKNOWN, display
from tidegate.sql.grammar.front_matter import Annotations
from tidegate.sql.options.sink_connectors import IcebergSinkOptions
from tidegate.store.positions import sink_table


@dataclass(frozen=True)
class TidegateAsset:
    """One source, table, view or sink, with the project that it is part of: what the translator is given."""

    item: Relation | View | Sink
    catalog: Catalog
    project: Project

    @property
    def name(self) -> str:
        """Name in SQL."""
        return self.item.name

    @property
    def kind(self) -> str:
        """`source`, `table`, `view` or `sink`."""
        if isinstance(self.item, Relation):
            return self.item.kind
        return "view" if isinstance(self.item, View) else "sink"

    @property
    def inputs(self) -> tuple[TidegateAsset, ...]:
        """What a view reads or a sink delivers: sources, tables and views; nothing for sources and tables."""
        found = () if isinstance(self.item, Relation) else reads_of(self.catalog, self.item)
        return tuple(TidegateAsset(o, self.catalog, self.project) for o in found)

    @property
    def root(self) -> TidegateAsset:
        """The first source or table of the family: of all assets that rows flow between, which run in one process."""
        return TidegateAsset(_roots(self.catalog)[self.name], self.catalog, self.project)

    @property
    def annotations(self) -> Annotations:
        """What its front matter says: owners, tags, group, freshness, partitions, schedule."""
        return self.catalog.annotations_of(self.name)

    @property
    def file(self) -> Path | None:
        """The .sql file that defines it."""
        return self.project.root / self.item.location.file if self.item.location else None


class TidegateTranslator:
    """Maps a `TidegateAsset` to an `AssetSpec`. Subclass it and override what should be different:

    class Ours(TidegateTranslator):
        def get_asset_key(self, asset):
            return super().get_asset_key(asset).with_prefix("streams")

    defs = load_definitions("path/to/project", translator=Ours())
    """

    def get_asset_spec(self, asset: TidegateAsset) -> AssetSpec:
        """The whole spec; the methods below make its parts."""
        return AssetSpec(
            key=self.get_asset_key(asset),
            deps=self.get_deps(asset),
            description=self.get_description(asset),
            group_name=self.get_group_name(asset),
            tags=self.get_tags(asset),
            kinds=self.get_kinds(asset),
            owners=self.get_owners(asset),
            freshness_policy=self.get_freshness_policy(asset),
            code_version=self.get_code_version(asset),
            metadata=self.get_metadata(asset),
        )

    def get_asset_key(self, asset: TidegateAsset) -> AssetKey:
        """The name in SQL."""
        return AssetKey(asset.name)

    def get_deps(self, asset: TidegateAsset) -> Iterable[AssetKey]:
        """The assets that a view reads or a sink delivers. Asked through `get_asset_spec`, so that changed keys keep
        their lineage."""
        return [self.get_asset_spec(one).key for one in asset.inputs]

    def get_description(self, asset: TidegateAsset) -> str | None:
        """Of the front matter, or the comment right above the statement."""
        return asset.item.description

    def get_group_name(self, asset: TidegateAsset) -> str | None:
        """Of the front matter; else the first source or table that rows come from: what is run together."""
        return asset.annotations.group or re.sub(r"\W", "_", asset.root.name)

    def get_kinds(self, asset: TidegateAsset) -> set[str]:
        """Icons in the lineage; Dagster has room for three. Those of a sink say what it writes."""
        if not isinstance(asset.item, Sink):
            return {"spark", "iceberg", "sql"}
        written = (
            asset.item.format.encode if asset.item.format is not None else asset.item.connector.connector
        )
        return {"spark", "sql", written}

    def get_tags(self, asset: TidegateAsset) -> Mapping[str, str]:
        """Those of the front matter, `tidegate/kind`, and for views `tidegate/emit`: `on_window_close` or `always`."""
        tags = {**dict(asset.annotations.tags), "tidegate/kind": asset.kind}
        if isinstance(asset.item, View):
            tags["tidegate/emit"] = "on_window_close" if asset.item.emit_on_window_close else "always"
        return tags

    def get_owners(self, asset: TidegateAsset) -> list[str] | None:
        """Those of the front matter."""
        return list(asset.annotations.owners) or None

    def get_freshness_policy(self, asset: TidegateAsset) -> FreshnessPolicy | None:
        """That of the front matter: how long ago it may have been brought up to date."""
        said = asset.annotations
        if said.fresh_within is None:
            return None
        warn = None if said.warn_within is None else timedelta(seconds=said.warn_within)
        return FreshnessPolicy.time_window(fail_window=timedelta(seconds=said.fresh_within), warn_window=warn)

    def get_code_version(self, asset: TidegateAsset) -> str | None:
        """Changes with the statement (R4: a changed definition is a new one)."""
        return hashlib.sha256(asset.item.definition.encode()).hexdigest()[:12]

    def get_metadata(self, asset: TidegateAsset) -> Mapping[str, Any]:
        """Column schema, table name, place in the file, the statement, and what says how rows are judged; of a sink,
        where it delivers to."""
        metadata: dict[str, Any] = {
            "dagster/column_schema": self.get_column_schema(asset),
            **_stored(asset),
            "tidegate/definition": markdown.code(asset.item.definition.strip(), "sql"),
        }
        item = asset.item
        if isinstance(item, Sink):
            metadata["tidegate/connector"] = item.connector.connector
            metadata["tidegate/place"] = item.place
        elif isinstance(item, View):
            if item.accounts is not None:
                window = item.accounts.window.describe(item.kind)
                metadata["tidegate/window"] = f"{window} over {item.accounts.time_column}"
            if item.clock is not None:
                metadata["tidegate/final up to"] = item.clock.describe(
                    item.kind, [i.name for i in item.inputs]
                )
        else:
            if item.watermark is not None:
                metadata["tidegate/watermark"] = f"{item.watermark.column} AS {item.watermark.expression}"
            if item.connector is not None:
                metadata["tidegate/connector"] = item.connector.connector
        metadata["dagster/code_references"] = _place(asset)
        return {key: value for key, value in metadata.items() if value is not None}

    def get_column_schema(self, asset: TidegateAsset) -> TableSchema:
        """Columns with types as the user writes them; a view's aggregates may be known only after its first run."""
        item = asset.item
        if isinstance(item, Sink):
            upstream = asset.catalog.get(item.upstream)
            assert isinstance(upstream, Relation | View)
            item = upstream
        return table_schema(item, item.columns)


@lru_cache(maxsize=4)
def _roots(catalog: Catalog) -> dict[str, Relation | View | Sink]:
    """The first member of each object's family. A catalog of Dagster definitions does not change any more."""
    return {o.name: family[0] for family in families(catalog) for o in family}


def table_schema(item: Relation | View, columns: Iterable[CatalogColumn]) -> TableSchema:
    """`columns` of a source, table or view for Dagster: SQL types, NOT NULL, generated columns, the watermark."""
    return TableSchema([_column(item, c) for c in columns])


def _stored(asset: TidegateAsset) -> dict[str, str]:
    """The Iceberg table, if rows go into one."""
    item, storage = asset.item, asset.project.storage
    table = (storage.namespace_of(item.name), item.name)
    if isinstance(item, Sink):
        if not isinstance(item.connector, IcebergSinkOptions):
            return {}
        table = sink_table(storage, item)
    return {"dagster/table_name": ".".join((CATALOG, *table)), "dagster/storage_kind": "iceberg"}


def _place(asset: TidegateAsset) -> CodeReferencesMetadataValue | None:
    """File and line of the statement, which the UI turns into a link."""
    location = asset.item.location
    if asset.file is None or location is None:
        return None
    label = f"{location.file}:{location.line}"
    with warnings.catch_warnings():
        # Code references are beta, and one warning for each asset at each start helps nobody.
        warnings.simplefilter("ignore", BetaWarning)
        reference = LocalFileCodeReference(file_path=str(asset.file), line_number=location.line, label=label)
        return CodeReferencesMetadataValue(code_references=[reference])


def _column(item: Relation | View, column: CatalogColumn) -> TableColumn:
    notes = []
    if column.generated is not None:
        notes.append(f"generated: {column.generated}")
    if isinstance(item, Relation) and item.watermark and item.watermark.column == column.name:
        notes.append(f"watermark: {item.watermark.expression}")
    return TableColumn(
        name=column.name,
        type="(known after the first run)" if column.type == UNKNOWN else display(column.type),
        description=column.comment,
        constraints=TableColumnConstraints(nullable=column.nullable, other=notes),
    )
