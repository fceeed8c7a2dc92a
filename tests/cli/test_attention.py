"""What a status shows first: what needs attention."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.check.checking import Call
from tidegate.store.writers import FailingMember, LiveRecord, OverdueGroup, recorded


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


@pytest.mark.usefixtures("stored")
def test_status_names_a_group_that_hangs_above_all_else_and_since_when(tidegate: Call, shop: Path) -> None:
    since = time.time() - 905
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
    hangs = (OverdueGroup("orders", since, members=("orders",)), OverdueGroup("others", since, ticked=False))
    with recorded(shop / ".tidegate", "local", LiveRecord(1.0, 1.0, ("orders",), overdue=hangs)) as file:
        failing, whole = (tidegate("status", *more).stdout for more in (["--failing"], []))
        found = json.loads(tidegate("status", "--json").stdout)
        file.change(overdue=hangs[1:])
        of_others = tidegate("status", "--failing").stdout
    for text in (failing, whole):
        first, second = text.splitlines()[:2]
        assert first.endswith(
            f': the group "orders" is overdue: its last tick ended at {at}, 15 minutes 5 seconds ago'
        )
        assert f'"others" is overdue: it began at {at}, 15 minutes' in second
        assert second.endswith("ago, and its first tick has not finished")
    assert "orders_hourly" in whole
    assert "orders_hourly" not in failing
    assert found["attention"] == ["orders"]
    assert found["live"][0]["overdue"][0] == {
        "group": "orders",
        "since": since,
        "ticked": True,
        "members": ["orders"],
    }
    assert len(of_others.strip().splitlines()) == 1


@pytest.mark.usefixtures("stored")
def test_why_names_a_group_of_live_mode_that_hangs_also_for_who_asks_about_another_member(
    tidegate: Call, shop: Path
) -> None:
    hangs = (OverdueGroup("elsewhere", time.time() - 905, members=("orders_hourly", "elsewhere")),)
    record = LiveRecord(1.0, 1.0, ("orders_hourly", "elsewhere"), overdue=hangs)
    with recorded(shop / ".tidegate", "local", record) as file:
        told = tidegate("why", "orders_hourly", "--json")
        file.change(overdue=())
        assert "live_overdue" not in tidegate("why", "--json").stdout
    (finding,) = (one for one in json.loads(told.stdout)["findings"] if one["kind"] == "live_overdue")
    assert told.exit_code == 1
    assert (finding["asset"], finding["severity"]) == ("orders_hourly", "error")
    assert "15 minutes 5 seconds ago" in finding["text"]
