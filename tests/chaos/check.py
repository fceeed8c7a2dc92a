"""In what the log and the views of `make chaos` differ from what `replay.py` says of the topic's rows. It is plain
Python, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.chaos.replay import (
    ANY_REASON,
    EMPTY,
    IDLE,
    Delivered,
    Judged,
    Mark,
    Replayed,
    Rules,
    Stored,
    Verdict,
    parse,
    replay,
)
from tests.oracles.oracle import Decision, Row, View, larger, windows_of


def check_rows(replayed: Replayed, raw: Mapping[str, Sequence[Judged]], verdict: Verdict) -> None:
    """(a), (b): every offset once in `$raw`, with the outcome, the watermark and the reason that the rules give.

    `raw`: by partition, in offset order.
    """
    for name in sorted(raw.keys() - replayed.decisions.keys()):
        verdict.differs("surplus row", f"partition {name} is not in the topic")
    for name, decisions in replayed.decisions.items():
        found, i = raw.get(name, ()), 0
        for decision in decisions:
            offset = decision.row.offset
            while i < len(found) and found[i].offset < offset:
                verdict.differs("surplus row", f"{name}/{found[i].offset} is not in the topic")
                i += 1
            if i == len(found) or found[i].offset > offset:
                verdict.differs("lost row", f"{name}/{offset}")
                continue
            judged, i = found[i], i + 1
            while i < len(found) and found[i].offset == offset:
                verdict.differs("doubled row", f"{name}/{offset} in epochs {judged.epoch}, {found[i].epoch}")
                i += 1
            verdict.rows += 1
            verdict.outcomes[judged.outcome] += 1
            _check_row(f"{name}/{offset}", decision, judged, verdict)
        for extra in found[i:]:
            verdict.differs("surplus row", f"{name}/{extra.offset} is not in the topic")


def _check_row(where: str, decision: Decision, judged: Judged, verdict: Verdict) -> None:
    if decision.outcome != judged.outcome:
        verdict.differs("decision", f"{where} is {judged.outcome}, and should be {decision.outcome}")
    elif decision.outcome == "late" and judged.missed != decision.missed:
        verdict.differs("missed watermark", f"{where} missed {decision.missed}, recorded {judged.missed}")
    elif decision.outcome == "rejected" and (
        # What stands behind a colon names the column, and is the engine's own to say.
        judged.reason is None or decision.reason not in (judged.reason.partition(":")[0], ANY_REASON)
    ):
        verdict.differs("reason", f"{where} is rejected as {judged.reason}, and should be {decision.reason}")


def check_history(
    topic: Mapping[str, Sequence[Stored]],
    history: Sequence[Mark],
    replayed: Replayed,
    rules: Rules,
    verdict: Verdict,
) -> None:
    """Whether the recorded history is one that the rules allow (W2, W6, W7, R3)."""
    by_epoch: dict[int, list[Mark]] = {}
    for mark in history:
        by_epoch.setdefault(mark.epoch, []).append(mark)
    verdict.epochs = len(by_epoch)
    if sorted(by_epoch) != list(range(1, len(by_epoch) + 1)):
        verdict.differs("history", f"epochs are not 1 to {len(by_epoch)}")
    g: int | None = None
    before: dict[str, Mark] = {}
    for epoch in sorted(by_epoch):
        source = [m for m in by_epoch[epoch] if m.partition is None]
        marks = {m.partition: m for m in by_epoch[epoch] if m.partition is not None}
        if len(source) != 1 or len(marks) + 1 != len(by_epoch[epoch]):
            verdict.differs("history", f"epoch {epoch} is recorded more than once, or without its source")
        for name in before.keys() - marks.keys():
            verdict.differs("history", f"epoch {epoch}: partition {name} is gone")
        for name, mark in marks.items():
            _check_mark(name, mark, before.get(name), topic.get(name, ()), replayed, rules, verdict)
        now = source[0].published if source else g
        if now != _publish(marks.values(), g):
            what = f"epoch {epoch}: G is {now}, and should be {_publish(marks.values(), g)}"
            verdict.differs("illegal G", what)
        if g is not None and (now is None or now < g):
            verdict.differs("illegal G", f"epoch {epoch}: G went back from {g} to {now}")
        g, before = now, marks


def _publish(marks: Iterable[Mark], previous: int | None) -> int | None:
    """W6: the minimum over the partitions that take part, once each has a watermark; never back."""
    taking_part = [m.watermark for m in marks if m.state not in (EMPTY, IDLE)]
    if not taking_part or any(w is None for w in taking_part):
        return previous
    return larger(previous, min(w for w in taking_part if w is not None))


def _check_mark(
    name: str,
    mark: Mark,
    previous: Mark | None,
    rows: Sequence[Stored],
    replayed: Replayed,
    rules: Rules,
    verdict: Verdict,
) -> None:
    where = f"epoch {mark.epoch}, partition {name}"
    expected = replayed.watermarks.get((mark.epoch, name))
    if mark.next_offset and mark.watermark != expected:
        verdict.differs("watermark", f"{where}: Wp is {mark.watermark}, and should be {expected}")
    if mark.on_time + mark.late + mark.rejected != mark.next_offset:
        verdict.differs("history", f"{where}: the counts do not add up to {mark.next_offset}")
    if previous is not None:
        if mark.next_offset < previous.next_offset:
            verdict.differs("history", f"{where}: the position went back")
        if previous.watermark is not None and (mark.watermark is None or mark.watermark < previous.watermark):
            verdict.differs("watermark", f"{where}: Wp went back from {previous.watermark}")
    if mark.state == EMPTY and rows and rows[0].appended < mark.at - rules.slack_ms:
        verdict.differs("state", f"{where}: empty, and had a row {mark.at - rows[0].appended} ms before")
    if mark.state == IDLE:
        verdict.idle_decisions += previous is None or previous.state != IDLE
        _check_idle(where, mark, previous, rows, rules, verdict)


def _check_idle(
    where: str,
    mark: Mark,
    previous: Mark | None,
    rows: Sequence[Stored],
    rules: Rules,
    verdict: Verdict,
) -> None:
    """W7, by the broker's own clock: nothing was unread, and nothing had arrived for `idle_timeout`."""
    if previous is not None and previous.next_offset != mark.next_offset:
        verdict.differs("state", f"{where}: idle, and rows of it were read")
    if mark.end is not None and mark.end != mark.next_offset:
        verdict.differs("state", f"{where}: idle at {mark.next_offset}, and the end was {mark.end}")
    # Offsets have no gaps here: nothing is compacted and nothing is transactional.
    position = mark.next_offset
    if position < len(rows) and rows[position].appended < mark.at - rules.slack_ms:
        waited = mark.at - rows[position].appended
        verdict.differs("state", f"{where}: idle, and offset {position} had waited {waited} ms")
    if 0 < position <= len(rows):
        quiet = mark.at - rows[position - 1].appended
        if quiet < rules.idle_timeout_ms - 1000:
            verdict.differs("state", f"{where}: idle after {quiet} ms of quiet")


