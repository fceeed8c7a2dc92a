"""The environments and jobs of the demo project, which is this repository's root."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tidegate.project import Environment, Project
from tidegate.project.jobs.jobs import load_jobs

ROOT = Path(__file__).resolve().parents[2]


def test_local_yaml_says_the_defaults_and_has_the_catalog_of_new_projects(tmp_path: Path) -> None:
    template = ROOT / "platform" / "tidegate" / "cli" / "template"
    shutil.copytree(template / "resources", tmp_path / "resources")
    written, new = Project.load(ROOT).env, Project.load(tmp_path).env
    assert written.warehouse == new.warehouse
    assert (
        written.warehouse.model_copy(update={"catalog": Environment().warehouse.catalog})
        == Environment().warehouse
    )
    assert written.spark.master == Environment().spark.master


def test_cluster_yaml_is_a_standalone_cluster_of_this_machine_with_a_warehouse_of_its_own() -> None:
    project = Project.load(ROOT, "cluster", {})
    assert project.env.spark.master == "spark://127.0.0.1:7077"
    assert project.storage.local_warehouse != Project.load(ROOT).storage.local_warehouse


def test_lake_yaml_is_valid_with_its_secrets_and_refused_without() -> None:
    names = ("TIDEGATE_S3_KEY", "TIDEGATE_S3_SECRET", "TIDEGATE_CATALOG_CREDENTIAL")
    project = Project.load(ROOT, "lake", dict.fromkeys(names, "visible"))
    assert project.storage.warehouse == "s3://lake/tidegate"
    assert "visible" not in repr(project)
    with pytest.raises(Exception, match="is not set"):
        Project.load(ROOT, "lake", {})


def test_demo_s3_yaml_is_valid_with_the_demos_variables() -> None:
    names = ("TIDEGATE_DEMO_S3", "TIDEGATE_DEMO_CATALOG", "TIDEGATE_DEMO_S3_SECRET")
    project = Project.load(ROOT, "demo-s3", dict.fromkeys(names, "http://127.0.0.1:1"))
    assert (project.storage.warehouse, project.storage.settings.catalog.type) == (
        "s3://lake/tidegate",
        "rest",
    )


def test_jobs_are_valid() -> None:
    jobs = load_jobs(ROOT)
    assert [s.name for s in jobs.schedules] == ["keep_flights_current"]
    assert [t.source for t in jobs.thresholds] == ["flights"]
