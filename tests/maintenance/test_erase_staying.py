"""E9: before anything is erased, it is known of each view whose rows stay that it can keep them, and that they show
nothing of the person."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.conftest import Workbench
from tests.maintenance.people import WHERE, WHO, arrive, define, erased, stored, there
from tests.maintenance.test_erase_views import HOURS, TOTALS
from tidegate.errors import TidegateError
from tidegate.maintenance.erasing import ErasingFile
from tidegate.session.session import Session
from tidegate.store.status import read_status
from tidegate.views.amend.rebuild import rebuild
from tidegate.views.amend.rollback import rollback

pytestmark = pytest.mark.runner("inprocess")

#: A view that shows the person, and what its file says then: it counts only, by itself or by a view that counts.
SHOWS = f"SELECT window_end, customer, count(*) AS n {HOURS} GROUP BY window_end, customer"
COUNTS = f"SELECT window_end, count(*) AS n {HOURS} GROUP BY window_end"
ABOVE = "SELECT window_end, n FROM days"
OTHER = f"SELECT window_end, count(id) AS n {HOURS} GROUP BY window_end"


def opened(workbench: Workbench, query: str, sink: str = "") -> Session:
    define(workbench.root, TOTALS, f"CREATE MATERIALIZED VIEW w AS {query} EMIT ON WINDOW CLOSE;", sink)
    session = workbench.session()
    session.confirm = lambda text: True
    return session


def refused(session: Session, code: str) -> TidegateError:
    """Nothing is begun, and nothing has changed."""
    before = stored(session), stored(session, "w"), stored(session, "totals")
    with pytest.raises(TidegateError) as caught:
        erased(session, keep_aggregates=True)
    assert caught.value.code == code, caught.value
    assert ErasingFile(session.project.storage, "orders").seen() is None
    assert (stored(session), stored(session, "w"), stored(session, "totals")) == before
    return caught.value


@pytest.mark.parametrize("query", [COUNTS, ABOVE])
@pytest.mark.parametrize("is_gone", [False, True])
def test_E9_stored_rows_are_looked_at_by_the_definition_that_they_have(
    workbench: Workbench, query: str, is_gone: bool
) -> None:
    """The file of a view says that it counts only, and what is stored of it shows the person."""
    arrive(workbench.root, 1, 2, 3)
    opened(workbench, SHOWS).run()
    session = opened(workbench, query)
    if is_gone:
        # As where it is beyond the retention of the log.
        table = session.tables.open(session.identifier("orders"))
        table.delete_rows(f"{WHERE} OR contains(_raw, '{WHO}')", table.current().facts, table.current())
    assert "tidegate apply w" in str(refused(session, "TG506").hint)
    assert any("/w/data/" in place for place in there(workbench.root))
    rebuild(session)
    erased(session, keep_aggregates=True)
    assert there(workbench.root) == set()


@pytest.mark.parametrize("back", [False, True])
def test_R2_E9_an_erasure_that_a_view_would_stop_is_not_begun(workbench: Workbench, back: bool) -> None:
    """Its windows can't be marked: its file has another query than its results have."""
    arrive(workbench.root, 1, 2, 3)
    opened(workbench, COUNTS).run()
    session = opened(workbench, OTHER)
    if back:
        rebuild(session)
        rollback(session, "w")
        session = opened(workbench, OTHER)
    refused(session, "TG506")
    rebuild(session)
    assert erased(session, keep_aggregates=True).rows == 15


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ("connector = 'filesystem', path = 'out', on_change = 'from_frontier'", True),
        ("connector = 'filesystem', path = 'out'", True),
        ("connector = 'filesystem', path = 'out', on_change = 'replay'", False),
    ],
)
def test_E6_E9_a_sink_keeps_the_version_from_which_it_goes_over(
    workbench: Workbench, options: str, needs: bool
) -> None:
    sink = f"CREATE SINK s FROM w WITH ({options}) FORMAT PLAIN ENCODE JSON;"
    arrive(workbench.root, 1, 2)
    opened(workbench, COUNTS, sink).run()
    arrive(workbench.root, 3)
    # (Without sinks: the rows of the third day are in both versions, and not delivered.)
    opened(workbench, COUNTS, sink).run(["orders", "totals", "w"])
    rebuild(session := opened(workbench, OTHER, sink))
    if needs:
        assert "tidegate run s" in str(refused(session, "TG542").hint)
        with pytest.raises(TidegateError, match="TG542") if "on_change" not in options else nullcontext():
            session.run(["s"])
        if "on_change" not in options:
            sink = sink.replace("WITH (", "WITH (on_change = 'from_frontier', ")
        session = opened(workbench, OTHER, sink)
        session.run(["s"])
    assert erased(session, keep_aggregates=True).rows == 15
    arrive(workbench.root, 4)
    session.run()
    [status] = read_status(session.project, ["s"]).sinks
    assert (status.current, status.waiting) == (True, 0)
