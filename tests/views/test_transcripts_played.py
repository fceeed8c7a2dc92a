"""Every transcript played by the engine, with random batch cuts; wrong transcripts are refused, too (W1-W6, C2). Those
of `ON_SPARK` run on Spark: one of each way in; the others without a JVM."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.transcripts.transcript import Flush, Outcome, Rows, Snapshot, Transcript, TranscriptRow, check
from tests.transcripts.transcript_file import FOLDER, transcripts

if TYPE_CHECKING:
    from tests.conftest import Workbench
    from tidegate.session.session import Session

GOOD = transcripts()
WRONG = transcripts(FOLDER.parent / "must_fail")
#: To Sail a TIMESTAMPTZ has no zone.
ON_SPARK = {"timestamptz", "emit_on_window_close"}
_EPOCH = datetime(1970, 1, 1)

pytestmark = [pytest.mark.slow, pytest.mark.runner("inprocess")]


class Player:
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
        log = self.session.tables.rows(self.session.identifier(table))
        epoch = max((row["_epoch"] for row in log.select("_epoch").collect()), default=None)
        newest = history.where(history["epoch"] == epoch)
        marks = {r["partition"]: self.ticks(r["watermark"]) for r in newest.collect()}
        watermarks: dict[str, int | None] = {k: v for k, v in marks.items() if k is not None}
        return Snapshot(
            outcomes={str(k): v for k, v in outcomes.items()},
            watermarks=watermarks | {"G": marks.get(None)},
            views={v.name: self.groups(v.name) for v in self.transcript.views},
        )

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
    return Player(transcript, workbench, random.Random(f"{transcript.name} {seed}")).differences()


def on_its_runner(transcript: Transcript) -> Any:
    marks = [pytest.mark.runner("spark")] if transcript.name in ON_SPARK else []
    return pytest.param(transcript, marks=marks, id=transcript.name)


@pytest.mark.parametrize("transcript", map(on_its_runner, GOOD))
def test_W4_transcript_with_random_cuts(
    transcript: Transcript, new_workbench: Callable[[], Workbench]
) -> None:
    assert play(transcript, new_workbench(), seed=1) == []


@pytest.mark.parametrize("transcript", WRONG, ids=lambda t: t.name)
def test_wrong_transcript_is_refused(transcript: Transcript, new_workbench: Callable[[], Workbench]) -> None:
    found = play(transcript, new_workbench(), seed=1)
    assert found
    # (What a watermark was between two rows of a batch, tables do not tell.)
    for fragment in (one for one in transcript.must_fail if " after row " not in one):
        assert any(fragment in text for text in found), found
