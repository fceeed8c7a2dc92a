"""Groups of one driver on Spark, in threads side by side: under the same names each has columns of other types."""

from __future__ import annotations

import pytest

from tests.conftest import Workbench
from tests.risks.groups import TYPES, Fed, Watched, drive
from tidegate.session.live_driver import Pace

pytestmark = [pytest.mark.spark, pytest.mark.medium]


@pytest.mark.parametrize("batches", [3, pytest.param(500, marks=pytest.mark.long_run)])
def test_W1_C2_groups_that_tick_at_the_same_time_are_each_as_if_they_were_alone(
    workbench: Workbench, batches: int
) -> None:
    groups = [Fed(workbench.root, f"g{n}", kind, n, [10 + 5 * n], seed=n) for n, kind in enumerate(TYPES)]
    workbench.assets(**{one.name: one.sql for one in groups})
    for one in groups:
        one.feed()
    watched = Watched(groups, batches)
    pace = Pace(interval=0.01, over=watched.over, threads=len(groups), upkeep=batches > 50)
    assert drive(workbench.session(), watched, pace)
    assert watched.failed == []
    again = workbench.session()
    for one in groups:
        assert one.differences(again) == []
        assert {decision.outcome for decision in one.oracle.decisions} == {"on_time", "late"}
        assert all(one.oracle.emitted.values())
