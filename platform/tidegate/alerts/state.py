"""What has been told to whom, and what still has to be: JSON-ready, bounded, without any URL or secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.findings.model import Finding, Severity, Waiting

#: Alerts of one route, and messages to one target, that are kept.
MOST_ALERTS = 200
MOST_MESSAGES = 50


@dataclass(frozen=True)
class Alert:
    """A finding on a route. `first`, `seen`: when it was first and last there; `told`: when it was last told, and with
    which severity (None: not yet, in quiet hours); s since 1970."""

    finding: Finding
    first: float
    seen: float
    told: float | None = None
    told_severity: Severity | None = None


@dataclass(frozen=True)
class Message:
    """To one target. `kind`: what it is about, in apprise's words (failure, warning, info, success). `made`: when, s
    since 1970. `tries` that failed, and why the last one did."""

    target: str
    title: str
    body: str
    kind: str
    made: float
    tries: int = 0
    problem: str | None = None


@dataclass(frozen=True)
class State:
    """`open`: by route and key of the finding. `outbox`: oldest first. `dropped`: by target, messages that were
    given up and of which it has not been told yet."""

    open: Mapping[str, Mapping[str, Alert]] = field(default_factory=dict)
    outbox: tuple[Message, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For a cursor."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> State:
        """The inverse; None gives an empty state."""
        if not values:
            return cls()
        return cls(
            {
                route: {key: _alert(alert) for key, alert in alerts.items()}
                for route, alerts in values["open"].items()
            },
            tuple(Message(**message) for message in values["outbox"]),
            dict(values["dropped"]),
        )


def _alert(values: Mapping[str, Any]) -> Alert:
    known = dict(values["finding"])
    known["waiting"] = tuple(Waiting(**w) for w in known["waiting"])
    return Alert(**{**values, "finding": Finding(**known)})
