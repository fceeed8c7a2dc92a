"""Stages are carried out: whatever is done for a source, view or sink is done by a stage of its plan.

`explain` prints the same values (`plan/stages.py`). A piece of work that belongs to no stage of the plan can't be
carried out; who watches hears of every stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tidegate.plan.stages import Stage

S = TypeVar("S")
T = TypeVar("T")

Watcher = Callable[["Stage"], None]
#: The stage that is being carried out in this thread.
_CURRENT: ContextVar[Stage | None] = ContextVar("stage", default=None)


class Stages:
    """The stages of one source, view or sink, as its plan has them. `watcher`: asked again for each stage, so that one
    who comes later hears of it, too."""

    def __init__(
        self, planned: Sequence[Stage], watcher: Callable[[], Watcher | None] = lambda: None
    ) -> None:
        self.planned = tuple(planned)
        self._watcher = watcher

    def carry_out(self, kind: type[S], work: Callable[[S], T], steps: type[Stage] | None = None) -> T:
        """Do the work of the stage of this kind, which is given to it. `steps`: of this kind are the stages that belong
        to the same piece of work, such as the steps of the query that gives a slice its rows."""
        stage = next((one for one in self.planned if isinstance(one, kind)), None)
        if stage is None:
            raise AssertionError(f"a stage that no plan has: {kind.__name__}")
        if (watcher := self._watcher()) is not None:
            watcher(stage)
            for one in self.planned:
                if steps is not None and isinstance(one, steps):
                    watcher(one)
        before = _CURRENT.set(stage)
        try:
            return work(stage)
        finally:
            _CURRENT.reset(before)


def current_stage() -> Stage | None:
    """What is being carried out in this thread."""
    return _CURRENT.get()
