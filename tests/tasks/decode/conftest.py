"""A schema registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tasks.decode.schema_registry import FakeRegistry, schema_registry


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as running:
        yield running
