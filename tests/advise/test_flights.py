"""`advise flights`: the clause that it recommends has, when it is run, exactly the completeness that was predicted."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.conftest import ROOT, Workbench
from tidegate.advise.advice import advise
from tidegate.session.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.long_run, pytest.mark.runner("inprocess")]


def played(workbench: Workbench, clause: str | None = None) -> Session:
    """Two days of flights in the log, judged by the clause (None: as the demo declares it)."""
    for name in ("flights.sql", "nycflights13.py"):
        shutil.copy(ROOT / "assets" / name, workbench.root / "assets" / name)
    path = workbench.root / "assets" / "flights.sql"
    text = path.read_text().replace(
        "'dep_time IS NOT NULL'", "'dep_time IS NOT NULL AND month = 1 AND day <= 2'"
    )
    if clause is not None:
        text, found = re.subn(r"WATERMARK FOR sched_dep AS .*", clause, text)
        assert found == 1
    path.write_text(text)
    session = workbench.allow(python=True).session()
    session.run(["flights"], max_rows_per_batch=1_000)
    return session


def test_the_recommended_clause_keeps_what_was_predicted(new_workbench) -> None:
    advice = advise(played(new_workbench()), "flights", target=0.975)
    assert advice.exact
    assert advice.curve.at(advice.recommended) >= 0.975
    assert all(advice.curve.at(d) < 0.975 for d in advice.curve.delays if d < advice.recommended)
    # The declared hour is on the curve, and the log has counted it.
    assert advice.recorded_late == advice.rows - advice.curve.on_time(advice.declared_delay or 0)
    for each in advice.together:
        assert each.together >= each.own

    again = played(new_workbench(), advice.clause)
    counts = {
        r["outcome"]: r["count"] for r in again.table("flights$raw").groupBy("outcome").count().collect()
    }
    assert counts == {"on_time": advice.choice.on_time, "late": advice.choice.late}
