"""The component: a tidegate project inside somebody's Dagster project, from a few lines of YAML."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated

from dagster import AssetSpec, Component, ComponentLoadContext, Definitions, Model, Resolvable, Resolver
from dagster.components import ResolutionContext, scaffold_with
from dagster.components.component.component import ComponentTypeSpec
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import Field

from tidegate.dagster.load import build_definitions
from tidegate.dagster.scaffolder import TidegateProjectScaffolder
from tidegate.dagster.translator import TidegateAsset, TidegateTranslator


def _beside_the_yaml(context: ResolutionContext, path: str) -> str:
    return str(context.resolve_source_relative_path(path))


@scaffold_with(TidegateProjectScaffolder)
class TidegateProject(Component, Model, Resolvable):
    """Every source, table and view of a tidegate project as assets, with checks, schedules and the lag sensor.

        type: tidegate.dagster.TidegateProject
        attributes:
          project: "{{ project_root }}/streams"
          env: local
          translation:
            key_prefix: streams
            group_name: "{{ asset.root.name }}"

    In `translation`, `asset` is the `TidegateAsset` (name, kind, root, item) and `spec` what the translator made.
    A subclass can override `get_asset_spec` instead.
    """

    project: Annotated[
        str,
        Resolver(_beside_the_yaml, model_field_type=str),
        Field(
            description="Folder of the tidegate project; relative to this YAML file.", examples=["../streams"]
        ),
    ]
    env: Annotated[str, Field(description="Which resources/<env>.yaml.")] = "local"
    name: Annotated[
        str,
        Field(
            description="Prefix of job, sensor, pool and resource names; another for each further project."
        ),
    ] = "tidegate"
    translation: Annotated[
        TranslationFn[TidegateAsset] | None,
        TranslationFnResolver[TidegateAsset](template_vars_for_translation_fn=lambda asset: {"asset": asset}),
        Field(
            description="What should be different about the assets: key_prefix, group_name, tags, owners, …"
        ),
    ] = None

    @classmethod
    def get_spec(cls) -> ComponentTypeSpec:
        """What `dg list components` shows."""
        return ComponentTypeSpec(
            description="A tidegate project: sources, tables and windowed views as assets run by Spark.",
            tags=["spark", "iceberg", "sql", "watermark"],
            produces=["asset", "asset_check", "schedule", "sensor", "job", "resource"],
        )

    @cached_property
    def translator(self) -> TidegateTranslator:
        """Goes through `get_asset_spec` of this component."""
        return _ComponentTranslator(self)

    def get_asset_spec(self, asset: TidegateAsset) -> AssetSpec:
        """The asset's spec, with `translation` applied. Override it to say in Python what YAML can't."""
        spec = TidegateTranslator.get_asset_spec(self.translator, asset)
        return self.translation(spec, asset) if self.translation else spec

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        """The definitions, without an executor: that is the Dagster project's own choice."""
        return build_definitions(Path(self.project), self.env, self.translator, self.name)


class _ComponentTranslator(TidegateTranslator):
    def __init__(self, component: TidegateProject) -> None:
        self._component = component

    def get_asset_spec(self, asset: TidegateAsset) -> AssetSpec:
        return self._component.get_asset_spec(asset)
