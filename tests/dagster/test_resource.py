"""The resource: starts nothing before it is used, and stops only what it started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.dagster.projects import write_project
from tidegate.dagster import TidegateResource
from tidegate.errors import TidegateError


class FakeSpark:
    """Stands for a SparkSession: only counts how often it is stopped."""

    stopped = 0

    def stop(self) -> None:
        self.stopped += 1


class FakeSession:
    """Stands for a session on it."""

    def __init__(self, spark: FakeSpark) -> None:
        self.spark, self.closed = spark, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def spark_double(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    double = FakeSpark()
    monkeypatch.setattr("tidegate.jvm.spark.start", lambda *_, **__: double)
    monkeypatch.setattr("tidegate.session.session.Session.open", lambda _, spark: FakeSession(spark))
    return double


def use(resource: TidegateResource, *, touch: bool) -> Any:
    """A run that touches the session, or does not."""

    @dg.op(required_resource_keys={"tidegate"})
    def look(context) -> None:
        if touch:
            assert context.resources.tidegate.spark_session is context.resources.tidegate.session.spark

    @dg.job(resource_defs={"tidegate": resource})
    def looking() -> None:
        look()

    assert looking.execute_in_process().success


@pytest.mark.parametrize(
    ("running", "touch", "stopped"), [(False, True, 1), (True, True, 0), (False, False, 0)]
)
def test_it_stops_what_it_started_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark_double: FakeSpark,
    running: bool,
    touch: bool,
    stopped: int,
) -> None:
    monkeypatch.setattr("tidegate.dagster.resource._spark_runs", lambda: running)
    use(TidegateResource(project=str(write_project(tmp_path / "shop"))), touch=touch)
    assert spark_double.stopped == stopped


def test_a_definition_that_does_not_hold_costs_no_jvm(tmp_path: Path, spark_double: FakeSpark) -> None:
    root = write_project(tmp_path / "shop")
    (root / "assets" / "bad.sql").write_text("CREATE SOURCE oops (x BIGNT) WITH (connector = 'replay');")
    with pytest.raises(TidegateError, match="TG"):
        _ = TidegateResource(project=str(root)).session


def test_spark_of_somebody_else_is_used_through_start_spark(tmp_path: Path, spark_double: FakeSpark) -> None:
    class Ours(TidegateResource):
        def start_spark(self, project: Any) -> Any:
            return spark_double

    use(Ours(project=str(write_project(tmp_path / "shop"))), touch=True)
    assert spark_double.stopped == 0
