"""`tidegate erase`: what it asks for, and how it says what was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.fake import FakeSession
from tidegate.maintenance import erase
from tidegate.maintenance.erasure import ErasedTable, Erasure

Call = Callable[..., Any]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, fake: type[FakeSession]) -> list[tuple[Any, ...]]:
    """What was asked for; it says that it has erased 15 rows."""
    calls: list[tuple[Any, ...]] = []

    def erased(
        session: Any,
        name: str,
        where: str | None,
        raw: tuple[str, ...],
        *,
        keep_aggregates: bool,
        recompute: bool,
        drop_branches: bool,
        dry_run: bool,
        notify: Any,
    ) -> Erasure:
        calls.append((name, where, raw, dry_run or keep_aggregates or recompute))
        tables = [ErasedTable("orders", 15, 9, 5, 1, 3, 4), ErasedTable("hourly", marked=7)]
        tables += [ErasedTable("days", recomputed=True, marked=2)] if recompute else []
        tables += [ErasedTable("pr_7.hourly", dropped="pr-7")] if drop_branches else []
        return Erasure("orders", "1", "ada", "2026-03-01", tables, 2, ["the files are not tidegate's"])

    monkeypatch.setattr(erase, "erase", erased)
    return calls


def test_a_line_for_each_table(tidegate: Call, asked: list[tuple[Any, ...]]) -> None:
    assert "Example: tidegate erase" in tidegate("erase", "--help").stdout
    done = tidegate("erase", "orders", "WHERE", "id", "=", "4711", "--raw", "4711")
    assert done.exit_code == 0, done.output
    said = "orders: 15 rows (9 on time, 5 late, 1 rejected) erased: 3 files written again, 4 earlier snapshots removed"
    assert said in done.stdout
    assert "hourly: 7 windows marked; the counts and sums stay" in done.stdout
    assert "2 rejected rows could not be decoded" in done.stdout
    assert "orders: the files are not tidegate's" in done.output
    assert asked == [("orders", "id = 4711", ("4711",), False)]


def test_E9_who_wants_results_recomputed_is_told_what_stays(
    tidegate: Call, asked: list[tuple[Any, ...]]
) -> None:
    done = tidegate("erase", "orders", "id = 1", "--recompute")
    assert (
        "days: recomputed from the rows that are left; 2 windows marked, whose counts and sums stay"
        in done.stdout
    )
    looked = tidegate("erase", "orders", "id = 1", "--recompute", "--dry-run")
    assert "days: would be recomputed from the rows that are left" in looked.stdout
    both = tidegate("erase", "orders", "id = 1", "--recompute", "--keep-aggregates")
    assert (both.exit_code, len(asked)) == (2, 2)
    assert "and not both" in " ".join(both.output.split())


def test_X3_E9_tables_of_branches_that_are_dropped_are_named(
    tidegate: Call, asked: list[tuple[Any, ...]]
) -> None:
    done = tidegate("erase", "orders", "id = 1", "--drop-branches")
    assert 'pr_7.hourly: table of environment "pr-7" dropped' in done.stdout
    looked = tidegate("erase", "orders", "id = 1", "--drop-branches", "--dry-run")
    assert 'pr_7.hourly: table of environment "pr-7" would be dropped' in looked.stdout


def test_options_and_json(tidegate: Call, asked: list[tuple[Any, ...]]) -> None:
    done = tidegate("erase", "orders", "where  customer = 'ann'", "--dry-run", "--json")
    document = json.loads(done.stdout.splitlines()[-1])
    assert (document["dry_run"], document["by"], document["tables"][0]["late"]) == (True, "ada", 5)
    assert "would be erased" in tidegate("erase", "orders", "id = 1", "--dry-run").stdout
    tidegate("erase", "orders", "--resume")
    assert [call[1] for call in asked] == ["customer = 'ann'", "id = 1", None]


@pytest.mark.parametrize("words", [("orders",), ("orders", "id = 1", "--resume"), ("ordres", "id = 1")])
def test_what_is_not_clear_costs_no_spark(
    tidegate: Call, asked: list[tuple[Any, ...]], words: tuple[str, ...]
) -> None:
    assert tidegate("erase", *words).exit_code == 2
    assert asked == []
