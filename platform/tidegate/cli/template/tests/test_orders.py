"""Tests of this project. The first needs no Spark; the second runs everything, in a copy."""

import shutil
from pathlib import Path

import tidegate

ROOT = Path(__file__).parent.parent


def test_definitions_hold() -> None:
    assert tidegate.Project.load(ROOT).catalog().names() == ["orders", "orders_hourly", "orders_daily"]


def test_every_order_is_on_time_late_or_rejected(tmp_path: Path) -> None:
    for folder in ("assets", "data", "resources"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    with tidegate.connect(project=tmp_path) as session:
        orders = session.run().sources[0]
    assert (orders.on_time, orders.late, orders.rejected) == (12, 1, 1)
