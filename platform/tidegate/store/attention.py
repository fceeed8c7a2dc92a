"""What of a status wants a person's attention: it is shown first, and alone where only that is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tidegate.store.sinks import SinkStatus
from tidegate.store.status_values import ProjectStatus, RelationStatus, ViewStatus

_One = TypeVar("_One", RelationStatus, ViewStatus, SinkStatus)
#: States of a partition (W8) that do not pass by themselves.
_STANDING = ("stalled", "future")


def wants_attention(one: RelationStatus | ViewStatus | SinkStatus, changed: Collection[str] = ()) -> bool:
    """Whether something is to be done about it. `changed`: names whose definition is not that of what is stored."""
    if one.name in changed:
        return True
    if isinstance(one, RelationStatus):
        standing = any(partition.state in _STANDING for partition in one.partitions)
        return one.broker_error is not None or bool(one.undeclared) or standing
    if isinstance(one, ViewStatus):
        return one.missing is not None or one.goes_back_to is not None or bool(one.lost_totals)
    return one.made_anew


def first_of_all(found: ProjectStatus, changed: Collection[str] = (), only: bool = False) -> ProjectStatus:
    """The same status with those that want attention at the front of each list, among them what fails in live mode, and
    of each group that hangs there the source or table. The others are behind them in their order, or (`only`) not at
    all."""
    concerned = _concerned(found, changed)

    def sorted_out(ones: Sequence[_One]) -> tuple[_One, ...]:
        ranked = sorted(ones, key=lambda one: not wants_attention(one, concerned))
        return tuple(one for one in ranked if not only or wants_attention(one, concerned))

    return replace(
        found,
        relations=sorted_out(found.relations),
        views=sorted_out(found.views),
        sinks=sorted_out(found.sinks),
        gates=sorted_out(found.gates),
    )


def document(found: ProjectStatus, changed: Collection[str] = ()) -> dict[str, Any]:
    """JSON-ready, as `first_of_all` has it; `attention`: the names of those that want it."""
    shown = first_of_all(found, changed)
    return shown.to_dict() | {"attention": attention(shown, changed)}


def attention(found: ProjectStatus, changed: Collection[str] = ()) -> list[str]:
    """The names of those that want attention."""
    concerned = _concerned(found, changed)
    return [one.name for one in found.all if wants_attention(one, concerned)]


def _concerned(found: ProjectStatus, changed: Collection[str]) -> set[str]:
    failing = (member.name for process in found.live for member in process.failing)
    return {*changed, *failing, *(one.group for process in found.live for one in process.overdue)}
