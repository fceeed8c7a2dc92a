"""The harness must notice what goes wrong: a scene without fault passes, and each fault put into it is reported."""

from __future__ import annotations

import ast
import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.chaos.check import check, expected_windows
from tests.chaos.export import load
from tests.chaos.load import ADDED, BIG, DELAY_SECONDS, EMPTY, LATE_SHARE, SLEEPER, Load
from tests.chaos.project import SORTED, SORTED_COLUMNS, VIEWS
from tests.chaos.replay import Delivered, Judged, Mark, Replayed, Rules, Stored, Verdict, parse, replay
from tests.chaos.report import Outage, unfelt, vacuous
from tests.oracles.oracle import Oracle, View, larger

ROWS, BATCH, IDLE_MS = 6_000, 250, 60_000
TUMBLE = View(
    "per_minute", 60_000_000, keys=("sensor",), aggregates={"n": ("count", None), "sum": ("sum", "amount")}
)
HOP = View(
    "rolling", 60_000_000, slide=20_000_000, aggregates={"low": ("min", "id"), "known": ("count", "amount")}
)
RULES = Rules(DELAY_SECONDS * 1_000_000, IDLE_MS, views=(TUMBLE, HOP))
#: The broker's clock, ms: a row of the load arrives every 100 ms.
CLOCK, EVERY = 1_790_000_000_000, 100


@dataclass
class Scene:
    """What a run without fault leaves behind."""

    topic: dict[str, list[Stored]] = field(default_factory=dict)
    raw: dict[str, list[Judged]] = field(default_factory=dict)
    history: list[Mark] = field(default_factory=list)
    windows: dict[str, list[tuple]] = field(default_factory=dict)
    in_order: list[tuple] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)

    def verdict(self) -> Verdict:
        return check(self.topic, self.raw, self.history, self.windows, self.in_order, RULES, self.delivered)


def play() -> Scene:
    """The load, cut into batches: an engine that makes no mistake, with partitions that idle, wake and appear."""
    scene, clock = Scene(), CLOCK
    oracle = Oracle(
        lambda row: (
            None if row.event_time > clock * 1000 + RULES.future_skew else row.event_time - RULES.delay
        )
    )
    read: dict[str, int] = {}
    states: dict[str, str] = {}
    messages = list(Load(ROWS, seed=3).messages())
    for epoch, start in enumerate(range(0, ROWS, BATCH), 1):
        for i, message in enumerate(messages[start : start + BATCH], start):
            stored = scene.topic.setdefault(str(message.partition), [])
            stored.append(Stored(len(stored), CLOCK + i * EVERY, message.value))
        clock = CLOCK + (start + BATCH) * EVERY
        exist = [str(p) for p in range(ADDED + (str(ADDED) in scene.topic))]
        for name in exist:
            rows = scene.topic.get(name, [])
            if not rows:
                states[name] = "empty"
                continue
            if states.get(name, "empty") in ("empty", "idle"):
                oracle.wp[name] = (
                    larger(oracle.wp.get(name), oracle.g)
                    if len(rows) > read.get(name, 0)
                    else oracle.wp[name]
                )
            for row in rows[read.get(name, 0) :]:
                decision = oracle.read(parse(name, row))
                judged = Judged(row.offset, decision.outcome, decision.found, decision.reason, epoch)
                scene.raw.setdefault(name, []).append(judged)
            read[name] = len(rows)
            states[name] = "idle" if clock - rows[-1].appended > IDLE_MS else "active"
        taking_part = [oracle.wp[n] for n in exist if states[n] == "active"]
        if all(w is not None for w in taking_part):
            oracle.g = larger(oracle.g, min(taking_part))
        scene.history.append(Mark(epoch, clock, None, oracle.g, oracle.g, "active", 0, 0, 0, 0))
        for name in exist:
            outcomes = [j.outcome for j in scene.raw.get(name, [])]
            counts = [outcomes.count(o) for o in ("on_time", "late", "rejected")]
            mark = Mark(
                epoch, clock, name, oracle.wp.get(name), oracle.g, states[name], read.get(name, 0), *counts
            )
            scene.history.append(replace(mark, end=mark.next_offset))
    verdict = Verdict()
    replayed = replay(scene.topic, scene.history, RULES, verdict)
    for view in RULES.views:
        groups = expected_windows(view, replayed.on_time(), oracle.g)
        scene.windows[view.name] = [key + values for key, values in groups.items()]
    scene.in_order = in_order(replayed, oracle.g)
    scene.delivered = [as_message(i, *row) for i, row in enumerate(scene.in_order)]
    return scene


