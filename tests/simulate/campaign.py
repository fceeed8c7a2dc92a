"""Many seeds: shared by processes, counted, taken down as they are done, so that a run of hours goes on where it was
stopped."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.simulate.patience import limited

if TYPE_CHECKING:
    from tests.simulate.play import Played

#: Seeds that one task of a process plays, and tasks after which the process is a new one.
TOGETHER, TASKS = 10, 200
#: A failure is kept with its script; of more than so many, the seed alone.
MOST_SCRIPTS = 20


@dataclass
class Tally:
    """What was seen of many histories. `pairs`: how often each fault met each step, by "step: fault"; `failures`: what
    was wrong, by seed."""

    seeds: int = 0
    steps: Counter[int] = field(default_factory=Counter)
    batches: Counter[int] = field(default_factory=Counter)
    partitions: Counter[int] = field(default_factory=Counter)
    faults: Counter[int] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    cpu_seconds: float = 0.0

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.cpu_seconds += other.cpu_seconds
        for name in ("steps", "batches", "partitions", "faults", "pairs"):
            getattr(self, name).update(getattr(other, name))
        self.failures |= other.failures

    def medians(self) -> dict[str, float]:
        """Of one history: I/O steps, batches, partitions, faults."""
        names = ("steps", "batches", "partitions", "faults")
        return {name: median([*getattr(self, name).elements()] or [0]) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        counted = ("steps", "batches", "partitions", "faults", "pairs", "failures")
        found = {name: dict(getattr(self, name)) for name in counted}
        return found | {"seeds": self.seeds, "cpu_seconds": self.cpu_seconds, "medians": self.medians()}

    @classmethod
    def of_dict(cls, given: dict[str, Any]) -> Tally:
        """What `to_dict` gave."""
        tally = cls(given["seeds"], cpu_seconds=given["cpu_seconds"])
        for name in ("steps", "batches", "partitions", "faults"):
            setattr(tally, name, Counter({int(key): n for key, n in given[name].items()}))
        tally.pairs = Counter(given["pairs"])
        tally.failures = {int(seed): text for seed, text in given["failures"].items()}
        return tally


def play_seeds(seeds: Sequence[int]) -> Tally:
    """In this process."""
    import gc
    import time

    from tests.inprocess.session import without_a_jvm
    from tests.simulate.play import play
    from tests.simulate.scripts.script import script_of

    tally, began = Tally(), time.process_time()
    # Else a tenth of the time is spent on looking for garbage among what stays.
    often = gc.get_threshold()
    gc.set_threshold(20_000, 20, 50)
    with without_a_jvm():
        for seed in seeds:
            with limited():
                played = play(script_of(seed))
            tally.seeds += 1
            tally.steps[played.steps] += 1
            tally.batches[played.batches] += 1
            tally.partitions[played.partitions] += 1
            tally.faults[len(played.met)] += 1
            tally.pairs.update(f"{fault.step}: {fault.kind}" for fault in played.met)
            if played.wrong is not None:
                tally.failures[seed] = f"{played.wrong}\n{_again(played)}{played.script.text()}"
    gc.set_threshold(*often)
    tally.cpu_seconds = time.process_time() - began
    return tally


def _again(failed: Played) -> str:
    """What became of a failed history that is played once more. A seed is the same history whenever it is played: what
    is not wrong again depends on what this process had done before, or on the machine."""
    from tests.simulate.play import play

    wrong = play(failed.script).wrong
    if wrong == failed.wrong:
        return ""
    return f"(played again, at once: {wrong or 'every promise was kept'})\n"


def tally_of(path: Path) -> Tally:
    """What a long run has taken down."""
    return Tally.of_dict(json.loads(path.read_text("utf-8"))["tally"])


class Progress:
    """Where a long run stands, in a file. What was done by another tree than `version` is played again."""

    def __init__(self, path: Path | None, first: int, count: int, version: str) -> None:
        self._path, self._version = path, version
        self.first, self.end = first, first + count
        self.done: set[int] = set()
        self.tally = Tally()
        if path is not None and path.is_file():
            known = json.loads(path.read_text("utf-8"))
            if known["first"] == first and known["version"] == version:
                self.done = set(known["done"])
                self.tally = Tally.of_dict(known["tally"])

    def waiting(self) -> Iterator[list[int]]:
        """The seeds that were not played, in portions."""
        for start in range(self.first, self.end, TOGETHER):
            if start not in self.done:
                yield list(range(start, min(start + TOGETHER, self.end)))

    def add(self, portion: Sequence[int], tally: Tally) -> None:
        """These have been played."""
        self.done.add(portion[0])
        self.tally.add(tally)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            state = {
                "first": self.first,
                "version": self._version,
                "done": sorted(self.done),
                "tally": self.tally.to_dict(),
            }
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(state), "utf-8")
            os.replace(new, self._path)


def play_all(
    progress: Progress,
    processes: int,
    say: Callable[[Tally], None],
    play: Callable[[Sequence[int]], Tally] = play_seeds,
) -> Tally:
    """Every seed that was not played, by several processes; `say` is told after each portion. What was being played
    when a process ended (for want of memory, or by a history without an end) is played once more, each seed in a
    process of its own; one that ends it has failed."""
    for portion in _played(progress, processes, say, play):
        found = Tally()
        for seed in portion:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                try:
                    found.add(pool.submit(play, [seed]).result())
                except BrokenProcessPool:
                    found.add(Tally(1, failures={seed: "its process ended, or it took too long"}))
        progress.add(portion, found)
        say(progress.tally)
    return progress.tally


def _played(
    progress: Progress,
    processes: int,
    say: Callable[[Tally], None],
    play: Callable[[Sequence[int]], Tally],
) -> list[list[int]]:
    """Play what waits. Returns the portions that were being played when a process ended."""
    broken: list[list[int]] = []
    waiting = list(progress.waiting())
    while waiting:
        # Processes are ended after some portions: each session that they have opened stays in their memory. (With
        # `max_tasks_per_child` Python 3.11 waits for ever where all of them end at once: CPython's issue 115634.)
        some = waiting[: processes * TASKS]
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            running = {pool.submit(play, portion): portion for portion in some}
            try:
                _noted(progress, running, say)
            except BaseException:
                # Who stops the run stops its processes: they end with the portions that they have begun.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        # Portions that no process had begun stand behind those that were being played.
        left = [portion for portion in some if portion[0] not in progress.done]
        broken += left[:processes]
        waiting = left[processes:] + waiting[len(some) :]
    return broken


def _noted(
    progress: Progress, running: Mapping[Future[Tally], list[int]], say: Callable[[Tally], None]
) -> None:
    """Take down each portion as it is done; not those whose process has ended."""
    for done in as_completed(running):
        if not isinstance(done.exception(), BrokenProcessPool):
            progress.add(running[done], done.result())
            say(progress.tally)
