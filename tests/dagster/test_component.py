"""The component in a scaffolded Dagster project of somebody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox
from dagster.components.testing.utils import component_defs

from tests.dagster.projects import write_project
from tidegate.cli.commands.project.init import write_template
from tidegate.dagster import TidegateAsset, TidegateProject

#: What `create-dagster project` writes, without its comments.
PYPROJECT = """\
[project]
name = "acme"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["dagster"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "acme"
"""
DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_project(tmp_path / "shop")


def keys(defs: dg.Definitions) -> set[str]:
    return {s.key.to_user_string() for s in defs.resolve_all_asset_specs()}


def test_scaffolded_it_finds_the_project_and_loads_it(root: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            TidegateProject, scaffold_params={"project_path": str(root), "env": "local"}
        )
        text = (folder / "defs.yaml").read_text()
        assert "type: tidegate.dagster.component.TidegateProject" in text
        assert "{{ project_root }}" in text
        with sandbox.load_component_and_build_defs(folder) as (component, defs):
            assert isinstance(component, TidegateProject)
            assert keys(defs) == {"orders", "orders_hourly", "notes", "notes_daily"}
            # The executor is the surrounding project's choice.
            assert defs.executor is None
            assert {s.name for s in defs.sensors} == {"tidegate_watermark_lag", "tidegate_watermark_stall"}


def test_translation_changes_assets_and_keeps_lineage_and_checks(root: Path) -> None:
    body = {
        "type": "tidegate.dagster.TidegateProject",
        "attributes": {
            "project": str(root),
            "name": "shop",
            "translation": {
                "key_prefix": "streams",
                "group_name": "of_{{ asset.root.name }}",
                "owners": ["team:data"],
            },
        },
    }
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            TidegateProject, scaffold_params={"project_path": str(root)}, defs_yaml_contents=body
        )
        with sandbox.load_component_and_build_defs(folder) as (_, defs):
            dg.Definitions.validate_loadable(defs)
            specs = {s.key.to_user_string(): s for s in defs.resolve_all_asset_specs()}
            view = specs["streams/orders_hourly"]
            assert [d.asset_key.to_user_string() for d in view.deps] == ["streams/orders"]
            assert (view.group_name, list(view.owners)) == ("of_orders", ["team:data"])
            assert view.metadata["dagster/table_name"] == "tidegate.main.orders_hourly"
            checks = {c.asset_key.to_user_string() for c in defs.resolve_asset_graph().asset_check_keys}
            assert checks == set(specs)
            assert set(defs.resources) == {"shop"}


class Ours(TidegateProject):
    def get_asset_spec(self, asset: TidegateAsset) -> dg.AssetSpec:
        return super().get_asset_spec(asset).merge_attributes(tags={"domain": "shops"})


def test_a_subclass_says_in_python_what_yaml_cannot(root: Path) -> None:
    defs = component_defs(component=Ours(project=str(root)))
    assert all(s.tags["domain"] == "shops" for s in defs.resolve_all_asset_specs())


def test_a_path_is_relative_to_the_yaml(root: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(
            TidegateProject,
            scaffold_params={"project_path": str(root)},
            defs_yaml_contents={
                "type": "tidegate.dagster.TidegateProject",
                "attributes": {"project": "shop"},
            },
        )
        write_project(folder / "shop")
        with sandbox.load_component_and_build_defs(folder) as (_, defs):
            assert "orders" in keys(defs)


@pytest.mark.medium
def test_dg_lists_it_without_loading_spark(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from dagster.components.core.package_entry import discover_package_objects\n"
        "print([k.to_typename() for k in discover_package_objects(['tidegate.dagster'])])\n"
        "print('pyspark' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["['tidegate.dagster.TidegateProject']", "False"], done.stderr


@pytest.mark.medium
def test_in_a_plain_project_of_dg_it_is_scaffolded_and_a_dropped_file_is_an_asset(tmp_path: Path) -> None:
    """The layout that `create-dagster project` makes; `dg` itself scaffolds and lists."""
    root = tmp_path / "acme"
    (root / "src" / "acme" / "defs").mkdir(parents=True)
    (root / "src" / "acme" / "__init__.py").write_text("")
    (root / "src" / "acme" / "definitions.py").write_text(DEFINITIONS)
    (root / "pyproject.toml").write_text(PYPROJECT)
    write_template(root / "streams")
    view = (
        "-- ---\n-- owners: [team:shops]\n-- ---\nCREATE MATERIALIZED VIEW customers AS SELECT window_end, customer,\n"
        "count(*) AS n FROM TUMBLE(orders, ordered_at, INTERVAL '1 day') GROUP BY window_end, customer;\n"
    )
    (root / "streams" / "assets" / "customers.sql").write_text(view)

    def dg_(*arguments: str) -> str:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("dg")), *arguments],
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    dg_("scaffold", "defs", "tidegate.dagster.TidegateProject", "streams", "--project-path", "streams")
    text = (root / "src" / "acme" / "defs" / "streams" / "defs.yaml").read_text()
    assert "project: '{{ project_root }}/streams'" in text
    listed = json.loads(dg_("list", "defs", "--json"))
    assets = {asset["asset_key"]: asset for asset in listed["assets"]}
    assert set(assets) == {"orders", "orders_hourly", "orders_daily", "customers"}
    assert assets["customers"]["owners"] == [{"team": "shops"}]
    assert assets["customers"]["source"] == "streams/assets/customers.sql:4"
