"""Every transcript on Spark, with random batch cuts; wrong transcripts are refused there, too (W1-W6, C2)."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.transcript import Flush, Outcome, Rows, Snapshot, Transcript, TranscriptRow, check
from tests.transcript_file import FOLDER, transcripts

if TYPE_CHECKING:
    from tests.conftest import Workbench
    from tidegate.session.session import Session

GOOD = transcripts()
WRONG = transcripts(FOLDER / "must_fail")
_EPOCH = datetime(1970, 1, 1)


class SparkRunner:
    """Plays a transcript through SQL: INSERTs, or files that are read one batch each."""

    def __init__(self, transcript: Transcript, workbench: Workbench, rng: random.Random) -> None:
        self.transcript, self.workbench, self.rng = transcript, workbench, rng
        self.files = 0
        self.session: Session = workbench.session()
        create = transcript.create.replace("path = '{path}'", "path = 'input', max_files_per_batch = '1'")
        (workbench.root / "input").mkdir()
        self.session.execute(create)
        for view in transcript.views:
            self.session.execute(view.sql)

    def differences(self) -> list[str]:
        found: list[str] = []
        for step in self.transcript.steps:
            if isinstance(step, Rows):
                self.feed(step.rows)
            elif isinstance(step, Flush):
                self.session.run()
                found += check(self.snapshot(), step.expected, self.transcript.show)
        return list(dict.fromkeys(found))

    def feed(self, rows: tuple[TranscriptRow, ...]) -> None:
        for batch in self.cuts(rows):
            if self.transcript.via == "table":
                values = ", ".join(row.sql_tuple() for row in batch)
                self.session.execute(f"INSERT INTO {self.transcript.source} VALUES {values}")
            else:
                self.files += 1
                lines = [row.json_line() for row in batch]
                self.workbench.json_lines(f"input/{self.files:04d}.json", lines)

    def cuts(self, rows: tuple[TranscriptRow, ...]) -> list[list[TranscriptRow]]:
        batches: list[list[TranscriptRow]] = []
        for row in rows:
            if not batches or self.rng.random() < 0.3:
                batches.append([])
            batches[-1].append(row)
        return batches

    def snapshot(self) -> Snapshot:
        table, time = self.transcript.source, self.transcript.time
        name = next(iter(self.transcript.columns))
        raw = self.session.table(f"{table}$raw").collect()
        late = {row[name]: row for row in self.session.table(f"{table}$late").collect()}
        outcomes = {}
        for row in raw:
            missed = late_by = None
            if row["outcome"] == "late":
                missed = self.ticks(late[row[name]]["watermark"])
                late_by = missed - self.ticks(row[time])
            label = str(row[name]) if row[name] is not None else self.name_in(row["raw"])
            outcomes[label] = Outcome(row["outcome"], missed, late_by, row["reason"])
        history = self.session.table(f"{table}$watermarks")
        newest = history.where(f"epoch = (SELECT max(epoch) FROM {self.log()})")
        marks = {r["partition"]: self.ticks(r["watermark"]) for r in newest.collect()}
        watermarks: dict[str, int | None] = {k: v for k, v in marks.items() if k is not None}
        return Snapshot(
            outcomes={str(k): v for k, v in outcomes.items()},
            watermarks=watermarks | {"G": marks.get(None)},
            views={v.name: self.groups(v.name) for v in self.transcript.views},
        )

    def log(self) -> str:
        return f"(SELECT _epoch AS epoch FROM {self.session.identifier(self.transcript.source)})"

    def name_in(self, text: str) -> str:
        import json

        return str(next(iter(json.loads(text).values())))

    def groups(self, view: str) -> list[dict[str, Any]]:
        rows = [row.asDict() for row in self.session.table(view).collect()]
        return [
            {k: self.ticks(v) if k in ("window_start", "window_end") else v for k, v in row.items()}
            for row in rows
        ]

    def ticks(self, value: Any) -> int | None:
        if isinstance(value, datetime):
            # A TIMESTAMPTZ comes back in this process's zone.
            aware = self.transcript.kind == "TIMESTAMPTZ"
            value = value.astimezone(UTC).replace(tzinfo=None) if aware else value
            delta = value - _EPOCH
            return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
        return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def play(transcript: Transcript, workbench: Workbench, seed: int) -> list[str]:
    return SparkRunner(transcript, workbench, random.Random(f"{transcript.name} {seed}")).differences()


@pytest.mark.slow
@pytest.mark.parametrize("transcript", GOOD, ids=lambda t: t.name)
def test_W4_transcript_on_spark_with_random_cuts(
    transcript: Transcript, new_workbench: Callable[[], Workbench]
) -> None:
    assert play(transcript, new_workbench(), seed=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("transcript", WRONG[:4], ids=lambda t: t.name)
def test_wrong_transcript_is_refused_on_spark(
    transcript: Transcript, new_workbench: Callable[[], Workbench]
) -> None:
    found = play(transcript, new_workbench(), seed=1)
    assert found
    for fragment in transcript.must_fail:
        assert any(fragment in text for text in found), found
