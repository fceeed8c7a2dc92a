"""Which rows end the process that decodes them (X2, docs/decisions/crashed-decoder.md). Executor side, but for what
makes or reads a frame.

A batch whose worker has died is read once more, and decoded in processes beside the tasks. Rows whose process dies are
narrowed down by halves. One that alone ends three fresh processes is put aside: no decoder sees it again.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from tidegate.errors import NO_MEMORY
from tidegate.tasks.decode.limits import hurry
from tidegate.tasks.decode.raw_text import BASE64
from tidegate.tasks.decode.reasons import CRASHED
from tidegate.tasks.decode.text.bulk import parsed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How many fresh processes a row has to end.
TRIES = 3
_ALIVE, _DEAD, _WAITED, _UNREAD = b".", b"!", b"~", b"?"
#: How a process ends that can't even read its task.
_CANT_READ = 3
_LENGTH = struct.Struct(">Q")
#: Shared by a nursery and the processes that it makes.
_done: mmap.mmap | None = None
#: What decodes some values, and makes what is not wanted.
Work = Callable[[Sequence[bytes | None]], object]


def narrowed(
    count: int, kills: Callable[[int, int], bool], kills_alone: Callable[[int], bool], tries: int = TRIES
) -> list[int]:
    """The rows that kill alone, in their order. `kills`: whether rows [from, until) end a process; `kills_alone`:
    whether one row ends a fresh one, which it has to `tries` times."""
    found, waiting = [], [(0, count)]
    while waiting:
        start, end = waiting.pop()
        if start == end or not kills(start, end):
            continue
        if end - start > 1:
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
        elif all(kills_alone(start) for _ in range(tries)):
            found.append(start)
    return found


class Nursery:
    """A process that makes fresh ones of itself, as Spark's daemon makes workers: each decodes some rows, and ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        #: Whether the last process has ended by the clock.
        self.waited = False

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def dies(self, work: Work, values: Sequence[bytes | None], hurried: bool = False) -> bool:
        """Whether a fresh process ends over these values. `hurried`: by the clock earlier than a worker would, which
        is enough to look closer."""
        return self.ended(work, values, hurried) is not None

    def ended(self, work: Work, values: Sequence[bytes | None] = (), hurried: bool = False) -> int | None:
        """How far (`note`) a fresh process has come over these values when it ended; None: it lives."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        task = pickle.dumps((work, values, hurried))
        try:
            stdin.write(_LENGTH.pack(len(task)) + task)
            stdin.flush()
            answer, done = stdout.read(1), stdout.read(_LENGTH.size)
        except OSError:
            answer = b""
        self.waited = answer == _WAITED
        if answer == _UNREAD:
            # Otherwise no row would ever be found.
            raise RuntimeError("the processes beside a task can't read what they are to decode")
        if not answer:
            self.end()  # it has died itself, say for want of memory
            return 0
        return None if answer == _ALIVE else int(_LENGTH.unpack(done)[0])

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def serve() -> None:
    """What a nursery does: for each task that comes, let a fresh process do it, and say how that ended."""
    import resource

    global _done
    _done = mmap.mmap(-1, _LENGTH.size)
    pa.array([b""])  # what pyarrow imports at its first use is imported here, once
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Libraries that write to standard output must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    while head := sys.stdin.buffer.read(_LENGTH.size):
        task = sys.stdin.buffer.read(*_LENGTH.unpack(head))
        note(0)
        process = os.fork()
        if process == 0:
            _do(task)
        status = os.waitpid(process, 0)[1]
        answers.write(_answer(status) + _done[:])


def _answer(status: int) -> bytes:
    """How a process has ended."""
    if status == 0:
        return _ALIVE
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return _WAITED
    return _UNREAD if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _CANT_READ else _DEAD


def note(done: int) -> None:
    """In a process of a nursery: so far it has come."""
    if _done is not None:
        _done[:] = _LENGTH.pack(done)


def _do(task: bytes) -> NoReturn:
    try:
        work, values, hurried = pickle.loads(task)
    except BaseException as error:
        os._exit(1 if _is_for_memory(error) else _CANT_READ)
    try:
        if hurried:
            hurry()
        work(values)
    except MemoryError:
        os._exit(1)
    except BaseException:
        pass  # not the end of a worker: the batch itself fails with it, or does not
    os._exit(0)


def _is_for_memory(error: BaseException) -> bool:
    """Whether there was no memory, be it for a library that is loaded."""
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in NO_MEMORY)


def killers(nursery: Nursery, work: Work, values: Sequence[bytes | None]) -> list[int]:
    """The places of the values that kill alone; none where a process ends over no value, too, say for want of
    memory."""
    found = narrowed(
        len(values),
        lambda start, end: nursery.dies(work, values[start:end], hurried=True),
        lambda place: nursery.dies(work, values[place : place + 1]),
    )
    return [] if found and nursery.dies(work, [None]) else found


@dataclass(frozen=True)
class MessageCrashes:
    """From batches with `value`, `_partition` and `_offset` to partition and offset of the messages that kill."""

    work: Work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with Nursery() as nursery:
            for batch in batches:
                places = killers(nursery, self.work, batch.column("value").to_pylist())
                if places:
                    yield batch.select(["_partition", "_offset"]).take(pa.array(places))


@dataclass(frozen=True)
class Parse:
    """Decodes JSON or CSV."""

    decoder: Any

    def __call__(self, values: Sequence[bytes | None]) -> object:
        return parsed(self.decoder, pa.array(values, pa.binary()))


@dataclass(frozen=True)
class Decode:
    """Decodes with a task that takes and gives arrays (`binary.DecodeTask`)."""

    task: Callable[[Iterator[pa.Array]], Iterator[pa.Array]]

    def __call__(self, values: Sequence[bytes | None]) -> object:
        return list(self.task(iter([pa.array(values, pa.binary())])))


def found_in(frame: DataFrame) -> list[list[Any]]:
    """What a job of MessageCrashes, FileCrashes or ParquetCrashes has found. Bounded: it has cost some processes. None
    where there was not even the memory to look for them."""
    from tidegate.jvm.failures import worker_died

    try:
        return [list(row) for row in frame.collect()]
    except Exception as error:
        if not worker_died(error):
            raise
        return []


def put_aside(messages: DataFrame, crashed: Iterable[Sequence[Any]]) -> DataFrame:
    """Messages without the values of those that have crashed their decoder, whose text is in a column `crashed`."""
    from pyspark.sql import functions as F

    from tidegate.sql.dialect.inner_names import inner

    offsets: dict[int, list[int]] = defaultdict(list)
    for partition, offset in crashed:
        offsets[int(partition)].append(offset)
    bad = F.lit(False)
    for partition, of_it in offsets.items():
        bad = bad | ((F.col("_partition") == partition) & F.col("_offset").isin(of_it))
    text = F.col("value").cast("string")
    raw = F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit(BASE64), F.base64("value")))
    # A message without a value has no decoder to crash, and is not among them.
    return messages.withColumns({inner("crashed"): F.when(bad, raw), "value": F.when(~bad, F.col("value"))})


def brought_back(decoded: DataFrame) -> DataFrame:
    """What was decoded, with those that were put aside as rejected rows."""
    from pyspark.sql import functions as F

    from tidegate.sql.dialect.inner_names import inner

    aside = F.col(inner("crashed")).isNotNull()
    return decoded.withColumns(
        {
            "_raw": F.coalesce(inner("crashed"), "_raw"),
            "_why": F.when(aside, F.lit(CRASHED)).otherwise(F.col("_why")),
        }
    ).drop(inner("crashed"))
