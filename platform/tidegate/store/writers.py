"""Who writes on this machine: who holds the lease of a source, view or sink, by its lock file, which is read without
touching the lock; and which processes run live mode, by the records that they keep (E7)."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from tidegate.errors import TidegateError
from tidegate.project.disk import private_folder, write_whole
from tidegate.project.reading.durations import format_duration
from tidegate.store.machine import CpuUse

if TYPE_CHECKING:
    from tidegate.project import Project

#: A process that is older than its lock by less than this many seconds less could be its holder: clocks are coarse.
_COARSE = 2.0


@dataclass(frozen=True)
class WriterState:
    """`state`: "held" by a process that lives; "ended", in order; "killed": its holder is gone and has not let go;
    "unknown": there is no lock here, or it is one of another machine. `at`: when it was taken, or (ended) released, s
    since 1970.
    """

    state: Literal["held", "ended", "killed", "unknown"] = "unknown"
    pid: int | None = None
    host: str | None = None
    at: float | None = None


#: Of the lease of a process that replaces the results of a view.
REPLACING = "$replacing"


def is_replaced(project: Project, name: str) -> bool:
    """Whether a process of this machine replaces the results of a view now, or is about to, and was told to."""
    locks = project.state_dir / "locks" / project.env.warehouse.namespace
    return read_writer(locks, f"{name}{REPLACING}").state == "held"


def read_writer(folder: Path, name: str) -> WriterState:
    """The holder of the lease `name` in a folder of locks. Never raises, and never stands in anybody's way: the lock
    itself is not tried, since a writer that starts in that moment would be refused (TG508)."""
    path = folder / f"{name}.lock"
    try:
        text = path.read_text(encoding="utf-8")
        changed = path.stat().st_mtime
    except OSError:
        return WriterState()
    if not text:
        return WriterState("ended", at=changed)
    try:
        facts = json.loads(text)
        pid, host = int(facts["pid"]), str(facts["host"])
        since = datetime.fromisoformat(facts["since"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return WriterState()  # half written: somebody takes it in this moment
    if host != socket.gethostname():
        return WriterState("unknown", pid, host, since)
    return WriterState("held" if _lives(pid, since) else "killed", pid, host, since)


def _lives(pid: int, since: float) -> bool:
    """Whether the process that took the lock then is still there; numbers of processes are used again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    started = _started(pid)
    return started is None or started <= since + _COARSE


def is_below(pid: int, other: int) -> bool:
    """Whether a process is the other one, or was started by it, or by one that it has started. Also where /proc does
    not tell."""
    while pid != other:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return not Path("/proc/self/stat").is_file()
        if pid <= 1:
            return False
    return True


def _started(pid: int) -> float | None:
    """When a process started, s since 1970, or None where /proc does not tell."""
    try:
        # Behind the name, which may have spaces and brackets in it; the 22nd field is its start in ticks after boot.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] == "Z":
            return float("inf")  # dead, and nobody has asked how it ended
        boot = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
        return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


# -- processes that run live mode -----------------------------------------------------------------------


@dataclass(frozen=True)
class RefusedDefinitions:
    """Definitions that live mode did not take up: `at`, s since 1970; `error`, as `TidegateError.to_dict` has it."""

    at: float
    error: dict[str, Any]


@dataclass(frozen=True)
class LateGroup:
    """A group of live mode whose ticks are late, in the mean of the last minutes: they have begun so many seconds after
    they were due (`waited`), and then taken so many (`took`). `backlog`: whether they left one, or worked one off."""

    group: str
    interval: float
    waited: float
    took: float
    backlog: bool = False

    @property
    def seconds(self) -> float:
        """From when a tick is due to its end."""
        return self.waited + self.took


@dataclass(frozen=True)
class GroupLoad:
    """What a group of live mode has cost in the mean of the last minutes. `cores`: CPU seconds a second, of all
    processes that work for it; `busy`: the share of the time in which it was at work; `most_rows`: of a tick;
    `most_bytes`: that the rows of a tick took in the memory of all tasks."""

    group: str
    cores: float
    busy: float
    rows_per_second: float
    most_rows: int
    most_bytes: int = 0


@dataclass(frozen=True)
class FailingMember:
    """A source, view or sink (`kind`) of live mode that fails, or a whole `group`. `attempt`: how many tries have
    failed one after the other; `at`: when the last one did, s since 1970."""

    group: str
    name: str
    kind: str
    code: str | None
    message: str
    attempt: int
    at: float


@dataclass(frozen=True)
class OverdueGroup:
    """A group of live mode that should have finished a tick minutes ago, and has not failed. `since`: the end of its
    last tick, or (not `ticked`) when its worker began, s since 1970. `members`: what the group keeps up to date."""

    group: str
    since: float
    ticked: bool = True
    members: tuple[str, ...] = ()

    def text(self, now: float) -> str:
        """For people: which group it is, and since when."""
        at = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        ago = f"{format_duration(max(0.0, now - self.since))} ago"
        if self.ticked:
            return f'the group "{self.group}" is overdue: its last tick ended at {at}, {ago}'
        return f'the group "{self.group}" is overdue: it began at {at}, {ago}, and its first tick has not finished'


