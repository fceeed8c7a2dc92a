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

    def carry_out(self, kind: type[S], work: Callable[[S], T]) -> T:
        """Do the work of the stage of this kind, which is given to it."""
        stage = next((one for one in self.planned if isinstance(one, kind)), None)
        if stage is None:
            raise AssertionError(f"a stage that no plan has: {kind.__name__}")
        return self._doing([stage], lambda: work(stage))

    def carry_out_all(self, kind: type[S], work: Callable[[], T]) -> T:
        """Do the work of all stages of this kind, of which there may be none, in one piece: steps of one query."""
        return self._doing([one for one in self.planned if isinstance(one, kind)], work)

    def _doing(self, stages: Sequence[Stage], work: Callable[[], T]) -> T:
        watcher = self._watcher()
        for stage in stages:
            if watcher is not None:
                watcher(stage)
        before = _CURRENT.set(stages[-1] if stages else _CURRENT.get())
        try:
            return work()
        finally:
            _CURRENT.reset(before)


def current_stage() -> Stage | None:
    """What is being carried out in this thread."""
    return _CURRENT.get()
