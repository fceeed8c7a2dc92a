"""A session on a table and a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import Workbench
from tests.sinks.made import TABLE, VIEW

if TYPE_CHECKING:
    from tidegate.session.session import Session


@pytest.fixture
def session(workbench: Workbench) -> Session:
    session = workbench.session()
    for sql in (TABLE, f"{VIEW} EMIT ON WINDOW CLOSE"):
        session.execute(sql)
    return session