@dataclass(frozen=True)
class LiveRecord:
    """What a process that runs live mode tells other processes of its machine, in a file in
    `.tidegate/live/<environment>`, which is removed when the process ends.

    `since`: when the process has begun, `read_at`: when it read the definitions that it goes by, `looked_at`: when it
    began with its last look at the files, s since 1970. `members`: what it keeps up to date. `refused`: what it found
    the last time, if it did not take that up. `began`, `ended`: of the last time that it took some up, the names of the
    groups that began, or began again, and of those that are gone. `late`: groups for which the machine is too small,
    the worst first; `cpu`: how much of the machine's CPU is in use, if it is fully used. `loads`: what its groups cost,
    the most expensive first. `failing`: what fails now, or leaves inputs as they are. `overdue`: groups that should
    have finished a tick minutes ago."""

    since: float
    read_at: float
    members: tuple[str, ...]
    looked_at: float = 0.0
    refused: RefusedDefinitions | None = None
    began: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    late: tuple[LateGroup, ...] = ()
    cpu: CpuUse | None = None
    loads: tuple[GroupLoad, ...] = ()
    failing: tuple[FailingMember, ...] = ()
    overdue: tuple[OverdueGroup, ...] = ()
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)


def _records(state_dir: Path, env: str) -> Path:
    return state_dir / "live" / quote(env, safe="")


class LiveRecordFile:
    """The record of this process. While it lives it holds a lock beside it, so that others know whether it does,
    whatever they see of processes."""

    def __init__(self, state_dir: Path, env: str, record: LiveRecord) -> None:
        folder = _records(state_dir, env)
        private_folder(folder)
        self._path = folder / f"{record.host}-{record.pid}.json"
        self._held = open(self._path.with_suffix(".lock"), "w", encoding="utf-8")  # noqa: SIM115 (held until the end)
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._record, self._lock = record, threading.Lock()
        self.change()

    def change(self, **facts: Any) -> None:
        """The process has something else to tell. Raises OSError."""
        with self._lock:
            self._record = replace(self._record, **facts)
            write_whole(self._path, json.dumps(asdict(self._record)))

    def remove(self) -> None:
        """The process ends."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._path.with_suffix(".lock").unlink(missing_ok=True)
        self._held.close()


@contextmanager
def recorded(state_dir: Path, env: str, record: LiveRecord) -> Iterator[LiveRecordFile]:
    """Keep the record while the block runs."""
    file = LiveRecordFile(state_dir, env, record)
    try:
        yield file
    finally:
        file.remove()


def running(state_dir: Path, env: str) -> list[LiveRecord]:
    """Of all processes of this machine that run live mode now. What killed ones have left is no record, and is
    removed."""
    found = []
    for path in sorted(_records(state_dir, env).glob("*.json")):
        record = _read(path)
        if record is None or record.host != socket.gethostname():
            continue
        if _is_held(path.with_suffix(".lock")):
            found.append(record)
        else:
            with suppress(OSError):
                path.unlink()
    return found


def is_here(record: LiveRecord) -> bool:
    """Whether the process of a record can be seen, and so signalled, from here: it may be in another container."""
    return record.pid > 1 and _lives(record.pid, record.since)


def _is_held(lock: Path) -> bool:
    try:
        with open(lock, encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _read(path: Path) -> LiveRecord | None:
    try:
        facts = json.loads(path.read_text("utf-8"))
        refused = facts.pop("refused")
        for name in ("members", "began", "ended"):
            facts[name] = tuple(facts[name])
        # (A process of an earlier release does not say these, and says something else of who is late.)
        facts.pop("waits", None)
        facts["late"] = tuple(LateGroup(**one) for one in facts.get("late", ()))
        facts["cpu"] = None if (cpu := facts.get("cpu")) is None else CpuUse(**cpu)
        facts["loads"] = tuple(GroupLoad(**one) for one in facts.get("loads", ()))
        facts["failing"] = tuple(FailingMember(**one) for one in facts.get("failing", ()))
        facts["overdue"] = tuple(
            OverdueGroup(**one | {"members": tuple(one.get("members", ()))})
            for one in facts.get("overdue", ())
        )
        return LiveRecord(**facts, refused=None if refused is None else RefusedDefinitions(**refused))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


# -- reading the definitions again ------------------------------------------------------------------------

_LOOKS_EVERY = 0.1


def ask_to_reload(
    state_dir: Path, env: str, records: Sequence[LiveRecord], timeout: float
) -> list[LiveRecord]:
    """What each process has found in a look that began after it was asked. Raises TG710 for one that can't be reached,
    does not answer within so many seconds, or has ended."""
    asked_at = time.time()
    for record in records:
        _signal(record)
    return _answers(state_dir, env, records, asked_at, timeout)


def _signal(record: LiveRecord) -> None:
    why = "it runs in another container"
    if is_here(record):
        try:
            os.kill(record.pid, signal.SIGUSR1)
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
    raise TidegateError(
        "TG710",
        f"live mode, process {record.pid}, can't be reached from here: {why}",
        hint="run tidegate reload where it runs, as the same user; or send SIGHUP to it",
    )


def _answers(
    state_dir: Path, env: str, records: Sequence[LiveRecord], asked_at: float, timeout: float
) -> list[LiveRecord]:
    pids, end = {record.pid for record in records}, time.monotonic() + timeout
    while True:
        now = [one for one in running(state_dir, env) if one.pid in pids]
        late = [one.pid for one in now if one.looked_at < asked_at]
        if len(now) == len(pids) and not late:
            return now
        if gone := sorted(pids - {one.pid for one in now}):
            raise TidegateError(
                "TG710",
                f"live mode, process {gone[0]}, has ended before it answered",
                hint="start it again: it reads the definitions when it starts",
            )
        if time.monotonic() >= end:
            raise TidegateError(
                "TG710",
                f"live mode, process {late[0]}, has not answered within {timeout:g} s",
                hint="its log says what becomes of the definitions; --timeout waits longer",
            )
        time.sleep(_LOOKS_EVERY)
