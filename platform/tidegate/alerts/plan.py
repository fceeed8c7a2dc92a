"""What is told of the findings of a look. Pure: no clock, no network.

A cause is told once on each route; again after `repeat_after` or when it has become worse; and once more when it is
over. Everything of one look is one message for each route and target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tidegate.alerts.state import MOST_ALERTS, MOST_MESSAGES, Alert, Message, State
from tidegate.findings.model import KINDS, Finding, iso, rank
from tidegate.project.jobs.alerts import Alerts, Route
from tidegate.project.reading.durations import format_duration

_ALL = frozenset(KINDS)
#: What hides whether other causes of the same asset still hold, and which it does not hide.
_HIDING = {
    "unreachable": frozenset({"unreachable"}),
    "not_running": frozenset({"unreachable", "not_running", "stuck"}),
    "stuck": frozenset({"unreachable", "not_running", "stuck"}),
}

#: Findings that a message spells out, and its longest body.
_SPELLED = 10
_LONGEST = 6_000


@dataclass
class _News:
    """What one route has to tell now."""

    new: list[Alert] = field(default_factory=list)
    still: list[Alert] = field(default_factory=list)
    over: list[Alert] = field(default_factory=list)
    passed: list[Alert] = field(default_factory=list)


def plan(alerts: Alerts, state: State, findings: Sequence[Finding], now: datetime, place: str) -> State:
    """The state after a look: what is open, and the messages to be sent. `place`: the project and environment,
    for titles. `now` has a time zone."""
    at = now.timestamp()
    opened: dict[str, dict[str, Alert]] = {}
    outbox = list(state.outbox)
    for route in alerts.routes:
        name = route_name(route)
        known, news = _route(route, state.open.get(name, {}), findings, now)
        opened[name] = known
        text = _written(news, at, place)
        if text is not None:
            outbox += [Message(target, *text, at) for target in route.to]
    dropped = dict(state.dropped)
    return replace(state, open=opened, outbox=_bounded(outbox, dropped), dropped=dropped)


def route_name(route: Route) -> str:
    """The same for the same route wherever it stands in the file; of a changed one another, which tells anew."""
    text = repr((sorted(route.to), route.severity, route.kinds, route.assets))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def takes(route: Route, finding: Finding) -> bool:
    """Whether a finding goes down a route."""
    if rank(finding.severity) < rank(route.severity):
        return False
    if route.kinds != "*" and finding.kind not in route.kinds:
        return False
    about = {finding.asset, *finding.numbers.get("assets", ())}
    return route.assets == "*" or bool(about & set(route.assets))


def _route(
    route: Route, before: Mapping[str, Alert], findings: Sequence[Finding], now: datetime
) -> tuple[dict[str, Alert], _News]:
    at, news = now.timestamp(), _News()
    after: dict[str, Alert] = {}
    quiet = route.quiet if route.quiet is not None and route.quiet.at(now) else None

    def held(finding: Finding) -> bool:
        return quiet is not None and not (quiet.lets_through == "error" and finding.severity == "error")

    for finding in findings:
        if not takes(route, finding) or finding.key in after:
            continue
        if finding.key not in before and len(after) >= MOST_ALERTS:
            continue  # the worst come first; `tidegate why` and the checks have them all
        old = before.get(finding.key) or Alert(finding, at, at)
        alert = replace(old, finding=finding, seen=at)
        if not held(finding):
            if alert.told is None or rank(finding.severity) > rank(alert.told_severity or "info"):
                alert = _told(alert, at)
                news.new.append(alert)
            elif route.repeat_after is not None and at - alert.told >= route.repeat_after:
                alert = _told(alert, at)
                news.still.append(alert)
        after[finding.key] = alert
    hidden = _hidden(findings)
    for key, alert in before.items():
        if key in after:
            continue
        if alert.finding.kind not in hidden.get(alert.finding.asset, _ALL):
            after[key] = replace(alert, seen=at)
        elif at - alert.seen < route.settle:
            after[key] = alert
        elif held(alert.finding) and (route.recovery or alert.told is None):
            after[key] = alert  # told when the quiet hours are over
        elif alert.told is None:
            news.passed.append(alert)
        elif route.recovery:
            news.over.append(alert)
    return after, news


def _hidden(findings: Iterable[Finding]) -> dict[str, frozenset[str]]:
    """Assets of which nobody can say now whether something is over, with the kinds of which one can all the same."""
    found: dict[str, frozenset[str]] = {}
    for finding in findings:
        if finding.kind in _HIDING:
            for name in (finding.asset, *finding.numbers.get("assets", ())):
                found[name] = found.get(name, _ALL) & _HIDING[finding.kind]
    return found


def _told(alert: Alert, at: float) -> Alert:
    return replace(alert, told=at, told_severity=alert.finding.severity)


def _written(news: _News, at: float, place: str) -> tuple[str, str, str] | None:
    """(title, body, kind), None where there is nothing to tell."""
    parts, titles = [], []
    problems = sorted(news.new, key=lambda a: -rank(a.finding.severity))
    for alerts, word, many in ((problems, "problem", "problems"), (news.still, "still", "still")):
        if alerts:
            titles.append(f"{len(alerts)} {word if len(alerts) == 1 else many}")
            parts += [_problem(alert, word == "still") for alert in alerts[:_SPELLED]]
            parts += _more(alerts)
    for alerts, word in ((news.over, "over"), (news.passed, "began and ended during quiet hours")):
        if alerts:
            titles.append(f"{len(alerts)} {word}")
            parts += [_gone(alert, word) for alert in alerts[:_SPELLED]]
            parts += _more(alerts)
    if not parts:
        return None
    told = [*problems, *news.still]
    assets = list(dict.fromkeys(a.finding.asset for a in (*told, *news.over, *news.passed)))
    named = ", ".join(assets[:3]) + (" …" if len(assets) > 3 else "")
    kind = "success" if news.over else "info"
    if told:
        worst = max((a.finding.severity for a in told), key=rank)
        kind = {"error": "failure", "warning": "warning", "info": "info"}[worst]
    body = "\n\n".join(parts)
    if len(body) > _LONGEST:
        body = body[:_LONGEST] + " …"
    return f"tidegate {place}: {', '.join(titles)}: {named}", body, kind


def _problem(alert: Alert, still: bool) -> str:
    finding = alert.finding
    lines = [f"{'STILL ' if still else ''}{finding.severity.upper()} {finding.kind}: {finding.text}"]
    if finding.waiting:
        shown = [f"{w.view} (window_end {w.window_end})" for w in finding.waiting[:5]]
        more = len(finding.waiting) - len(shown)
        lines.append(f"waits: {', '.join(shown)}{f' and {more} more' if more > 0 else ''}")
    lines.append(f"since: {finding.since or iso(alert.first)}")
    lines.append(f"do: {finding.advice}")
    return "\n".join(lines)


def _gone(alert: Alert, word: str) -> str:
    finding = alert.finding
    where = finding.asset if finding.partition is None else f"{finding.asset}, partition {finding.partition}"
    lasted = format_duration(alert.seen - alert.first)
    return f"{word.upper()} {finding.kind}: {where}, from {iso(alert.first)} to {iso(alert.seen)} ({lasted})"


def _more(alerts: Sequence[Alert]) -> list[str]:
    more = len(alerts) - _SPELLED
    return [f"and {more:,} more"] if more > 0 else []


def _bounded(outbox: list[Message], dropped: dict[str, int]) -> tuple[Message, ...]:
    """At most so many messages for a target; `dropped` is told how many oldest ones went."""
    kept: list[Message] = []
    counts: dict[str, int] = {}
    for message in reversed(outbox):
        counts[message.target] = counts.get(message.target, 0) + 1
        if counts[message.target] <= MOST_MESSAGES:
            kept.append(message)
        else:
            dropped[message.target] = dropped.get(message.target, 0) + 1
    return tuple(reversed(kept))
