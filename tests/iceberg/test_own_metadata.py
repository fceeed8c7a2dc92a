"""What the driver has committed is not read back (`iceberg/own_metadata.py`): however that ends, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.inprocess.test_conformance import added, made, session, shown  # noqa: F401
from tidegate.iceberg import table_commit
from tidegate.jvm import calls as module
from tidegate.session.session import Session


@pytest.fixture(params=["one by one", "at once"])
def begun(session: Session, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    """A table with two rows, committed by a handle whose calls are made in this way."""
    jvm: Any = session.spark._jvm
    maker = vars(jvm).get(module._MAKER) or module._compiled(jvm)
    monkeypatch.setitem(vars(jvm), module._MAKER, maker if request.param == "at once" else None)
    table = session.tables.open(made(session))
    for row in ((1, "a", False), (2, "b", False)):
        added(session, table, [row])
    return table


@pytest.fixture
def interrupted(session: Session, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[bool]]:  # noqa: F811
    """Lets what is done with the metadata of the next commit end behind so many round trips; gives whether it did."""
    client: Any = session.spark._jvm._gateway_client  # type: ignore[union-attr]
    send, keep = client.send_command, table_commit.keep
    left: list[int] = []

    def counted(command: str, *given: Any, **named: Any) -> Any:
        answer = send(command, *given, **named)
        if left and not command.startswith("m\n"):
            left[0] -= 1
            if not left[0]:
                left.clear()
                raise KeyboardInterrupt
        return answer

    def within(at: int) -> list[bool]:
        ended: list[bool] = []

        def kept(*given: Any) -> None:
            left[:] = [at]
            keep(*given)
            ended.append(True)
            left.clear()

        monkeypatch.setattr(table_commit, "keep", kept)
        return ended

    monkeypatch.setattr(client, "send_command", counted)
    return within


@pytest.mark.spark
def test_R1_whoever_is_interrupted_after_a_commit_loses_nothing(
    session: Session,  # noqa: F811
    begun: Any,
    interrupted: Callable[[int], list[bool]],
) -> None:
    expected = [1, 2]
    for at in range(1, 60):
        ended, number = interrupted(at), len(expected) + 1
        try:
            added(session, begun, [(number, "c", False)])
        except KeyboardInterrupt:
            assert not ended
        expected.append(number)
        if ended:
            break
    assert at > 1
    added(session, begun, [(len(expected) + 1, "d", False)])
    assert [row[0] for row in shown(session, begun.identifier)] == [*expected, len(expected) + 1]


@pytest.mark.spark
def test_R1_a_commit_that_was_read_before_it_was_kept_is_stored(
    session: Session,  # noqa: F811
    begun: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keep = table_commit.keep

    def late(jvm: Any, operations: Any, known: Any, stored: Any) -> None:
        operations.refresh()
        keep(jvm, operations, known, stored)

    with monkeypatch.context() as patched:
        patched.setattr(table_commit, "keep", late)
        added(session, begun, [(3, "c", False)])
    assert [row[0] for row in shown(session, begun.identifier)] == [1, 2, 3]
    added(session, begun, [(4, "d", False)])
    assert [row[0] for row in shown(session, begun.identifier)] == [1, 2, 3, 4]