def as_message(number: int, ts: int, id_: int, sensor: str, amount: int | None) -> Delivered:
    """A row of the sorted view as a sink sends it."""
    stamp = (datetime(1970, 1, 1) + timedelta(microseconds=ts)).isoformat(timespec="microseconds")
    value = {"ts": stamp, "id": id_, "sensor": sensor, "amount": amount}
    return Delivered(f"delivery/{number}", sensor, json.dumps(value).encode())


def in_order(replayed: Replayed, g: int | None) -> list[tuple]:
    rows = sorted(
        (r.event_time, r.partition, r.offset, r.payload["id"], r.payload["sensor"], r.payload["amount"])
        for r in replayed.on_time()
        if g is not None and r.event_time < g
    )
    return [(row[0], *row[3:]) for row in rows]


@pytest.fixture(scope="module")
def _scene() -> Scene:
    return play()


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    """A copy, to be spoiled."""
    return Scene(
        dict(_scene.topic),
        {name: list(rows) for name, rows in _scene.raw.items()},
        list(_scene.history),
        {name: list(rows) for name, rows in _scene.windows.items()},
        list(_scene.in_order),
        list(_scene.delivered),
    )


@pytest.mark.medium
def test_a_run_without_fault_has_no_differences(scene: Scene) -> None:
    verdict = scene.verdict()
    assert verdict.examples == {}
    assert verdict.rows == ROWS
    assert all(verdict.outcomes[outcome] > 0 for outcome in ("on_time", "late", "rejected"))
    assert min(verdict.windows, verdict.sorted_rows, verdict.idle_decisions, verdict.wakings) > 0
    assert verdict.late_after_waking > 0
    assert verdict.messages == verdict.sorted_rows
    assert vacuous("events", verdict, with_sink=True) == []


@pytest.mark.medium
def test_what_is_found_of_several_groups_is_counted_together_and_named(scene: Scene) -> None:
    total = Verdict()
    total.add("events", scene.verdict())
    shift_window(scene, "rolling")
    total.add("events_2", scene.verdict())
    assert (total.rows, total.total) == (2 * ROWS, 1)
    assert sum(total.outcomes.values()) == 2 * ROWS
    ((kind, (example,)),) = total.examples.items()
    assert kind == "wrong window"
    assert example.startswith("events_2: rolling (")


def test_a_comparison_of_nothing_and_an_outage_that_nothing_felt_or_that_stopped_all_are_failures() -> None:
    assert len(vacuous("events", Verdict(), with_sink=True)) == 6
    assert "events: there were no messages of its sink" not in vacuous("events", Verdict(), with_sink=False)
    felt = Outage("gone", 9.0, failures=2, commits=[{"events": 3}, {"events": 1}])
    stopped = Outage("hangs", 180.0, failures=1, commits=[{"events": 1}, {"events": 0}])
    wrong = unfelt([felt, Outage("gone", 5.0, commits=[{"events": 4}]), stopped])
    assert [text.split(":")[0] for text in wrong] == ["outage 2 (gone, 5 s)", "outage 3 (hangs, 180 s)"]


def spoil_row(scene: Scene, **changes: object) -> None:
    """Change the first row that the outcome in `of` has (default: on time)."""
    of = changes.pop("of", "on_time")
    rows = scene.raw["0"]
    i = next(i for i, row in enumerate(rows) if row.outcome == of)
    rows[i] = rows[i]._replace(**changes)