def expected_windows(view: View, rows: Iterable[Row], g: int | None) -> dict[tuple, tuple]:
    """C2: (window_start, window_end, *keys) → aggregates, of every window that `g` closes."""
    members: dict[tuple, list] = {}
    for row in filter(view.where, rows):
        for start in windows_of(view, row.event_time):
            if g is not None and start + view.size <= g:
                key = (start, start + view.size, *(row.payload[k] for k in view.keys))
                totals = members.setdefault(key, [_START[f]() for f, _ in view.aggregates.values()])
                for i, (function, column) in enumerate(view.aggregates.values()):
                    totals[i] = _ADD[function](totals[i], 1 if column is None else row.payload[column])
    return {key: tuple(totals) for key, totals in members.items()}


def _extreme(choose: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: a if b is None else b if a is None else choose(a, b)


_START: dict[str, Callable[[], Any]] = {
    "count": lambda: 0,
    "sum": lambda: None,
    "min": lambda: None,
    "max": lambda: None,
}


_ADD: dict[str, Callable[[Any, Any], Any]] = {
    "count": lambda a, b: a + (b is not None),
    "sum": _extreme(lambda a, b: a + b),
    "min": _extreme(min),
    "max": _extreme(max),
}


def check_windows(view: View, replayed: Replayed, found: Iterable[tuple], verdict: Verdict) -> None:
    """(c): every closed window once, with its aggregates. `found`: (window_start, window_end, *keys, *aggregates)."""
    expected = expected_windows(view, replayed.on_time(), replayed.g)
    width = 2 + len(view.keys)
    seen: set[tuple] = set()
    for row in found:
        key, values = row[:width], row[width:]
        if key in seen:
            verdict.differs("doubled window", f"{view.name} {key}")
        elif key not in expected:
            verdict.differs("surplus window", f"{view.name} {key}")
        elif values != expected[key]:
            verdict.differs("wrong window", f"{view.name} {key} is {values}, and should be {expected[key]}")
        seen.add(key)
    for key in expected.keys() - seen:
        verdict.differs("lost window", f"{view.name} {key}")
    verdict.windows += len(expected)


#: The columns of a sorted row behind its time.
_COLUMNS = ("id", "sensor", "amount")


def check_sorted(replayed: Replayed, found: Sequence[tuple], verdict: Verdict) -> None:
    """C4: every row below `g` once, in the order of (event time, partition, offset). `found`: (ts, *_COLUMNS)."""
    expected = _released(replayed)
    verdict.sorted_rows += len(expected)
    _check_order("sorted row", "in_order", found, expected, verdict)


def _released(replayed: Replayed) -> list[tuple]:
    """(ts, *_COLUMNS) of every row below `g`, in order."""
    g = replayed.g
    due = [r for r in replayed.on_time() if g is not None and r.event_time < g]
    due.sort(key=lambda r: (r.event_time, r.partition, r.offset))
    return [_sorted_row(r) for r in due]


def _sorted_row(row: Row) -> tuple:
    return (row.event_time, *(row.payload.get(c) for c in _COLUMNS))


def check_delivered(replayed: Replayed, found: Iterable[Delivered], verdict: Verdict) -> None:
    """R2: every sorted row is one message of the sink, and those of a key are in order. `found`: in the order of
    (partition, offset)."""
    expected: dict[str | None, list[tuple]] = {}
    for row in _released(replayed):
        expected.setdefault(row[1 + _COLUMNS.index("sensor")], []).append(row)
    by_key: dict[str | None, list[tuple]] = {}
    ids: set[str] = set()
    for message in found:
        verdict.messages += 1
        if message.id in ids:
            verdict.differs("doubled message", message.id)
            continue
        ids.add(message.id)
        row = _sorted_row(parse("", Stored(0, 0, message.value)))
        by_key.setdefault(message.key, []).append(row)
    for key in sorted(expected.keys() | by_key.keys(), key=str):
        _check_order("message", f"key {key}", by_key.get(key, []), expected.get(key, []), verdict)


def _check_order(
    what: str, where: str, found: Sequence[tuple], expected: Sequence[tuple], verdict: Verdict
) -> None:
    """Whether the rows are those that should be there, in this order."""
    if list(found) == expected:
        return
    lacking, surplus = Counter(expected), Counter(found)
    lacking, surplus = lacking - surplus, surplus - lacking
    for kind, rows in ((f"lost {what}", lacking), (f"surplus {what}", surplus)):
        for row, count in rows.items():
            verdict.differs(kind, f"{where} {row}" + (f" {count} times" if count > 1 else ""))
    if not lacking and not surplus:
        at = next(i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
        verdict.differs(
            f"order of {what}s", f"{where}: row {at} is {found[at]}, and should be {expected[at]}"
        )


def check(
    topic: Mapping[str, Sequence[Stored]],
    raw: Mapping[str, Sequence[Judged]],
    history: Sequence[Mark],
    windows: Mapping[str, Iterable[tuple]],
    in_order: Sequence[tuple],
    rules: Rules,
    delivered: Iterable[Delivered] | None = None,
) -> Verdict:
    """All of one group. `windows`: rows of each of `rules.views`; `in_order`: (ts, id, sensor, amount) as released;
    `delivered`: what its sink's topic holds, None if it has no sink."""
    verdict = Verdict()
    replayed = replay(topic, history, rules, verdict)
    check_rows(replayed, raw, verdict)
    check_history(topic, history, replayed, rules, verdict)
    for view in rules.views:
        check_windows(view, replayed, windows[view.name], verdict)
    check_sorted(replayed, in_order, verdict)
    if delivered is not None:
        check_delivered(replayed, delivered, verdict)
    return verdict
