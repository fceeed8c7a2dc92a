"""What all sources of a process ask a cluster of Kafka's together: whether anything has come to their topics.

Most streams are quiet most of the time, and a question costs several requests. So the first source of a beat asks for
the topics of all, and each of the others takes that answer once. It only ever says that nothing has come; a source to
which something may have come asks by itself, and plans by what it is told then.

A cluster that does not answer keeps one thread, once that is known: while somebody waits for its answer, all others are
told at once that it has not answered before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

#: By topic and partition the next free offset, or the end of what is committed.
Ends = Mapping[str, Mapping[str, int]]

#: A look is taken by others for so many seconds, however long their intervals are.
_YOUNG = 5.0
#: So long a source waits for a look that another one takes, before it asks for its own topic.
_WAITING = 0.5
#: After a look that failed, each source asks for its own topic for so many seconds: one topic without a leader, or one
#: that is gone, is no reason to know nothing of the others.
_APART = 60.0
#: A cluster is silent if the last questions for so many topics were not answered.
_SILENT_TOPICS = 2


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


@dataclass(frozen=True)
class _Look:
    """The number of a look, when it was begun, and what it has found."""

    number: int
    at: float
    ends: Ends


class ClusterLooks:
    """A cluster, as clients with the same properties see it. `opened`: asks it for given topics; `silence`: of an error
    of the client's, why the cluster has not answered, None if it has; `clock`: one that nobody sets. Any thread may use
    it."""

    def __init__(
        self,
        opened: Callable[[Sequence[str]], Looking],
        silence: Callable[[Exception], str | None],
        clock: Callable[[], float],
    ) -> None:
        self._opened, self._silence, self._clock = opened, silence, clock
        self._lock = threading.Condition(threading.Lock())
        self._seats: set[Seat] = set()
        #: The last look; whether somebody takes another one; and until when nobody does.
        self._look, self._looks, self._apart = _Look(0, 0.0, {}), False, 0.0
        #: Who takes looks, and for which topics; touched by the thread that looks, or while nobody does.
        self._looking: tuple[tuple[str, ...], Looking] | None = None
        #: The topics for which nobody has answered since somebody has answered last, why, and whether somebody tries.
        self._unanswered: dict[str, str] = {}
        self._tries = False

    @contextmanager
    def question(self, topic: str) -> Iterator[None]:
        """A block that asks the cluster something about a topic. Raises SilentError."""
        with self._lock:
            silent = len(self._unanswered) >= _SILENT_TOPICS
            if silent and self._tries:
                raise SilentError(next(reversed(self._unanswered.values())))
            self._tries = self._tries or silent
        why = None
        try:
            yield
        except Exception as error:
            why = self._silence(error)
            raise
        finally:
            with self._lock:
                if why is None:
                    self._unanswered.clear()
                else:
                    self._unanswered[topic] = why
                self._tries = self._tries and not silent

    def join(self, seat: Seat) -> None:
        """Let the next looks be for its topic, too, which is there."""
        with self._lock:
            self._seats.add(seat)

    def still(self, seat: Seat, ends: Mapping[str, int]) -> bool:
        """Whether the partitions of the seat's topic end there by a look that it has not taken before: a young one, or
        one of now. False also if nobody knows: a look takes long, or has failed a moment ago."""
        with self._lock:
            self._seats.add(seat)
            self._lock.wait_for(lambda: not self._looks, _WAITING)
            now, known = self._clock(), self._look
            if known.number > seat.used and now - known.at < _YOUNG and seat.topic in known.ends:
                seat.used = known.number
                return known.ends[seat.topic] == ends
            if self._looks or now < self._apart:
                return False
            self._looks, topics = True, tuple(sorted({one.topic for one in self._seats}))
        found: Ends | None = None
        try:
            found = self._taken(topics)
        except Exception:
            # Who asks by itself is told why.
            _closed(self._taken_out())
        finally:
            with self._lock:
                self._look, self._looks = _Look(known.number + 1, now, found or {}), False
                self._apart = self._clock() + _APART if found is None else 0.0
                seat.used = self._look.number
                self._lock.notify_all()
                left = None if self._seats else self._taken_out()
            _closed(left)
        return found is not None and seat.topic in found and found[seat.topic] == ends

    def leave(self, seat: Seat) -> None:
        """It is not asked for any more. (What a look has failed of may be the topic that goes.)"""
        with self._lock:
            self._seats.discard(seat)
            self._apart = 0.0
            left = None if self._seats or self._looks else self._taken_out()
        _closed(left)

    def _taken(self, topics: tuple[str, ...]) -> Ends:
        if self._looking is None or self._looking[0] != topics:
            _closed(self._taken_out())
            self._looking = topics, self._opened(topics)
        return self._looking[1].latest()

    def _taken_out(self) -> Looking | None:
        """What takes looks, to be closed: by the thread that looks, or with the lock while nobody does."""
        looking, self._looking = self._looking, None
        return None if looking is None else looking[1]


def _closed(looking: Looking | None) -> None:
    """Without the lock: a client may take long to close, or fail, which is nobody's concern any more."""
    if looking is not None:
        with suppress(Exception):
            looking.close()


class SharedLooks:
    """The clusters of a process, by the properties of their clients, as long as somebody asks them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[tuple[tuple[str, str], ...], ClusterLooks] = WeakValueDictionary()

    def of(self, properties: Mapping[str, str], made: Callable[[], ClusterLooks]) -> ClusterLooks:
        """The cluster that clients with these properties see; `made` if nobody asks it now."""
        key = tuple(sorted(properties.items()))
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = made()
            return found
