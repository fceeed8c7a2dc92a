"""Sessions of the projects that Dagster runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import SPARK
from tests.inprocess.session import open_session, session_on
from tidegate.dagster.resource import TidegateResource

if TYPE_CHECKING:
    from tidegate.session.session import Session


@pytest.fixture
def opened(
    runner: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], Session]:
    """Opens a session on a project; runs that Dagster executes here have the same runner."""
    if runner != SPARK:
        monkeypatch.setattr(
            TidegateResource, "session", property(lambda self: session_on(self.load_project()))
        )
        return open_session
    import tidegate

    spark = request.getfixturevalue("spark")
    return lambda root: tidegate.connect(root, spark=spark)