def spoil_mark(scene: Scene, which: Callable[[Mark], bool], **changes: object) -> None:
    """Change the last entry of the history that `which` chooses."""
    i = max(i for i, mark in enumerate(scene.history) if which(mark))
    scene.history[i] = replace(scene.history[i], **changes)


def source(mark: Mark) -> bool:
    return mark.partition is None


def first(mark: Mark) -> bool:
    return mark.partition == "0"


def asleep(mark: Mark) -> bool:
    return mark.partition == str(SLEEPER) and mark.state == "idle"


def shift_window(scene: Scene, view: str) -> None:
    rows = scene.windows[view]
    rows[0] = (*rows[0][:-1], (rows[0][-1] or 0) + 1)


def move_window(scene: Scene) -> None:
    start, end, *rest = scene.windows["rolling"][0]
    scene.windows["rolling"][0] = (start - 60_000_000, end - 60_000_000, *rest)


def go_back(scene: Scene) -> None:
    last = max(mark.epoch for mark in scene.history)
    spoil_mark(
        scene,
        lambda m: source(m) and m.epoch == last,
        published=min(m.published or 0 for m in scene.history) - 1,
    )


def jump_ahead(scene: Scene) -> None:
    spoil_mark(scene, source, published=max(m.published or 0 for m in scene.history) + 1)


def sleep_early(scene: Scene) -> None:
    """Idle, and rows had arrived just before."""
    spoil_mark(scene, first, state="idle")


def swap(scene: Scene) -> None:
    rows = scene.in_order
    i = next(i for i in range(len(rows) - 1) if rows[i] != rows[i + 1])
    rows[i], rows[i + 1] = rows[i + 1], rows[i]


def swap_messages(scene: Scene) -> None:
    """Two of one key."""
    sent = scene.delivered
    j = next(j for j in range(1, len(sent)) if sent[j].key == sent[0].key and sent[j].value != sent[0].value)
    sent[0], sent[j] = sent[j], sent[0]


def swap_keys(scene: Scene) -> None:
    """Two of different keys: no order is promised."""
    sent = scene.delivered
    j = next(j for j in range(1, len(sent)) if sent[j].key != sent[0].key)
    sent.insert(0, sent.pop(j))


@pytest.mark.medium
def test_messages_of_different_keys_have_no_order(scene: Scene) -> None:
    swap_keys(scene)
    assert scene.verdict().examples == {}


FAULTS: dict[str, tuple[str, Callable[[Scene], object]]] = {
    "a row is lost": ("lost row", lambda s: s.raw["1"].pop(77)),
    "the last row is lost": ("lost row", lambda s: s.raw["1"].pop()),
    "a row is there twice": ("doubled row", lambda s: s.raw["1"].insert(78, s.raw["1"][77])),
    "a row is nobody's": ("surplus row", lambda s: s.raw["0"].append(s.raw["0"][-1]._replace(offset=10**9))),
    "a partition is nobody's": ("surplus row", lambda s: s.raw.update({"99": s.raw["0"]})),
    "a decision is flipped": ("decision", lambda s: spoil_row(s, outcome="late")),
    "a late row is shown": ("decision", lambda s: spoil_row(s, of="late", outcome="on_time")),
    "another watermark was missed": ("missed watermark", lambda s: spoil_row(s, of="late", missed=1)),
    "no reason is given": ("reason", lambda s: spoil_row(s, of="rejected", reason=None)),
    "an aggregate is off by one": ("wrong window", lambda s: shift_window(s, "per_minute")),
    "an aggregate of a hop is off by one": ("wrong window", lambda s: shift_window(s, "rolling")),
    "a window is elsewhere": ("surplus window", move_window),
    "a window is lost": ("lost window", lambda s: s.windows["per_minute"].pop()),
    "a window is there twice": (
        "doubled window",
        lambda s: s.windows["rolling"].append(s.windows["rolling"][0]),
    ),
    "a released row is lost": ("lost sorted row", lambda s: s.in_order.pop(5)),
    "a released row is there twice": ("surplus sorted row", lambda s: s.in_order.insert(5, s.in_order[5])),
    "the release is out of order": ("order of sorted rows", swap),
    "a message is lost": ("lost message", lambda s: s.delivered.pop(7)),
    "a message is there twice": ("doubled message", lambda s: s.delivered.append(s.delivered[7])),
    "a row is sent as two messages": (
        "surplus message",
        lambda s: s.delivered.append(s.delivered[-1]._replace(id="delivery/other")),
    ),
    "a message is empty": (
        "surplus message",
        lambda s: s.delivered.__setitem__(7, s.delivered[7]._replace(value=None)),
    ),
    "a message has another key": (
        "surplus message",
        lambda s: s.delivered.__setitem__(7, s.delivered[7]._replace(key="s99")),
    ),
    "messages of a key are out of order": ("order of messages", swap_messages),
    "G goes back": ("illegal G", go_back),
    "G runs ahead": ("illegal G", jump_ahead),
    "Wp is another": ("watermark", lambda s: spoil_mark(s, first, watermark=1)),
    "a partition sleeps too early": ("state", sleep_early),
    "a partition sleeps with rows unread": ("state", lambda s: spoil_mark(s, asleep, end=10**9)),
    "counts do not add up": ("history", lambda s: spoil_mark(s, first, late=10**6)),
    "an epoch is missing": ("history", lambda s: s.history.__setitem__(slice(0, 6), [])),
    "rows are never read": (
        "unread",
        lambda s: s.topic.update({"0": [*s.topic["0"], Stored(10**6, CLOCK, b"{}")]}),
    ),
}


