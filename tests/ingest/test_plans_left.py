"""Plans that runs have left which broke off: nobody needs them, and they go."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.conftest import Workbench
from tidegate.ingest.stream import PlanInbox

pytestmark = pytest.mark.runner("inprocess")

SOURCE = """CREATE SOURCE events (id INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
WITH (connector = 'filesystem', path = 'input', max_files_per_batch = '1') FORMAT PLAIN ENCODE JSON;"""


def test_R2_the_plan_of_a_committed_batch_goes_whatever_came_between(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends after its commit, before it forgets the plan; and one that ends before its plan is in place."""
    workbench.assets(all=SOURCE)
    for number in range(2):
        workbench.json_lines(f"input/{number}.json", [{"id": number, "ts": f"2026-01-01 00:00:0{number}"}])
    session = workbench.session()
    with monkeypatch.context() as broken:
        broken.setattr(PlanInbox, "forget", lambda inbox, epoch: None)
        session.run()
    folder = workbench.root / ".tidegate/warehouse/_streams/main/events/plans"
    assert [file.name for file in sorted(folder.iterdir())] == ["plan-000000000001", "plan-000000000002"]
    (folder / ".plan-000000000002").write_text("{}")
    (folder / f".plan-000000000002.{uuid4().hex}").write_text("{}")
    (folder / "plan-000000000003").write_text("{}")  # of the batch that comes next: not ours to remove
    PlanInbox(session.project.storage, str(folder)).tidy(2)
    assert [file.name for file in folder.iterdir()] == ["plan-000000000003"]
    (folder / "plan-000000000003").unlink()
    (folder / "plan-000000000002").write_text("{}")
    # (A run that has nothing to read looks at nothing else.)
    workbench.json_lines("input/2.json", [{"id": 2, "ts": "2026-01-01 00:00:02"}])
    workbench.session().run()
    assert list(folder.iterdir()) == []
