"""Explain: golden texts, and what must hold for all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.plan import golden_files
from tidegate.errors import TidegateError
from tidegate.plan.explain import explain
from tidegate.plan.stages import plan_for
from tidegate.sql import Catalog, load_catalog
from tidegate.watermark import TimeKind


@pytest.mark.parametrize("sql", golden_files.cases(), ids=lambda p: p.stem)
def test_golden(sql: Path) -> None:
    expected = sql.with_suffix(".txt").read_text()
    assert golden_files.render(sql) == expected, "python -m tests.plan.golden_files, then review the diff"


@pytest.fixture
def catalog() -> Catalog:
    sql = golden_files.FOLDER / "flights.sql"
    return load_catalog([("assets/flights.sql", sql.read_text())])


def test_a_view_s_plan_goes_from_source_to_sink(catalog: Catalog) -> None:
    assert [s.node for s in plan_for(catalog, "hourly")] == [
        *("source", "gate", "log", "slice"),
        *("step", "step", "step", "sink"),
    ]
    assert [s.node for s in plan_for(catalog, "flights")] == ["source", "gate", "log"]


def test_a_system_table_is_explained_by_its_source(catalog: Catalog) -> None:
    assert plan_for(catalog, "flights$late") == plan_for(catalog, "flights")


def test_unknown_names_are_refused_with_a_hint(catalog: Catalog) -> None:
    with pytest.raises(TidegateError) as caught:
        explain(catalog, "hourli")
    assert (caught.value.code, caught.value.hint) == ("TG201", 'did you mean "hourly"?')


def test_D1_the_watermark_of_a_window_end_is_the_end_of_the_earliest_open_window(catalog: Catalog) -> None:
    watermark = TimeKind.TIMESTAMP.parse("2013-01-01 05:10:00")
    text = str(explain(catalog, "hourly", marks={"flights": watermark}))
    assert re.search(r"window_end = tumble_end\(watermark, 1 hour\) +now 2013-01-01 06:00:00", text)
    assert "none yet" in str(explain(catalog, "hourly", marks={}))
    assert " now " not in str(explain(catalog, "hourly"))


def test_every_difference_names_a_rule(catalog: Catalog) -> None:
    for stage in plan_for(catalog, "hourly"):
        for difference in stage.differences:
            assert difference.rule[0] in "WSCDTRBA"


def test_the_namespace_of_the_environment_is_shown(catalog: Catalog) -> None:
    assert "lake.hourly, Iceberg" in str(explain(catalog, "hourly", namespace="lake"))
