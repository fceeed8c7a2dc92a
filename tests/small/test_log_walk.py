"""The engine's way from a topic into a log, in every world of a few rows: `make worlds` plays more of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.small.gate import Setting, played
from tests.small.log_walk import LogWalk
from tests.small.walk import WrongError
from tidegate.iceberg import progress
from tidegate.iceberg.progress import LogProgress
from tidegate.ingest import ingest
from tidegate.ingest.stream import PlanInbox
from tidegate.watermark import gate

#: By a delay of 1, event times below the watermark, at it and above.
QUICK = LogWalk(times=(0, 1, 2), most=2, late=False)
LATE = LogWalk(times=(0, 2), most=2)


@pytest.fixture(autouse=True)
def _values() -> Iterator[None]:
    with played():
        yield


@pytest.mark.medium
@pytest.mark.parametrize("setting", [Setting(), Setting("ahead"), Setting(expires=True)], ids=str)
def test_W1_W2_W4_W6_T1_R1_R2_R3_wherever_a_process_ends(setting: Setting) -> None:
    """All orders of arrival, all cuts into batches, an end before each effect and a new process, as often as it
    happens."""
    counted = replace(QUICK, setting=setting).walk()
    assert counted.worlds > 400
    assert counted.cases > 5_000


@pytest.mark.medium
def test_R1_R2_a_commit_that_is_late_takes_effect_once_or_never() -> None:
    """What a process had asked for when it ended is stored at any time later, also between two effects of the next one;
    and a process whose answer is lost looks for its commit."""
    counted = LATE.walk()
    assert counted.worlds > 900
    assert counted.cases > 10_000


def _expects(walk: LogWalk, rule: str) -> None:
    with pytest.raises(WrongError, match=rule):
        walk.walk()


def _strictly(real: Callable[..., Any]) -> Callable[..., Any]:
    """`<=` for `<`, and `<` for `<=`."""
    return lambda time, own, published, expires=False: real(time, own, published, not expires)


def test_W1_the_walk_notices_a_row_at_the_watermark_that_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "is_late", _strictly(gate.is_late))
    _expects(QUICK, "W1")


def test_T1_the_walk_notices_a_change_at_the_watermark_that_is_on_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "is_late", _strictly(gate.is_late))
    _expects(replace(QUICK, setting=Setting(expires=True)), "W1")


def test_W6_the_walk_notices_a_watermark_that_does_not_wait_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    real = progress.publish
    monkeypatch.setattr(
        progress, "publish", lambda marks, before: real([m for m in marks if m is not None], before)
    )
    _expects(QUICK, "W6")


def test_R1_the_walk_notices_rows_without_their_state(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LogProgress.after

    def after(self: LogProgress, *given: Any, **named: Any) -> LogProgress:
        return replace(real(self, *given, **named), states=dict(self.states))

    monkeypatch.setattr(LogProgress, "after", after)
    with pytest.raises((WrongError, AssertionError)):
        QUICK.walk()


def test_W4_the_walk_notices_a_plan_that_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlanInbox, "read", lambda self, epoch: None)
    _expects(QUICK, "W4")


def test_R2_the_walk_notices_a_commit_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "going_on", lambda base, now: now)
    _expects(LATE, "R")
