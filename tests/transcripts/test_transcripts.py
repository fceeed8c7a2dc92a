"""Every transcript on the oracle, with any batch cuts; wrong transcripts are refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.oracles.oracle import Oracle, Row, View
from tests.transcripts.transcript import Flush, Outcome, Rows, Snapshot, Transcript, check
from tests.transcripts.transcript_file import FOLDER, load, transcripts

GOOD = transcripts()
WRONG = transcripts(FOLDER.parent / "must_fail")


def named(cases: list[Transcript]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("transcript", cases, ids=lambda transcript: transcript.name)


class OracleRunner:
    """Plays one transcript on the oracle. `cut()` says whether a batch is committed before a row, too."""

    def __init__(self, transcript: Transcript, cut: Callable[[], bool] = lambda: False) -> None:
        self.transcript, self.cut = transcript, cut
        views = [
            View(
                spec.name,
                size=spec.size,
                slide=spec.slide,
                offset=spec.offset,
                keys=spec.keys,
                aggregates=spec.aggregates,
                where=lambda row, spec=spec: spec.where(row.payload),
                emit_on_window_close=spec.emit_on_window_close,
            )
            for spec in transcript.views
        ]
        self.strategies: dict[tuple[str, int], int | None] = {}
        self.names: dict[tuple[str, int], str] = {}
        self.oracle = Oracle(lambda row: self.strategies[row.partition, row.offset], views)

    def flushes(self) -> Iterator[tuple[Snapshot, Snapshot]]:
        """(observed, expected) after each flush. All rows between two flushes are one input: their
        partitions are enumerated before the first of them is judged (W6), however the batches are cut.
        """
        for step in self.transcript.steps:
            if isinstance(step, Flush):
                self.oracle.flush()
                yield self.snapshot(), step.expected
                continue
            self.oracle.enumerate({row.partition for row in step.rows})
            for row in step.rows:
                if self.cut():
                    self.oracle.flush()
                place = (row.partition, row.offset)
                self.strategies[place], self.names[place] = row.strategy, row.name
                self.oracle.read(Row(*place, row.event_time, row.reject, row.values))

    def snapshot(self) -> Snapshot:
        decisions = {self.names[d.row.partition, d.row.offset]: d for d in self.oracle.decisions}
        return Snapshot(
            outcomes={n: Outcome(d.outcome, d.missed, d.late_by, d.reason) for n, d in decisions.items()},
            watermarks=self.oracle.wp | {"G": self.oracle.g},
            views={name: self.oracle.shows(name) for name in self.oracle.views},
            watermark_after={name: decision.watermark for name, decision in decisions.items()},
        )

    def differences(self) -> list[str]:
        """All differences of all flushes, each said once (what is wrong stays wrong at later flushes)."""
        found = [
            text
            for observed, expected in self.flushes()
            for text in check(observed, expected, self.transcript.show)
        ]
        return list(dict.fromkeys(found))


@named(GOOD)
def test_a_transcript_holds_on_the_oracle(transcript: Transcript) -> None:
    assert OracleRunner(transcript).differences() == []


@named(GOOD)
def test_W4_batch_cuts_change_nothing(transcript: Transcript) -> None:
    assert OracleRunner(transcript, cut=lambda: True).differences() == []
    for seed in range(20):
        cuts = random.Random(seed)
        assert OracleRunner(transcript, cut=lambda cuts=cuts: cuts.random() < 0.4).differences() == []


@named(GOOD)
def test_W5_every_row_is_accounted_for(transcript: Transcript) -> None:
    runner = OracleRunner(transcript)
    for _ in runner.flushes():
        rows = sum(account.raw for account in runner.oracle.partition_accounts().values())
        assert rows == len(runner.names)
        accounts = list(runner.oracle.partition_accounts().values())
        accounts += [a for v in runner.oracle.views for a in runner.oracle.window_accounts(v).values()]
        assert all(account.adds_up() for account in accounts)


@named(WRONG)
def test_a_transcript_that_is_wrong_is_refused_for_that_reason(transcript: Transcript) -> None:
    differences = OracleRunner(transcript).differences()
    assert len(differences) == len(transcript.must_fail) > 0
    for reason in transcript.must_fail:
        assert [text for text in differences if reason in text], (reason, differences)


def test_only_the_wrong_ones_say_that_they_must_fail() -> None:
    assert [t.name for t in GOOD if t.must_fail] == []
    assert len(GOOD) >= 15
    assert len(WRONG) >= 10


def test_the_transcripts_cover_the_rules_of_gate_and_windows() -> None:
    told = {rule for transcript in GOOD for rule in transcript.rules}
    assert told >= {"W1", "W2", "W3", "W5", "W6", "W10", "W11", "C1", "C2", "C6", "D1", "R3"}


def test_rows_can_be_fed_through_insert_and_through_files() -> None:
    by_name = {transcript.name: transcript for transcript in GOOD}
    orders, rejected = by_name["blog_orders"], by_name["rejected"]
    assert (orders.via, orders.partitions) == ("table", {"0"})
    assert (rejected.via, rejected.partitions) == ("files", {"p"})
    assert orders.steps[0].rows[0].sql_tuple() == "(1, 100.0, '2026-05-22 10:00:00+00')"
    assert rejected.steps[0].rows[0].json_line() == '{"id": "r1", "part": "p", "ts": null}'
    assert rejected.steps[2].rows[0].json_line() == '{"id": "o1", "part": "p", "ts": "2024-01-01 12:00:30"}'


def test_the_checker_sees_rows_that_are_lost_or_come_from_nowhere() -> None:
    one, two = Snapshot(outcomes={"a": Outcome("on_time")}), Snapshot(outcomes={"b": Outcome("late", 7, 2)})
    assert check(one, two) == ["row a: came from nowhere, on_time", "row b: lost, expected late"]
    assert check(one, one) == []


def test_the_checker_sees_a_window_that_is_there_twice() -> None:
    group = {"window_start": 0, "window_end": 60, "n": 1}
    once, twice = Snapshot(views={"v": [group]}), Snapshot(views={"v": [group, dict(group)]})
    assert check(twice, once) == ["view v: unexpected window_start 0, window_end 60, n 1"]
    assert check(once, twice) == ["view v: no window_start 0, window_end 60, n 1"]


def test_C7_sums_of_floating_point_numbers_may_differ_in_the_last_digits() -> None:
    exact, near, off = ({"v": [{"total": total}]} for total in (0.3, 0.1 + 0.2, 0.3001))
    assert check(Snapshot(views=near), Snapshot(views=exact)) == []
    assert check(Snapshot(views=off), Snapshot(views=exact)) != []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rules:", "rulez:", "unknown keys"),
        ("  watermark: ts - INTERVAL '10 seconds'", "  watermark: ts", "another strategy"),
        ("MATERIALIZED VIEW hourly", "MATERIALIZED VIEW daily", "creates another view"),
        ("window: tumble 1 hour", "window: hop 1 hour", "not a window"),
        ("|| late    |", "|| on time |", "row I: on_time needs nothing else"),
        ("      I  ", "      H  ", "two rows are called H"),
        ("emitted:", "shows:", "EMIT ON WINDOW CLOSE"),
        ("      event | ts       ||", "      event ||", "doesn't fit its header"),
        ("  - flush:\n", "  - flash:\n", "a step is rows or flush"),
        ("watermarks:", "watermark:", "a flush expects"),
    ],
)
def test_a_transcript_that_contradicts_itself_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = (FOLDER / "documentation_events.yaml").read_text()
    assert old in text
    path = tmp_path / "broken.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message) as error:
        load(path)
    assert "broken.yaml" in str(error.value)


def test_rows_between_flushes_are_one_step_or_more() -> None:
    assert all(isinstance(step, Rows | Flush) for transcript in GOOD for step in transcript.steps)
    assert all(isinstance(transcript.steps[-1], Flush) for transcript in GOOD + WRONG)
