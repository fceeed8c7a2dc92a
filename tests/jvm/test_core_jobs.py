"""Jobs of Spark's core, without a query (`jvm/core_jobs.py`, `tasks/numbers.py`)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.conftest import Workbench
from tidegate.jvm import gathered
from tidegate.jvm.core_jobs import run_in_tasks
from tidegate.jvm.failures import is_from_spark, worker_died
from tidegate.jvm.gathered import gatherer
from tidegate.session.session import Session
from tidegate.tasks.numbers import Numbers
from tidegate.tasks.transfer import texts_of


@pytest.fixture(params=["by Spark's closures", "by our own class"])
def session(workbench: Workbench, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Session:
    """What tasks give is gathered in this way (`jvm/gathered.py`)."""
    found = workbench.session()
    by_our_own = request.param == "by our own class"
    context = found.spark.sparkContext
    monkeypatch.setitem(vars(context), gathered._GATHERER, gathered._made(context) if by_our_own else None)
    assert (gatherer(context) is not None) == by_our_own
    return found


def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A task whose text is what it was given."""
    numbers = [batch.to_pydict() for batch in batches]
    yield pa.RecordBatch.from_pydict({"report": [repr(numbers)]})


@pytest.mark.parametrize(("tasks", "care"), [(1, 0), (2, 0), (5, 0), (5, 1)])
def test_tasks_get_the_numbers_that_a_query_would_give_them(session: Session, tasks: int, care: int) -> None:
    work = Numbers(session.spark, tasks, care)
    found = work.texts(told)
    assert len(found) == (1 if care else tasks)
    assert found == texts_of(work.frame, told)


def test_what_tasks_give_is_in_their_order(session: Session) -> None:
    """As many things as each task likes, also none."""

    def work(number: int, rows: Iterator[bytes]) -> Iterator[tuple[int, int]]:
        assert not list(rows)
        yield from ((number, place) for place in range(3 - number))

    assert run_in_tasks(session.spark, work, 4) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]


def test_what_a_task_needs_may_be_large(session: Session) -> None:
    """It is broadcast then."""
    large = os.urandom(3 << 20)

    def work(number: int, rows: Iterator[bytes]) -> Iterator[int]:
        yield from (number, len(large), *map(len, rows))

    assert run_in_tasks(session.spark, work, 2) == [0, 3 << 20, 1, 3 << 20]


def test_a_job_that_fails_is_an_error_of_sparks(session: Session) -> None:
    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("it does not work")

    def dies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os._exit(9)

    work = Numbers(session.spark, 2)
    with pytest.raises(Exception, match="it does not work") as failed:
        work.texts(fails)
    assert is_from_spark(failed.value)
    assert not worker_died(failed.value)
    with pytest.raises(Exception, match="Python worker exited") as died:
        work.texts(dies)
    assert worker_died(died.value)
    assert len(work.texts(told)) == 2


def test_its_workers_are_those_of_queries(session: Session) -> None:
    """Workers with another environment would be another daemon's, with all that it imports; and those that are not
    used again would be made for every job."""

    def who(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        yield pa.RecordBatch.from_pydict({"report": [f"{os.getppid()} {os.getpid()}"]})

    work = Numbers(session.spark, 1)
    found = [work.texts(who)[0].split() for _ in range(24)]
    ((daemon, _),) = (text.split() for text in texts_of(work.frame, who))
    assert {of for of, _ in found} == {daemon}
    # There may be some, of other jobs, and they take turns.
    assert len({worker for _, worker in found}) < 12
