"""What sources of a cluster of Kafka's ask together (`tidegate/runtime/cluster_looks.py`)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from tidegate.runtime.cluster_looks import ClusterLooks, Ends, Seat, SharedLooks, SilentError

#: A test that waits longer for a thread has failed.
SOON = 30.0


class Model:
    """A cluster of topics with one partition. `asked`: the topics of each question; `closed`: how many connections were
    given back. While `holds` is set, an answer waits for `answers`."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        self.asked: list[tuple[str, ...]] = []
        self.opened = self.closed = 0
        self.error: Exception | None = None
        #: The topic that the error is of; None: of all.
        self.without: str | None = None
        self.begun, self.answers = threading.Event(), threading.Event()
        self.answers.set()
        self.now = 0.0
        self.cluster = ClusterLooks(
            self._open,
            lambda error: str(error) if isinstance(error, TimeoutError) else None,
            lambda: self.now,
        )

    def seat(self, topic: str) -> Seat:
        self.ends[topic] = 0
        found = Seat(topic)
        self.cluster.join(found)
        return found

    def still(self, seat: Seat, end: int = 0) -> bool:
        return self.cluster.still(seat, {"0": end})

    def _open(self, topics: Sequence[str]) -> Asking:
        self.opened += 1
        return Asking(self, tuple(topics))

    def answer(self, topics: tuple[str, ...]) -> Ends:
        self.asked.append(topics)
        self.begun.set()
        assert self.answers.wait(SOON)
        if self.error is not None and self.without in (None, *topics):
            raise self.error
        return {topic: {"0": self.ends[topic]} for topic in topics}


class Asking:
    """See `cluster_looks.Looking`."""

    def __init__(self, model: Model, topics: tuple[str, ...]) -> None:
        self._model, self._topics = model, topics

    def latest(self) -> Ends:
        return self._model.answer(self._topics)

    def close(self) -> None:
        self._model.closed += 1


def test_a_cluster_is_asked_once_in_a_beat_for_all_of_its_topics() -> None:
    model = Model()
    seats = [model.seat(f"t{n:03}") for n in range(100)]
    for beat in range(10):
        assert all(model.still(seat) for seat in seats), beat
    assert model.asked == [tuple(seat.topic for seat in seats)] * 10
    assert model.opened - model.closed == 1


def test_what_has_come_is_seen_at_the_next_beat_and_by_its_source_alone() -> None:
    model = Model()
    a, b = model.seat("a"), model.seat("b")
    for seat in (a, b, a, b):
        model.still(seat)
    assert (model.still(a), model.still(b)) == (True, True)
    model.ends["b"] = 3
    assert (model.still(a), model.still(b)) == (True, False)
    assert (model.still(a), model.still(b, 3)) == (True, True)


def test_a_look_is_used_once_by_each_source_even_if_it_is_asked_more_often() -> None:
    model = Model()
    often, seldom = model.seat("often"), model.seat("seldom")
    model.still(often), model.still(seldom)
    model.asked = []
    assert [model.still(often) for _ in range(3)] == [True] * 3
    assert len(model.asked) == 3
    assert model.still(seldom)
    assert len(model.asked) == 3


def test_whoever_leaves_is_not_asked_for_and_the_last_one_lets_go_of_the_cluster() -> None:
    model = Model()
    a, b = model.seat("a"), model.seat("b")
    model.still(a), model.still(b)
    model.cluster.leave(a)
    model.still(b), model.still(b)
    assert model.asked[-1] == ("b",)
    model.cluster.leave(b)
    assert model.opened == model.closed
    # And comes back, as a source does that was opened again.
    assert model.still(a)
    assert model.asked[-1] == ("a",)


def test_a_look_that_fails_says_nothing_and_sources_ask_alone_for_a_while() -> None:
    model = Model()
    a, b = model.seat("a"), model.seat("b")
    assert model.still(a)
    model.error, model.without = TimeoutError("no leader"), "b"
    assert not model.still(a)
    # Of a topic without a leader its own source hears, and no other one waits for it.
    model.asked = []
    assert not any(model.still(seat) for seat in (a, b, a, b))
    assert model.asked == []
    for _ in range(3):
        with pytest.raises(TimeoutError), model.cluster.question("b"):
            raise TimeoutError("no leader")
        with model.cluster.question("a"):
            pass
    model.cluster.leave(b)
    model.now += 61.0
    assert model.still(a)
    assert model.asked == [("a",)]
    assert model.opened == 2
    assert model.closed == 1


def test_a_look_that_is_not_young_is_taken_by_nobody_else() -> None:
    model = Model()
    a, b = model.seat("a"), model.seat("b")
    model.still(a)
    model.ends["b"] = 3
    model.now += 4.0
    assert model.still(b), "it is what was there a moment ago"
    model.still(a)
    model.now += 6.0
    model.ends["b"] = 5
    assert not model.still(b, 3)


def test_a_look_that_takes_long_keeps_nobody_else() -> None:
    model = Model()
    a, b = model.seat("a"), model.seat("b")
    model.still(a), model.still(b)
    model.answers.clear()
    model.begun.clear()
    found: list[bool] = []
    looks = threading.Thread(target=lambda: found.append(model.still(a)), daemon=True)
    looks.start()
    assert model.begun.wait(SOON)
    # Nobody knows: it asks by itself.
    assert not model.still(b)
    with model.cluster.question("b"):
        pass
    waits = threading.Timer(0.1, model.answers.set)
    waits.start()
    # An ordinary look is waited for, and taken.
    assert model.still(b)
    looks.join(SOON)
    assert found == [True]


def test_a_silent_cluster_keeps_one_thread_and_the_others_are_told_why() -> None:
    model = Model()
    for topic in ("a", "b"):
        with pytest.raises(TimeoutError), model.cluster.question(topic):
            raise TimeoutError(f"timed out of {topic}")
    tried, over = threading.Event(), threading.Event()

    def tries() -> None:
        with model.cluster.question("a"):
            tried.set()
            assert over.wait(SOON)

    thread = threading.Thread(target=tries, daemon=True)
    thread.start()
    assert tried.wait(SOON)
    with pytest.raises(SilentError, match="timed out of b"), model.cluster.question("b"):
        raise AssertionError("a second thread waits")
    over.set()
    thread.join(SOON)
    # It has answered: any number may ask at the same time.
    with model.cluster.question("a"), model.cluster.question("b"):
        pass


def test_clients_with_other_properties_see_another_cluster() -> None:
    clusters = SharedLooks()
    made: list[ClusterLooks] = []

    def of(properties: Mapping[str, str]) -> ClusterLooks:
        def make() -> ClusterLooks:
            made.append(Model().cluster)
            return made[-1]

        return clusters.of(properties, make)

    plain = of({"bootstrap.servers": "k:1", "client.id": "x"})
    assert of({"client.id": "x", "bootstrap.servers": "k:1"}) is plain
    assert (
        of({"bootstrap.servers": "k:1", "client.id": "x", "isolation.level": "read_committed"}) is not plain
    )
    assert len(made) == 2
