"""What is told on a route, and when: once, again, when it is worse, when it is over, and not in quiet hours."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.alerts import State, plan
from tidegate.alerts.plan import route_name, takes
from tidegate.alerts.state import MOST_ALERTS, MOST_MESSAGES
from tidegate.findings import Finding, Waiting
from tidegate.project.jobs.alerts import Alerts, Quiet, Route

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)  # a Thursday
NIGHT = {"from": "22:00", "until": "07:00"}


def alerts(*routes: dict[str, Any]) -> Alerts:
    targets = [{"name": n, "url": "json://localhost"} for n in ("team", "boss")]
    return Alerts.model_validate(
        {"targets": targets, "routes": [{"to": ["team"]} | r for r in routes or ({},)]}
    )


def late(severity: str = "warning", asset: str = "flights", partition: str | None = "EWR") -> Finding:
    return Finding(
        kind="all_late",
        severity=severity,  # type: ignore[arg-type]
        asset=asset,
        partition=partition,
        text=f"{asset}: all rows are late",
        advice="look",
        since="2026-01-01T11:00:00+00:00",
        waiting=(Waiting("hourly", "12:00"),),
    )


class Days:
    """Looks one after the other; what was told at each."""

    def __init__(self, settings: Alerts, start: datetime = NOON) -> None:
        self.settings, self.now, self.state = settings, start, State()

    def look(self, findings: Iterable[Finding] = (), minutes: float = 1) -> list[str]:
        """After so many minutes: the titles of the messages, without the place."""
        self.now += timedelta(minutes=minutes)
        self.state = plan(self.settings, self.state, list(findings), self.now, "p/e")
        told, self.last = (
            [m.title.removeprefix("tidegate p/e: ") for m in self.state.outbox],
            self.state.outbox,
        )
        self.state = State.from_json(State(self.state.open).to_json())  # as a cursor keeps it
        return told


def test_it_is_told_once_with_all_that_one_needs() -> None:
    days = Days(alerts())
    assert days.look([late()]) == ["1 problem: flights"]
    [message] = days.last
    assert message.kind == "warning"
    assert message.body.splitlines() == [
        "WARNING all_late: flights: all rows are late",
        "waits: hourly (window_end 12:00)",
        "since: 2026-01-01T11:00:00+00:00",
        "do: look",
    ]
    assert [days.look([late()], 600) for _ in range(5)] == [[]] * 5


def test_recovery_after_it_has_settled() -> None:
    days = Days(alerts({"settle": "10 minutes"}))
    days.look([late()])
    assert days.look() == []
    assert days.look([late()]) == []  # it flickers: the same alert
    assert days.look([], 9) == []
    assert days.look([], 2) == ["1 over: flights"]
    assert days.last[0].kind == "success"
    assert "OVER all_late: flights, partition EWR, from 2026-01-01T12:01:00+00:00 to" in days.last[0].body
    assert days.look([], 60) == []
    assert days.look([late()]) == ["1 problem: flights"]
    silent = Days(alerts({"recovery": False}))
    silent.look([late()])
    assert silent.look([], 60) == []


def test_repeat_and_worse() -> None:
    days = Days(alerts({"repeat_after": "1 hour"}))
    days.look([late()])
    assert days.look([late()], 59) == []
    assert days.look([late()], 1) == ["1 still: flights"]
    assert days.last[0].body.startswith("STILL WARNING all_late")
    assert days.look([late("error")]) == ["1 problem: flights"]
    assert days.last[0].kind == "failure"
    assert days.look([late("warning")]) == []


def test_one_message_for_everything_of_a_look() -> None:
    days = Days(alerts())
    many = [late(partition=f"p{n}") for n in range(25)]
    assert days.look(many) == ["25 problems: flights"]
    assert days.last[0].body.endswith("and 15 more")
    assert days.look(many[5:], 1) == []
    assert days.look([*many[5:], late("error", "orders")], 10) == ["1 problem, 5 over: orders, flights"]


def test_nothing_is_over_while_nobody_can_look() -> None:
    days = Days(alerts({"settle": "1 minute"}))
    days.look([late(), late(asset="orders")])
    stopped = Finding("not_running", "error", "flights", "flights: not running", "start it")
    assert days.look([stopped, late(asset="orders")], 10) == ["1 problem: flights"]
    blind = Finding(
        "unreachable", "error", "shop", "no catalog", "look", numbers={"assets": ["flights", "orders"]}
    )
    assert days.look([blind], 10) == ["1 problem: shop"]
    assert days.look([blind], 10) == []
    assert days.look([], 10) == ["4 over: shop, flights, orders"]


def test_routes_by_severity_kind_and_asset() -> None:
    assert not takes(Route(to=["a"], severity="error"), late())
    assert not takes(Route(to=["a"], kinds=["idle"]), late())
    assert not takes(Route(to=["a"], assets=["orders"]), late())
    assert takes(Route(to=["a"], kinds=["all_late"], assets=["flights"]), late())
    failed = Finding("run_failed", "error", "job x", "t", "a", numbers={"assets": ["flights"]})
    assert takes(Route(to=["a"], assets=["flights"]), failed)
    days = Days(alerts({}, {"to": ["boss", "team"], "severity": "error"}))
    assert days.look([late("error")]) == ["1 problem: flights"] * 3
    assert sorted(m.target for m in days.last) == ["boss", "team", "team"]
    assert route_name(Route(to=["a"])) != route_name(Route(to=["a"], severity="error"))


def test_quiet_hours_hold_back_and_nothing_is_lost() -> None:
    days = Days(alerts({"quiet": NIGHT, "settle": "1 minute"}), NOON.replace(hour=23))
    assert days.look([late()]) == []
    assert days.look([late(asset="orders"), late()]) == []
    assert days.look([late()], 10) == []  # that of orders is over
    assert days.look([late(), late("error", "hourly")]) == ["1 problem: hourly"]  # errors get through
    assert days.look([late()], 10) == ["1 over: hourly"]  # and so does their end
    days.now = NOON.replace(day=2, hour=6, minute=58)
    assert days.look([late()]) == []
    assert days.look([late()]) == ["1 problem, 1 began and ended during quiet hours: flights, orders"]
    assert "BEGAN AND ENDED DURING QUIET HOURS all_late: orders" in days.last[0].body


def test_quiet_hours_that_let_nothing_through() -> None:
    days = Days(alerts({"quiet": NIGHT | {"lets_through": "none"}}), NOON.replace(hour=23))
    assert days.look([late("error")]) == []
    days.now = NOON.replace(day=2, hour=7)
    assert days.look([late("error")]) == ["1 problem: flights"]


def test_quiet_hours_know_days_and_zones() -> None:
    berlin = Quiet.model_validate(
        {"from": "22:00", "until": "07:00", "timezone": "Europe/Berlin", "days": ["fri"]}
    )
    friday = NOON.replace(day=2)
    assert [berlin.at(friday.replace(hour=h)) for h in (20, 21, 23)] == [False, True, True]
    assert [berlin.at(friday.replace(day=3, hour=h)) for h in (5, 6, 21)] == [True, False, False]
    weekend = Quiet.model_validate({"from": "00:00", "until": "00:00", "days": ["sat", "sun"]})
    assert [weekend.at(NOON.replace(day=d)) for d in (2, 3, 4, 5)] == [False, True, True, False]


@given(st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)), st.integers(0, 1439), st.integers(1, 1439))
def test_property_quiet_hours_are_as_long_as_they_say(at: datetime, begin: int, length: int) -> None:
    end = (begin + length) % 1440
    clock = "{:02}:{:02}".format
    quiet = Quiet.model_validate({"from": clock(*divmod(begin, 60)), "until": clock(*divmod(end, 60))})
    since = (at.hour * 60 + at.minute - begin) % 1440
    assert quiet.at(at.replace(tzinfo=UTC)) == (since < length)


looks = st.lists(st.tuples(st.sets(st.integers(0, 4)), st.integers(1, 400)), min_size=1, max_size=60)


@pytest.mark.medium
@given(looks, st.booleans(), st.sampled_from(["1 minute", "30 minutes"]))
def test_property_every_problem_is_told_once_and_is_over_once(
    history: list[tuple[set[int], int]], night: bool, settle: str
) -> None:
    """Whatever comes and goes: problems and ends of each cause alternate, and what lasts into the day is told."""
    days = Days(alerts({"settle": settle} | ({"quiet": NIGHT} if night else {})))
    open_: set[str] = set()
    for present, minutes in history:
        days.look([late(partition=str(n)) for n in sorted(present)], minutes)
        bodies = [m.body for m in days.last]
        quiet = night and days.settings.routes[0].quiet.at(days.now)
        assert not (quiet and bodies)
        for block in "\n\n".join(bodies).split("\n\n") if bodies else ():
            assert not block.startswith("STILL")
        told = {
            a.finding.partition for r in days.state.open.values() for a in r.values() if a.told is not None
        }
        new, over = told - open_, open_ - told
        text = "\n".join(bodies)
        assert text.count("WARNING all_late") == len(new)
        assert {p for p in over if f"OVER all_late: flights, partition {p}," in text} == over
        open_ = told
        if not quiet:
            assert {str(n) for n in present} <= told


def test_state_is_bounded_and_has_no_urls() -> None:
    days = Days(alerts())
    days.look([late(partition=str(n)) for n in range(3 * MOST_ALERTS)])
    assert sum(len(r) for r in days.state.open.values()) == MOST_ALERTS
    assert days.look([late(partition=str(n)) for n in range(3 * MOST_ALERTS)]) == []
    state, one = State(), alerts({"recovery": False})
    for n in range(MOST_MESSAGES + 7):
        state = plan(one, state, [late(partition=str(n))], NOON + timedelta(hours=n), "p/e")
    assert (len(state.outbox), dict(state.dropped)) == (MOST_MESSAGES, {"team": 7})
    assert "json://" not in str(state.to_json())
