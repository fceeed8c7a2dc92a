"""The whole template project through the real engine, by the commands that its README names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("spark")
def test_from_init_to_audit(tidegate: Callable[..., Any]) -> None:
    run = [json.loads(line) for line in tidegate("run", "--json").stdout.splitlines()]
    report = run[-1]
    assert [(s["name"], s["on_time"], s["late"], s["rejected"]) for s in report["sources"]] == [
        ("orders", 12, 1, 1)
    ]
    assert [(v["name"], v["groups"], v["open"]) for v in report["views"]] == [
        ("orders_hourly", 4, 0),
        ("orders_daily", 0, 1),
    ]

    status = json.loads(tidegate("status", "--json").stdout)
    orders = status["relations"][0]
    assert (orders["raw"], orders["epoch"], orders["watermark_text"]) == (14, 1, "2026-03-01 11:10:00")
    by_name = {p["partition"]: (p["on_time"], p["late"], p["rejected"]) for p in orders["partitions"]}
    assert by_name == {"berlin": (6, 1, 0), "paris": (6, 0, 1)}
    assert [(v["frontier_text"], v["current"]) for v in status["views"]] == [
        ("2026-03-01 11:10:00", True)
    ] * 2

    text = "SELECT shop, orders, revenue FROM orders_hourly ORDER BY window_start, shop"
    rows = [json.loads(line) for line in tidegate("sql", "--json", "-c", text).stdout.splitlines()]
    assert [(r["shop"], r["orders"], r["revenue"]) for r in rows] == [
        ("berlin", 3, "49.75"),
        ("paris", 2, "43.00"),
        ("berlin", 2, "119.90"),
        ("paris", 3, "104.00"),
    ]

    late = json.loads(tidegate("late", "orders", "--json").stdout)
    assert [(r["order_id"], r["missed"], r["late_by"]) for r in late["rows"]] == [
        (5, "2026-03-01 09:52:00", "0:12:00")
    ]
    assert late["partitions"][0]["late %"] == 14.29

    audit = tidegate("audit", "orders_hourly", "--json")
    assert (audit.exit_code, json.loads(audit.stdout)["remainder"]) == (0, 0)
    several = tidegate("audit", "--select", "+orders_hourly")
    assert (several.exit_code, several.stdout.count("the audit found no differences")) == (0, 2)
    assert re.search(r"now 2026-03-01 12:00:00", tidegate("explain", "orders_hourly").stdout)
