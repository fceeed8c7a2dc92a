"""What the driver asks the JVM for, beside what it has to."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from tests.conftest import Workbench
from tidegate.jvm.within import active
from tidegate.session.session import Session


@pytest.fixture
def session(workbench: Workbench) -> Session:
    return workbench.session()


def test_a_column_is_one_command_to_the_jvm(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not three, of which two look for the class and the method."""
    client = session.spark._jvm._gateway_client  # type: ignore[union-attr]
    sent: list[str] = []
    send = client.send_command

    def counted(command: str, *given: object, **named: object) -> object:
        # "m": memory, of objects that Python has forgotten meanwhile.
        if not command.startswith("m\n"):
            sent.append(command)
        return send(command, *given, **named)

    monkeypatch.setattr(client, "send_command", counted)
    F.col("a")
    sent.clear()
    F.col("b")
    assert len(sent) == 1, sent
    assert "col" in sent[0]


def test_plans_that_nobody_sees_are_not_described_at_length(session: Session) -> None:
    frame = session.spark.range(3).select(*[(F.col("id") + n).alias(f"column_{n}") for n in range(200)])
    with active(session.spark):
        assert len(frame._jdf.queryExecution().toString()) < 1_500
    assert frame.count() == 3
