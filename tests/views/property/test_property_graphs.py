"""Random graphs of views over inputs that lag each other: nothing too early, nothing lost (C2, C4, D1–D4)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import IN_PROCESS, SPARK, Workbench
from tests.views.property.graph_run import Progress, play_all

pytestmark = pytest.mark.runner("inprocess")

#: Graphs in CI; `make property` plays more. `TIDEGATE_GRAPHS_FIRST` is the first seed, `TIDEGATE_GRAPHS_PROGRESS` a
#: file by which a run goes on where it was stopped, one for each runner.
COUNT = {IN_PROCESS: 10, SPARK: 1}


@pytest.mark.slow
@pytest.mark.runner("inprocess", "spark", long_run="spark")
def test_property_C2_D2_D3_what_graphs_of_views_emit_is_the_final_truth(
    new_workbench: Callable[[], Workbench], runner: str
) -> None:
    first = int(os.environ.get("TIDEGATE_GRAPHS_FIRST", "0"))
    count = int(os.environ.get("TIDEGATE_GRAPHS_COUNT", str(COUNT[runner])))
    path = os.environ.get("TIDEGATE_GRAPHS_PROGRESS")
    file = Path(path).with_stem(f"{Path(path).stem}-{runner}") if path else None
    played = play_all(new_workbench, Progress(file, first, count), print)
    assert not played.failures, "\n".join(played.failures.values())
    # The generator is worth something: most of what it offers is a view, and the views emit rows.
    assert played.rows >= 5 * played.views
    assert played.views >= sum(played.refused.values())
