"""At the end of a history: what the engine's own audit counts, and what it tells of revisions, by the oracles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.oracles.oracle import Row
from tests.oracles.windows import is_final
from tests.simulate.checks.check import Checks
from tests.simulate.checks.logs import Log
from tests.simulate.checks.wrong import Judged, Wrong
from tests.simulate.scripts.pipelines import seconds
from tests.simulate.scripts.views import View
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view

if TYPE_CHECKING:
    from tidegate.session.session import Session

#: Of a window: rows, of them late ones that no amendment has taken in, and rejected ones.
Counted = tuple[int, int, int]


def audit(checks: Checks, session: Session, whole: bool) -> None:
    """A1: the audit finds nothing wrong, and counts as the oracle does. `whole`: that of a view, too, and again in the
    source; it takes as long as a run. Raises Wrong."""
    for log in checks.logs.values():
        # (What a broker still has of a topic is not all that it had.)
        _audit_log(log, session, whole and log.source is None)
    if whole:
        _audit_view(checks, session, checks.views[checks.pipeline.views[0]])


def _audit_log(log: Log, session: Session, recount: bool) -> None:
    found = audit_source(session, log.name, recount=recount)
    told = {
        p.partition: (p.raw, p.on_time, p.late, p.rejected, p.counted, p.erased) for p in found.partitions
    }
    outcomes = Counter((place[0], one.outcome) for place, one in log.rows.items() if place not in log.erased)
    erased = Counter(place[0] for place in log.erased)
    # (What a topic has given twice is rejected the second time.)
    for (partition, _), repeats in log.repeats.items():
        outcomes[partition, "rejected"] += repeats
    right = {}
    for partition in {partition for partition, _ in outcomes} | set(told):
        counts = tuple(outcomes[partition, outcome] for outcome in ("on_time", "late", "rejected"))
        gone = erased[partition]
        right[partition] = (sum(counts), *counts, sum(counts) + gone, gone)
    if told != right:
        raise Wrong(f"A1: the audit counts {told} in the log of {log.name}, by the rules {right}")
    if recount and found.source_rows != len(log.given):
        raise Wrong(f"A1: the audit counts {found.source_rows} rows in the source of {len(log.given)}")
    if not found.ok:
        raise Wrong(f"A1: the audit of the log finds something wrong: {found.to_dict()}")


def _audit_view(checks: Checks, session: Session, view: View) -> None:
    found = audit_view(session, view.name)
    if not found.ok or found.batch.not_known:
        raise Wrong(f"A1: the audit of {view.name} finds something wrong: {found.to_dict()}")
    # (A row of a table WITH TTL may have been replaced before its window closed: there are no accounts of these.)
    # (What a window counts that was marked, because rows of it were erased, the audit has compared with its mark.)
    if view.windows is None or checks.pipeline.ttl or (checks.events.erased and checks.erasures.keeps(view)):
        return
    assert found.windows is not None
    frontier, log = checks.frontiers.get(view.name), checks.events
    right = _windows(checks, view, frontier)
    columns = ("_window_start", "_window_end", "raw", "late", "counted", "filtered", "rejected")
    told = {}
    for start, end, raw, late, counted, filtered, rejected in (
        found.windows.where("closed").select(*columns).collect()
    ):
        told[seconds(start), seconds(end)] = (raw, late, rejected)
        if raw != counted + late + rejected or filtered:
            raise Wrong(
                f"A1: of the {raw} rows in {start} of {view.name} {counted} count and {late} are late"
            )
    if told != right:
        raise Wrong(f"A1: the audit counts {told} in the windows of {view.name}, by the rules {right}")
    sums = (found.closed_windows, found.raw, found.late, found.rejected_without_time)
    timeless = sum(
        1 + log.repeats[place]
        for place, one in log.rows.items()
        if one.at is None and place not in log.erased
    )
    raws, lates, _ = (sum(counts) for counts in zip(*right.values(), strict=True)) if right else (0, 0, 0)
    expected = (len(right), raws, lates, timeless)
    if sums != expected:
        raise Wrong(f"A1: the audit of {view.name} sums up {sums}, by the rules {expected}")


def _windows(checks: Checks, view: View, frontier: int | None) -> dict[tuple[int, int], Counted]:
    """Of each closed window. An amendment has taken in every late row."""
    assert view.windows is not None
    raw, late, rejected = (Counter[tuple[int, int]]() for _ in range(3))
    log = checks.events
    for place, one in log.rows.items():
        for window in view.windows(one.at) if one.at is not None and place not in log.erased else ():
            if is_final(*window, frontier):
                # (What a topic has given twice is rejected the second time.)
                raw[window] += 1 + log.repeats[place]
                late[window] += one.outcome == "late" and checks.exact
                rejected[window] += log.repeats[place]
    return {window: (n, late[window], rejected[window]) for window, n in raw.items()}


def revisions(checks: Checks, session: Session, view: View) -> None:
    """B2: every revision is there, with its number, with how many late rows it has absorbed, and with what the view's
    query gives over these and the rows on time. Raises Wrong."""
    assert view.windows is not None
    columns = (*view.columns, "revision", "amended_at", "late_rows", "is_current", "is_tombstone")
    stored: dict[tuple[int, int], dict[int, list[dict[str, Any]]]] = {}
    for row in session.table(f"{view.name}$revisions").select(*columns).collect():
        one = {name: seconds(row[name]) for name in columns}
        window = one["window_start"], one["window_end"]
        stored.setdefault(window, {}).setdefault(one["revision"], []).append(one)
    late: dict[tuple[int, int], list[Judged]] = {}
    for _, judged in sorted(checks.events.rows.items(), key=lambda item: item[1].epoch):
        for window in _windows_of(view, judged) if judged.outcome == "late" else ():
            late.setdefault(window, []).append(judged)
    erased = {
        window for place in checks.events.erased for window in _windows_of(view, checks.events.rows[place])
    }
    for window, numbers in stored.items():
        # (A revision says how many late rows it has taken in, of which some have gone since; those of today are right.)
        if window not in erased:
            _revised(checks, view, window, numbers, late.get(window, []))
        elif any(checks.erasures.has(group) for groups in numbers.values() for group in groups):
            raise Wrong(f"E9: the revisions of {view.name} in {window} still have rows that were erased")


def _windows_of(view: View, judged: Judged) -> Sequence[tuple[int, int]]:
    return [] if judged.at is None or view.windows is None else view.windows(judged.at)


def _revised(
    checks: Checks,
    view: View,
    window: tuple[int, int],
    numbers: dict[int, list[dict[str, Any]]],
    late: Sequence[Judged],
) -> None:
    on_time = [row for row in checks.on_time(view) if window in view.windows_of(row)]
    rows = {row.payload["id"]: row for row in checks.late(view) if window in view.windows_of(row)}
    # One that nothing was on time for begins with 2, the first revision that has rows.
    first = 1 if on_time else 2
    where = f"B2: {view.name} in {window}"
    if sorted(numbers) != [*range(first, first + len(numbers))]:
        raise Wrong(f"{where}: the revisions are {sorted(numbers)}")
    absorbed, newest, amended_at = 0, max(numbers), None
    for number in sorted(numbers):
        groups = numbers[number]
        told = {
            (one["late_rows"], one["amended_at"], one["is_current"], one["is_tombstone"]) for one in groups
        }
        if len(told) != 1:
            raise Wrong(f"{where}: revision {number} says {told}")
        late_rows, at, current, tombstone = told.pop()
        if (late_rows is None, at is None) != (number == 1, number == 1) or current != (number == newest):
            raise Wrong(
                f"{where}: revision {number} of {newest} says {late_rows} rows, {at}, current: {current}"
            )
        if tombstone or (at is not None and amended_at is not None and at < amended_at):
            raise Wrong(f"{where}: revision {number} is a tombstone, or of {at}, before that of {amended_at}")
        absorbed, amended_at = absorbed + (late_rows or 0), at
        if 0 < absorbed < len(late) and late[absorbed - 1].epoch == late[absorbed].epoch:
            raise Wrong(f"{where}: revision {number} has a part of the late rows of a batch")
        taken: list[Row] = [rows[one.id] for one in late[:absorbed] if one.id is not None]
        right = Counter(
            row for row in view.truth([*on_time, *taken], window[1]) if view.window(row) == window
        )
        shown = Counter(tuple(one[name] for name in view.columns) for one in groups)
        if shown != right:
            raise Wrong(f"{where}: revision {number} holds {dict(shown)}, by the rules {dict(right)}")
    if absorbed != len(late):
        raise Wrong(f"{where}: {absorbed} late rows are absorbed of {len(late)}")
