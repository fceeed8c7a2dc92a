"""Groups of one driver share its Python workers and cores: what one group's decoder does to them is its own affair."""

from __future__ import annotations

import time

import pytest

from tests.conftest import Workbench
from tests.risks.decoders import HANG, HOARDED, used
from tests.risks.shared import LIMIT, ran
from tests.support.ui import gone
from tidegate.testing.runner import QUICK

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.mark.long_run
def test_X2_what_a_group_leaves_in_the_shared_workers_and_what_it_wants_beyond_their_memory_harms_no_other(
    workbench: Workbench,
) -> None:
    """The workers' memory is Spark's own limit. A worker in which much was hoarded ends behind the task, so no task of
    whichever group comes finds it full, and no batch of theirs is tried again."""
    batches = LIMIT * (1 << 20) // HOARDED + 1
    said, groups = ran("memory", workbench.root, batches, 0.01, QUICK)
    assert said["alive"]
    assert said["failed"] == []
    assert said["committed"] == {one.name: batches for one in groups}
    # They have shared workers: otherwise nothing would have been shown here.
    assert said["workers of both"] >= 1
    assert said["kept at most"] == 0
    assert said["tried again"].keys() == {"greedy"}, said
    session = workbench.session()
    assert [text for one in groups for text in one.differences(session)] == []
    rejected = session.table("greedy$rejected").select("reason").collect()
    assert [row[0] for row in rejected] == ["crashed_decoder"]
    for name in ("hoards", "g0", "g1"):
        assert session.table(f"{name}$rejected").count() == 0


@pytest.mark.long_run
def test_R2_two_decoders_that_never_come_back_hold_no_other_group_and_what_ends_with_them_is_whole_or_absent(
    workbench: Workbench,
) -> None:
    said, groups = ran("loops", workbench.root, 2, 0.01, QUICK)
    assert said["failed"] == []
    assert said["committed"] == {"hangs0": 0, "hangs1": 0, "g0": 2, "g1": 2}
    hung = [process for process, _, word in used(workbench.root / "used") if word == HANG]
    assert len(hung) == 2
    # With the JVM, the processes of tasks that never end are gone, too.
    deadline = time.monotonic() + 20
    while not all(map(gone, hung)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    session = workbench.session()
    for one in groups:
        if one.marked:
            assert session.table(f"{one.name}$raw").count() == 0
        else:
            assert one.differences(session) == []
    # By decoders that do come back.
    session.run()
    session = workbench.session()
    assert [text for one in groups for text in one.differences(session)] == []
