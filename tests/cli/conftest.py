"""A project from `tidegate init`, a way to call commands, and a session without Spark."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.check.checking import Call
from tests.cli.fake import RUN, FakeSession
from tests.store.tables import HadoopTable, progress_row, write_progress
from tidegate.cli.commands.project.init import write_template
from tidegate.cli.main import app
from tidegate.project import Project
from tidegate.runtime.result import RunReport, SourceReport


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project as `tidegate init` writes it."""
    folder = tmp_path / "shop"
    write_template(folder)
    return folder


@pytest.fixture
def tidegate(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Call `tidegate ARGUMENTS` with the project as working directory; `input` is what is piped in."""
    monkeypatch.chdir(shop)
    handler = signal.getsignal(signal.SIGINT)

    def call(*arguments: str, input: str | None = None) -> Any:
        return CliRunner().invoke(app, list(arguments), input=input)

    yield call
    # Commands are made for a process of their own and leave their handlers installed.
    signal.signal(signal.SIGINT, handler)
    logging.disable(logging.NOTSET)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeSession]:
    """Sessions are fake ones; the class remembers what they were asked."""
    FakeSession.opened, FakeSession.statements, FakeSession.calls = [], [], []
    FakeSession.upstream, FakeSession.fail_fast = [], []
    FakeSession.report = RunReport([SourceReport("orders", 1, 12, 1, 1, "2026-03-01 11:10:00")])
    FakeSession.events = list(RUN)

    def open_fake(project: Project, env: str = "local", spark: object = None) -> FakeSession:
        return FakeSession(project)

    monkeypatch.setattr("tidegate.session.session.Session.open", open_fake)
    # They need no Java; what is said of a missing one is tested by itself.
    monkeypatch.setattr("tidegate.cli.invocation.Invocation.require_java", lambda self: None)
    return FakeSession


@pytest.fixture
def bare(tmp_path: Path, tidegate: Call, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with nothing but a folder of data."""
    root = tmp_path / "bare"
    for folder in ("assets", "jobs", "resources", "data"):
        (root / folder).mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def stored(shop: Path) -> None:
    """Tables as a run leaves them: two partitions, one view that is behind."""
    warehouse = shop / ".tidegate" / "warehouse" / "main"
    at = Project.load(shop).catalog().relations[0].watermark.kind.parse  # type: ignore[union-attr]
    rows = [
        progress_row(None, published=at("2026-03-01 11:10:00")),
        progress_row("berlin", watermark=at("2026-03-01 11:15:00"), on_time=6, late=1, next_offset=7),
        progress_row("paris", watermark=at("2026-03-01 11:10:00"), on_time=6, rejected=1, next_offset=7),
    ]
    rows[1]["_progress"]["max_event_time"] = at("2026-03-01 11:25:00")
    path = write_progress(warehouse / "orders" / "data" / "p.parquet", rows)
    summary = {"epoch": 1, "progress": path, "on_time": 12, "late": 1, "rejected": 1, "partitions": 2}
    summary["watermark"] = at("2026-03-01 11:10:00")
    view = {"frontier": at("2026-03-01 10:05:00"), "groups": 2, "open": 0, "tick": 1}
    for name, said in (("orders", summary), ("orders_hourly", view)):
        table = HadoopTable(warehouse / name, catalog=warehouse.parent / "catalog.db")
        table.commit({f"tidegate.{k}": v for k, v in said.items()})