@pytest.mark.medium
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_reported(scene: Scene, fault: str) -> None:
    kind, spoil = FAULTS[fault]
    spoil(scene)
    verdict = scene.verdict()
    assert kind in verdict.differences, f"{fault}: {verdict.examples}"
    assert verdict.total > 0


def test_the_load_has_what_it_promises() -> None:
    messages = list(Load(ROWS, seed=3).messages())
    assert messages == list(Load(ROWS, seed=3).messages())
    assert messages != list(Load(ROWS, seed=4).messages())
    sizes = [sum(m.partition == p for m in messages) for p in range(ADDED + 1)]
    assert sizes == [*sorted(sizes[:EMPTY], reverse=True), *sizes[EMPTY:]]
    assert min(sizes) > 0
    assert sum(m.value is not None and len(m.value) > BIG for m in messages) == 1
    rows = [parse("0", Stored(i, 0, m.value)) for i, m in enumerate(messages)]
    assert 0 < sum(row.reject is not None for row in rows) < ROWS * LATE_SHARE


@pytest.mark.medium
def test_an_export_is_read_as_it_was_written(scene: Scene, tmp_path: Path) -> None:
    def write(name: str, rows: list[dict]) -> None:
        (tmp_path / name).mkdir()
        # In two files, as two tasks leave them.
        for part, some in enumerate((rows[: len(rows) // 2], rows[len(rows) // 2 :])):
            schema = pa.Table.from_pylist(rows).schema
            pq.write_table(pa.Table.from_pylist(some, schema), tmp_path / name / f"part-0000{part}.parquet")

    write("history", [vars(mark) for mark in scene.history])
    rows = [{"partition": p} | row._asdict() for p, found in scene.raw.items() for row in found]
    random.Random(1).shuffle(rows)
    write("raw", rows)
    for view in VIEWS:
        names = ["window_start", "window_end", *view.keys, *view.aggregates]
        write(view.name, [dict(zip(names, range(len(names)), strict=True))])
    write(SORTED, [dict(zip(("ts", *SORTED_COLUMNS), row, strict=True)) for row in scene.in_order])
    exported = load(tmp_path)
    assert (exported.raw, exported.history, exported.in_order) == (scene.raw, scene.history, scene.in_order)
    assert exported.windows == {
        view.name: [tuple(range(2 + len(view.keys) + len(view.aggregates)))] for view in VIEWS
    }


def test_the_checks_are_plain_python() -> None:
    imported = set()
    texts = [
        (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8") for name in ("replay", "check")
    ]
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names} == {
        "tests.chaos.replay",
        "tests.oracles.oracle",
    }
