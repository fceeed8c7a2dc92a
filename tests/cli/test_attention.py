"""What a status shows first: what needs attention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.check.checking import Call
from tidegate.store.writers import FailingMember, LiveRecord, recorded


@pytest.mark.usefixtures("stored")
def test_status_shows_what_fails_in_live_mode_with_its_error(tidegate: Call, shop: Path) -> None:
    assert "nothing needs attention" in tidegate("status", "--failing").stdout
    fails = FailingMember("orders", "orders_hourly", "view", "TG507", "Spark refuses the query", 4, 1.0)
    with recorded(shop / ".tidegate", "local", LiveRecord(1.0, 1.0, ("orders",), failing=(fails,))):
        text = tidegate("status", "--failing").stdout
        found = json.loads(tidegate("status", "--json").stdout)
    assert "orders_hourly (view) fails, try 4: TG507: Spark refuses the query" in text
    assert "nothing needs attention" not in text
    assert found["attention"] == ["orders_hourly"]
    assert found["live"][0]["failing"][0]["message"] == "Spark refuses the query"
