"""`tidegate upkeep`: what it asks for, and how it says what was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.fake import FakeSession
from tidegate.maintenance import upkeep
from tidegate.maintenance.upkeep import TableUpkeep, UpkeepReport

Call = Callable[..., Any]
ORDERS = TableUpkeep(
    "orders", (120, 9), (400, 60), (12, 3), (3 << 20, 2 << 20), 115, 40, 2, 3.25, ["held by x"]
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, fake: type[FakeSession]) -> list[dict[str, Any]]:
    """What upkeep was asked for; it says that it has done ORDERS."""
    calls: list[dict[str, Any]] = []

    def maintain_all(
        session: Any, names: list[str] | None, policy: Any, **options: Any
    ) -> list[UpkeepReport]:
        calls.append({"names": names, "policy": policy("orders"), **options})
        return [UpkeepReport("orders", [ORDERS], 3.25)]

    monkeypatch.setattr(upkeep, "maintain_all", maintain_all)
    return calls


def test_a_table_of_what_was_done(tidegate: Call, asked: list[dict[str, Any]]) -> None:
    assert "Example: tidegate upkeep" in tidegate("upkeep", "--help").stdout
    done = tidegate("upkeep")
    assert done.exit_code == 0
    for text in ("120 → 9", "400 → 60", "12 → 3", "3.0 → 2.0", "40", "3.2"):
        assert text in done.stdout
    assert "orders: held by x" in done.output
    assert (asked[0]["names"], asked[0]["dry_run"], asked[0]["retention"]) == (None, False, True)


def test_options_and_json(tidegate: Call, asked: list[dict[str, Any]]) -> None:
    done = tidegate("upkeep", "orders", "--dry-run", "--no-retention", "--no-orphans", "--json")
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["dry_run"] is True
    assert document["upkeep"][0]["tables"][0]["snapshots"] == [400, 60]
    assert (asked[0]["names"], asked[0]["dry_run"]) == (["orders"], True)
    assert (asked[0]["retention"], asked[0]["orphans"]) == (False, False)


def test_unknown_names_cost_no_spark(tidegate: Call, asked: list[dict[str, Any]]) -> None:
    done = tidegate("upkeep", "ordres")
    assert done.exit_code == 2
    assert "orders" in done.output
    assert asked == []
