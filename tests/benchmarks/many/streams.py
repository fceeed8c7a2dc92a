"""Many topics that are filled at a steady rate, and the moments at which views' commits are there.

The clock of every figure is the broker's: its topics have LogAppendTime, and an acknowledgement says it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from infra.kafka.topics import Topics
from tests.benchmarks.bench import EngineFailed
from tests.benchmarks.load import Events, Load, events, messages
from tests.benchmarks.wire import Wire, batch

#: Seconds of messages that are encoded at once.
_AHEAD_S = 10.0
#: Seconds between two looks at the tables; of the files that say when a commit was, Iceberg keeps the last 20.
_LOOK_S = 4.0


@dataclass
class Stream:
    """The topic of one source. `sent_at`: the broker's time of each tick; the rows of tick 0 are there beforehand, and
    `load.rows` are sent by the last. `quiet`: all are there beforehand."""

    topic: str
    load: Load
    ticks: int
    quiet: bool = False
    sent_at: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.sent_at = np.zeros(self.ticks)

    def bounds(self) -> dict[int, np.ndarray]:
        """By partition: its first rows up to which each tick has sent."""
        lengths = enumerate(self.load.lengths())
        if self.quiet:
            return {part: np.full(self.ticks, rows) for part, rows in lengths}
        return {
            part: np.round(np.linspace(0, rows, self.ticks + 1))[1:].astype(int) for part, rows in lengths
        }


@lru_cache(maxsize=128)
def _parts(load: Load) -> list[Events]:
    log = events(load)
    return [log.where(log.part == part) for part in range(load.partitions)]


def encoded_ticks(stream: Stream, first: int, last: int) -> list[dict[int, bytes]]:
    """The record batches of the ticks [first, last), one for each partition that has rows then."""
    found: list[dict[int, bytes]] = [{} for _ in range(last - first)]
    for part, ends in stream.bounds().items():
        starts = np.concatenate([[0], ends[:-1]])
        low, high = int(starts[first]), int(ends[last - 1])
        rows = _parts(stream.load)[part].where(slice(low, high))
        values = messages(rows, stream.load.payload, part) if high > low else []
        for tick in range(first, last):
            start, end = int(starts[tick]) - low, int(ends[tick]) - low
            if end > start:
                found[tick - first][part] = batch(values[start:end], int(rows.ts[start]) // 1000)
    return found


class Sender:
    """Sends the rows of all streams, tick by tick, in a thread; they are encoded in another process, ahead of time."""

    def __init__(self, bootstrap: str, streams: Sequence[Stream], tick_s: float) -> None:
        self._bootstrap, self._streams, self._tick_s = bootstrap, streams, tick_s
        self._errors: list[BaseException] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.behind_s = 0.0

    @property
    def runs(self) -> bool:
        """Whether there are rows to come, and none was refused."""
        return self._thread.is_alive()

    def prepare(self) -> None:
        """Make the topics, with the rows of tick 0."""
        with Topics(self._bootstrap) as topics:
            for stream in self._streams:
                topics.create(
                    stream.topic, stream.load.partitions, {"message.timestamp.type": "LogAppendTime"}
                )
        wire = Wire(self._bootstrap)
        for stream in self._streams:
            if found := encoded_ticks(stream, 0, 1)[0]:
                stream.sent_at[0] = wire.send(stream.topic, found)
        wire.close()

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Wait for the last row. Raises EngineFailed if one could not be sent."""
        self._thread.join()
        if self._errors:
            raise EngineFailed(f"the producer: {self._errors[0]}")

    def stop(self) -> None:
        """Send no more rows, however many there are to come."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        active = [stream for stream in self._streams if not stream.quiet]
        ticks = max((stream.ticks for stream in active), default=0)
        step = max(1, round(_AHEAD_S / self._tick_s))
        try:
            with ProcessPoolExecutor(1) as pool:
                cuts = [(first, min(first + step, ticks)) for first in range(1, ticks, step)]
                coming = [pool.submit(encoded_ticks, stream, *cut) for cut in cuts[:1] for stream in active]
                wire, began = Wire(self._bootstrap), None
                for number, (first, last) in enumerate(cuts):
                    if self._over.is_set():
                        break
                    found = [one.result() for one in coming]
                    following = cuts[number + 1 : number + 2]
                    coming = [
                        pool.submit(encoded_ticks, stream, *cut) for cut in following for stream in active
                    ]
                    began = began or time.time()
                    for tick in range(first, last):
                        rows = [
                            (stream, chunk[tick - first]) for stream, chunk in zip(active, found, strict=True)
                        ]
                        self._send(wire, tick, began + (tick - 1) * self._tick_s, rows)
                wire.close()
        except (OSError, ConnectionError) as error:
            self._errors.append(error)

    def _send(self, wire: Wire, tick: int, due: float, rows: list[tuple[Stream, dict[int, bytes]]]) -> None:
        """One tick of all streams, when it is due."""
        if self._over.wait(max(0.0, due - time.time())):
            return
        self.behind_s = max(self.behind_s, time.time() - due)
        for stream, batches in rows:
            stream.sent_at[tick] = wire.send(stream.topic, batches) if batches else time.time()


class Commits:
    """When each commit of some views was there, and up to where they were final then: by the time at which the file of
    metadata was written that is the first one to have it. In a `with`."""

    def __init__(self, folders: dict[str, Path]) -> None:
        """`folders`: of the tables' metadata, by view."""
        self._folders = folders
        self._seen: dict[str, set[str]] = {view: set() for view in folders}
        self._found: dict[str, dict[int, float]] = {view: {} for view in folders}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Commits:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Take in what is new."""
        for view, folder in self._folders.items():
            for path in sorted(folder.glob("*.metadata.json")):
                if path.name in self._seen[view]:
                    continue
                try:
                    at, metadata = path.stat().st_mtime, json.loads(path.read_text())
                except (FileNotFoundError, ValueError):
                    continue  # removed meanwhile, or not written to its end: the next look sees it
                self._seen[view].add(path.name)
                for frontier in _frontiers(metadata):
                    known = self._found[view].get(frontier, at)
                    self._found[view][frontier] = min(known, at)

    def of(self, view: str) -> tuple[np.ndarray, np.ndarray]:
        """(frontiers, moments), ascending: at each moment all windows up to that frontier were there."""
        found = sorted(self._found[view].items())
        frontiers = np.array([f for f, _ in found], dtype=np.int64)
        moments = np.array([m for _, m in found], dtype=float)
        # A frontier of which another commit says more was there no later than that one.
        return frontiers, np.minimum.accumulate(moments[::-1])[::-1]


def _frontiers(metadata: dict[str, object]) -> Iterator[int]:
    """What the snapshots say that a file of metadata knows, the current one among them."""
    snapshots = metadata.get("snapshots")
    for snapshot in snapshots if isinstance(snapshots, list) else ():
        text = snapshot.get("summary", {}).get("tidegate.frontier")
        if text is not None:
            yield int(text)
