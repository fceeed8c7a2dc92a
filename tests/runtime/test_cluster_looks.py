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
        self.begun, self.answers = threading.Event(), threading.Event()
        self.answers.set()
        self.cluster = ClusterLooks(
            self._open, lambda error: str(error) if isinstance(error, TimeoutError) else None
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
        if self.error is not None:
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


def test_a_look_that_fails_says_nothing_and_is_taken_again() -> None:
    model = Model()
    a = model.seat("a")
    assert model.still(a)
    model.error = LookupError("one of the topics is not there")
    assert not model.still(a)
    # It has answered: others may ask.
    with model.cluster.question():
        pass
    model.error = None
    assert model.still(a)
    assert model.opened == 2
    assert model.closed == 1


def test_a_look_under_way_keeps_nobody_else() -> None:
    model = Model()
    a, b = model.seat("a"), model.seat("b")
    model.still(a), model.still(b)
    model.answers.clear()
    model.begun.clear()
    found: list[bool] = []
    looks = threading.Thread(target=lambda: found.append(model.still(a)), daemon=True)
    looks.start()
    assert model.begun.wait(SOON)
    # It has taken the look before this one; so it takes what is known.
    assert model.still(b)
    model.answers.set()
    looks.join(SOON)
    assert found == [True]


def test_a_silent_cluster_keeps_one_thread_and_the_others_are_told_why() -> None:
    model = Model()
    a, b = model.seat("a"), model.seat("b")
    model.still(a), model.still(b)
    with pytest.raises(TimeoutError), model.cluster.question():
        raise TimeoutError("timed out")
    tried, over = threading.Event(), threading.Event()

    def tries() -> None:
        with model.cluster.question():
            tried.set()
            assert over.wait(SOON)

    thread = threading.Thread(target=tries, daemon=True)
    thread.start()
    assert tried.wait(SOON)
    with pytest.raises(SilentError, match="timed out"), model.cluster.question():
        raise AssertionError("a second thread waits")
    model.still(b)
    assert not model.still(b)
    over.set()
    thread.join(SOON)
    # It has answered: any number may ask at the same time.
    with model.cluster.question(), model.cluster.question():
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
