"""The demo on S3 and REST: its environment, its two servers together, and a month of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from infra.demo_s3.__main__ import ENVIRONMENT, servers, stored
from tests.conftest import ROOT
from tests.support.flights import year
from tidegate.console import CaptureConsole
from tidegate.project import Project
from tidegate.project.storage import CATALOG
from tidegate.store.listing import table_names
from tidegate.store.metadata import load_table


@pytest.mark.long_run
@pytest.mark.medium
@pytest.mark.jvm
def test_tables_on_s3_in_a_rest_catalog_are_read_by_name_and_without_spark(tmp_path: Path) -> None:
    console = CaptureConsole()
    with servers(ROOT, tmp_path, console) as variables:
        storage = Project.load(ROOT, ENVIRONMENT, variables).storage
        assert table_names(storage, "main") == []
        catalog = load_catalog(CATALOG, **storage.pyiceberg_properties())
        catalog.create_namespace("main")
        rows = pa.table({"id": [1, 2]})
        table = catalog.create_table("main.readings", rows.schema)
        table.append(rows, snapshot_properties={"tidegate.epoch": "7"})
        assert table.location() == "s3://lake/tidegate/tables/main/readings"
        found = load_table(storage, "readings")
        assert found is not None
        assert (found.integer("tidegate.epoch"), found.metadata_location) == (7, table.metadata_location)
        # Metadata of both commits, the rows, their manifest, and its list.
        assert stored(storage)[0] == 5
    secret = variables["TIDEGATE_DEMO_S3_SECRET"]
    assert secret not in str(console.notes) + (tmp_path / "rest_catalog.log").read_text()


@pytest.mark.long_run
@pytest.mark.slow
@pytest.mark.spark
def test_january_on_s3_and_rest_is_that_of_the_independent_computation(tmp_path: Path) -> None:
    for folder in ("assets", "resources"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    sql = tmp_path / "assets" / "flights.sql"
    sql.write_text(sql.read_text().replace("'dep_time IS NOT NULL'", "'dep_time IS NOT NULL AND month = 1'"))
    command = [sys.executable, "-m", "infra.demo_s3", "--project", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    right = year(1)
    late = sum(right.late.values())
    line = (
        f"{right.rows:,} rows = {right.rows - late:,} on time + {late:,} late + 0 rejected: all counts agree"
    )
    assert line in done.stdout
    objects = re.search(r"s3://lake/tidegate: ([\d,]+) objects", done.stdout)
    assert objects is not None
    assert "departures_daily, departures_hourly, departures_rolling, flights" in done.stdout
    assert not (tmp_path / ".tidegate" / "warehouse").exists()
