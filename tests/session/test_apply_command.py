"""`tidegate apply`: the plan is carried out, nothing is replaced unasked, and what was killed goes on (E1, R2, R4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import Workbench
from tests.evolve.test_apply import BY_SHOP, opened, shown
from tests.evolve.test_plan import LARGEST
from tidegate.cli.invocation import Invocation
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.evolve.planning import planned
from tidegate.session.apply import apply
from tidegate.session.session import Session
from tidegate.views.versions.build import VersionBuild

pytestmark = pytest.mark.runner("inprocess")

HOURLY = """
CREATE MATERIALIZED VIEW hourly AS SELECT window_end, sum(most) AS most FROM TUMBLE(largest, window_end,
INTERVAL '1 hour') GROUP BY window_end EMIT ON WINDOW CLOSE;
"""
#: Reads a view that is recomputed, and is new.
BESIDE = """
CREATE MATERIALIZED VIEW beside AS SELECT window_end, max(most) AS most FROM TUMBLE(largest, window_end,
INTERVAL '2 hours') GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE SINK out FROM beside WITH (connector = 'filesystem', path = 'out') FORMAT PLAIN ENCODE JSON;
"""
ROWS = """INSERT INTO orders VALUES ('a', 1, 5, '2026-01-01 12:00:01'), ('b', 2, 7, '2026-01-01 12:00:02'),
('a', 1, 6, '2026-01-01 15:05:00')"""


def changed(workbench: Workbench) -> Session:
    """A deployed project of which a column was widened and one added, with one view that is new."""
    session = opened(workbench, "shop VARCHAR, amount INT, x INT", BY_SHOP + LARGEST + HOURLY)
    session.execute(ROWS)
    session.run()
    return opened(
        workbench, "shop VARCHAR, amount INT, x BIGINT, note VARCHAR", BY_SHOP + LARGEST + HOURLY + BESIDE
    )


def effects(session: Session) -> dict[str, str]:
    return {one.name: one.effect for one in planned(session.project, session.project.catalog())}


def call(monkeypatch: pytest.MonkeyPatch, session: Session, *arguments: str) -> Any:
    monkeypatch.setattr(Invocation, "project", lambda self: session.project)
    monkeypatch.setattr(Invocation, "session", lambda self, project: session)
    return CliRunner().invoke(app, ["apply", *arguments])


def test_E1_R4_the_plan_is_carried_out_and_results_are_replaced_only_if_somebody_agrees(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = changed(workbench)
    before = effects(session)
    assert before == {
        **{"orders": "in place", "per_minute": "unchanged", "largest": "new version"},
        **{"hourly": "new version", "beside": "new", "out": "new"},
    }
    refused = call(monkeypatch, session)
    assert (refused.exit_code, "TG535" in refused.stderr) == (2, True)
    assert "hourly: it reads largest, which is a new version; reads" in refused.stderr
    assert effects(session) == before
    asked: list[str] = []
    session.confirm = lambda text: bool(asked.append(text))
    with pytest.raises(TidegateError, match="TG535"):
        apply(session)
    assert (len(asked), effects(session)) == (1, before)

    done = call(monkeypatch, session, "--yes")
    assert done.exit_code == 0, done.output
    assert "largest: rebuilt because it was computed before a change" in done.stdout
    assert set(effects(session).values()) == {"unchanged"}
    assert shown(session, "SELECT most FROM largest ORDER BY 1") == [(5,), (7,)]
    assert shown(session, "SELECT most FROM beside") == [(7,)]
    assert len(shown(session, "SELECT * FROM per_minute")) == 2
    again = call(monkeypatch, session)
    assert (again.exit_code, again.stdout) == (0, "nothing to apply: all definitions are deployed\n")


def test_E1_nothing_is_applied_while_a_part_is_refused_but_others_can_be_named(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = "CREATE TABLE prices (n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
    session = opened(workbench, "shop VARCHAR, amount INT", BY_SHOP + prices)
    session.run()
    session = opened(workbench, "shop VARCHAR, amount BIGINT", BY_SHOP + prices.replace("n INT", "n VARCHAR"))
    stopped = call(monkeypatch, session, "--yes")
    assert (stopped.exit_code, "TG534" in stopped.stderr) == (2, True)
    assert "prices: column " in stopped.stderr
    assert effects(session)["orders"] == "in place"
    done = call(monkeypatch, session, "orders", "per_minute", "--yes", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout.splitlines()[-1])
    assert [one["view"] for one in data["rebuilt"]] == ["per_minute"]
    assert effects(session) == {"orders": "unchanged", "prices": "refused", "per_minute": "unchanged"}


class Killed(BaseException):
    """The process ends there."""


@pytest.mark.parametrize("when", [1, 2, 3, 4])
def test_R2_an_apply_that_was_killed_goes_on(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, when: int
) -> None:
    """Before or after the swap of the first or of the second view."""
    session = changed(workbench)
    swap: Callable[..., None] = VersionBuild._swap
    passed = 0

    def killed(*arguments: Any) -> None:
        nonlocal passed
        passed += 2
        if passed > when:
            raise Killed
        swap(*arguments)
        if passed == when:
            raise Killed

    session.confirm = lambda text: True
    with monkeypatch.context() as patched:
        patched.setattr(VersionBuild, "_swap", killed)
        with pytest.raises(Killed):
            apply(session)
    session = workbench.session()
    session.confirm = lambda text: True
    apply(session)
    assert set(effects(session).values()) == {"unchanged"}
    assert shown(session, "SELECT most FROM largest ORDER BY 1") == [(5,), (7,)]
    assert shown(session, "SELECT most FROM hourly") == [(12,)]
    assert shown(session, "SELECT most FROM beside") == [(7,)]
