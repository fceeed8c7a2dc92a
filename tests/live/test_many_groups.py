"""Many groups of live mode, each of a source and two views: whoever looks at them sees first what fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from tests.benchmarks.many.status import live, make_groups
from tests.live.test_http import get
from tidegate.cli.main import app
from tidegate.live.http import Access, HttpServer
from tidegate.project import Project
from tidegate.store.attention import document
from tidegate.store.status import read_status


@pytest.fixture(scope="module", params=[30, pytest.param(100, marks=pytest.mark.long_run)])
def count(request: pytest.FixtureRequest) -> int:
    """How many groups there are."""
    return int(request.param)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, count: int) -> Iterator[Project]:
    found = make_groups(tmp_path_factory.mktemp("many"), count, busy=3, quiet=1)
    with live(found, count):
        yield found


def printed(project: Project, *options: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["status", "--json", *options, "--project", str(project.root)])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def names(found: dict[str, Any], kind: str) -> list[str]:
    return [one["name"] for one in found[kind]]


def served(project: Project) -> dict[str, Any]:
    access = Access("127.0.0.1", 0)
    server = HttpServer(access, dict, lambda: document(read_status(project)), CollectorRegistry())
    try:
        code, _, body = get(f"{server.url}/status", timeout=60)
    finally:
        server.close()
    assert code == 200
    found: dict[str, Any] = json.loads(body)
    return found


def test_all_groups_are_told_and_first_those_that_want_attention(project: Project, count: int) -> None:
    for found in (printed(project), served(project)):
        # A partition of the source has stalled, and the view fails in live mode.
        assert found["attention"] == ["g003", "g003_1"]
        sources, views = names(found, "relations"), names(found, "views")
        assert (sources[:3], len(set(sources))) == (["g003", "g000", "g001"], count)
        assert (views[:3], len(set(views))) == (["g003_1", "g000_0", "g000_1"], 2 * count)


def test_what_fails_and_a_single_group_are_shown_alone(project: Project) -> None:
    found = printed(project, "--failing")
    assert (names(found, "relations"), names(found, "views")) == (["g003"], ["g003_1"])
    assert found["attention"] == ["g003", "g003_1"]
    found = printed(project, "--group", "g003")
    assert (names(found, "relations"), names(found, "views")) == (["g003"], ["g003_1", "g003_0"])
