"""What all sources of a process ask a cluster of Kafka's together: whether anything has come to their topics.

Most streams are quiet most of the time, and a question costs several requests. So the first source of a beat asks for
the topics of all, and each of the others takes that answer once. It only ever says that nothing has come; a source to
which something may have come asks by itself, and plans by what it is told then.

A cluster that does not answer keeps one thread at most: while somebody waits for its answer, all others are told at
once that it has not answered before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

#: By topic and partition the next free offset, or the end of what is committed.
Ends = Mapping[str, Mapping[str, int]]


class SilentError(Exception):
    """The cluster did not answer a moment ago, for this reason, and somebody else waits for its answer now."""


class Looking(Protocol):
    """Asks a cluster for some topics, all of them at once."""

    def latest(self) -> Ends:
        """Raises whatever its client raises, also if one of the topics is not there."""

    def close(self) -> None:
        """Let go of the cluster."""


@dataclass(eq=False)
class Seat:
    """Of one source at its cluster. `used`: the number of the last look that it has taken."""

    topic: str
    used: int = 0


class ClusterLooks:
    """A cluster, as clients with the same properties see it. `opened`: asks it for given topics; `silence`: of an error
    of the client's, why the cluster has not answered, None if it has. Any thread may use it."""

    def __init__(
        self, opened: Callable[[Sequence[str]], Looking], silence: Callable[[Exception], str | None]
    ) -> None:
        self._opened, self._silence = opened, silence
        self._lock = threading.Lock()
        self._seats: set[Seat] = set()
        #: The last look, how many there have been, and whether somebody takes another one.
        self._ends: Ends = {}
        self._number, self._looks = 0, False
        #: Who takes looks, and for which topics; touched by the thread that looks.
        self._looking: tuple[tuple[str, ...], Looking] | None = None
        #: Why the last question was not answered, and whether somebody tries again.
        self._silent: str | None = None
        self._tries = False

    @contextmanager
    def question(self) -> Iterator[None]:
        """A block that asks the cluster something. Raises SilentError."""
        with self._lock:
            if self._silent is not None and self._tries:
                raise SilentError(self._silent)
            tries = self._tries = self._silent is not None
        silent = None
        try:
            yield
        except Exception as error:
            silent = self._silence(error)
            raise
        finally:
            with self._lock:
                self._silent = silent
                self._tries = self._tries and not tries

    def join(self, seat: Seat) -> None:
        """Let the next looks be for its topic, too, which is there."""
        with self._lock:
            self._seats.add(seat)

    def still(self, seat: Seat, ends: Mapping[str, int]) -> bool:
        """Whether the partitions of the seat's topic end there by a look that it has not taken before. While somebody
        else looks, as far as is known. False also if the cluster does not answer."""
        with self._lock:
            self._seats.add(seat)
            if self._number > seat.used and seat.topic in self._ends:
                seat.used = self._number
                return self._ends[seat.topic] == ends
            if self._looks:
                return self._silent is None
            self._looks, topics = True, tuple(sorted({one.topic for one in self._seats}))
        found: Ends = {}
        try:
            with self.question():
                found = self._look(topics)
        except Exception:
            # Who asks by itself is told why.
            self._close()
        finally:
            with self._lock:
                self._ends, self._looks = found, False
                self._number += 1
                seat.used = self._number
                if not self._seats:
                    self._close()
        return seat.topic in found and found[seat.topic] == ends

    def leave(self, seat: Seat) -> None:
        """It is not asked for any more."""
        with self._lock:
            self._seats.discard(seat)
            if self._seats or self._looks:
                return
            self._close()

    def _look(self, topics: tuple[str, ...]) -> Ends:
        if self._looking is None or self._looking[0] != topics:
            self._close()
            self._looking = topics, self._opened(topics)
        return self._looking[1].latest()

    def _close(self) -> None:
        if self._looking is not None:
            looking, self._looking = self._looking[1], None
            looking.close()


class SharedLooks:
    """The clusters of a process, by the properties of their clients."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[tuple[str, str], ...], ClusterLooks] = {}

    def of(self, properties: Mapping[str, str], made: Callable[[], ClusterLooks]) -> ClusterLooks:
        """The cluster that clients with these properties see; `made` if nobody has asked for it before."""
        key = tuple(sorted(properties.items()))
        with self._lock:
            if key not in self._known:
                self._known[key] = made()
            return self._known[key]
