"""A command about several views, sources or tables of which one fails: the others are done, the exit code is 1, and a
summary says what was done and what was not; `--fail-fast` is the other way.

The work itself is played; what is tested is each command's own list of steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.fake import FakeSession
from tidegate.amend import run as amend_run
from tidegate.audit.source import SourceAudit
from tidegate.cli.commands.questions import audit as audit_command
from tidegate.cli.commands.questions.advise import _pictures
from tidegate.console import CaptureConsole
from tidegate.errors import TidegateError
from tidegate.ingest.ingest import Log
from tidegate.maintenance import upkeep
from tidegate.maintenance.upkeep import UpkeepReport
from tidegate.plots import pictures
from tidegate.project import Project
from tidegate.quality import run as quality_run
from tidegate.quality.model import SuiteResult
from tidegate.runtime import steps
from tidegate.runtime.stages import Stages
from tidegate.tables.table import Cleaned
from tidegate.views import retention
from tidegate.views.amend import rebuild, whatif
from tidegate.views.amend.rebuild import Rebuilt
from tidegate.views.amend.whatif import WhatIf
from tidegate.views.revisions.amend_report import ViewAmendment

Call = Callable[..., Any]
Do = Callable[[str], None]

SQL = """
CREATE TABLE s (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
{views}
CREATE MATERIALIZED VIEW vvb AS SELECT window_start, window_end, count(*) AS n
FROM TUMBLE(vb, window_end, INTERVAL '5 minutes') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
{tables}
"""
VIEW = """CREATE MATERIALIZED VIEW {} AS SELECT window_start, window_end, count(*) AS n
FROM TUMBLE(s, ts, INTERVAL '1 minute') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
"""
TABLE = "CREATE TABLE {} (id BIGINT, ts TIMESTAMP, PRIMARY KEY (id), WATERMARK FOR ts AS ts WITH TTL);\n"


class Stored(FakeSession):
    """A session in which everything is stored but what nobody can read (`unreadable`)."""

    foreign = frozenset[str]()
    unreadable = ""
    do: Do

    def stored(self, name: str) -> str:
        if name == self.unreadable:
            raise TidegateError("TG622", f'"{name}" was written by a later release')
        return name

    def relation(self, name: str) -> Any:
        return self.catalog.get(name)

    def require_unlent(self, name: str) -> None:
        """Nothing is only read here."""

    def declare(self) -> None:
        """The catalog has the definitions of the files."""

    def lease(self, name: str, part: str = "") -> AbstractContextManager[None]:
        return nullcontext()

    def log(self, relation: Any) -> Any:
        type(self).do(relation.name)
        done = Cleaned(relation.name, 0, 2, 1)
        state = SimpleNamespace(cleanup=lambda needed: done, compact=str, expire_snapshots=str)
        return SimpleNamespace(state=state)

    def stages(self, planned: Any) -> Stages:
        return Stages(planned)

    def cleanup(self, names: Any = None, steps: Any = None) -> list[Cleaned]:
        return retention.cleanup(self, names, steps=steps)  # type: ignore[arg-type]


@pytest.fixture
def done(shop: Path, fake: type[FakeSession], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in order; whatever is done for vb or tb fails."""
    text = SQL.format(
        views="".join(map(VIEW.format, ("va", "vb", "vc"))),
        tables="".join(map(TABLE.format, ("ta", "tb", "tc"))),
    )
    for file in (shop / "assets").glob("*.sql"):
        file.unlink()
    for folder in ("jobs", "quality"):
        for file in (shop / folder).iterdir():
            file.unlink()
    (shop / "assets" / "all.sql").write_text(text)
    names: list[str] = []

    def do(name: str) -> None:
        if name in ("vb", "tb"):
            raise TidegateError("TG502", f'"{name}" is in the way', hint="try again")
        names.append(name)

    monkeypatch.setattr(Stored, "do", do, raising=False)
    monkeypatch.setattr("tidegate.session.session.Session.open", lambda project: Stored(project))
    monkeypatch.setattr(steps, "spark_gone", lambda what: None)
    monkeypatch.setattr(retention, "needed_from", lambda *_: None)
    monkeypatch.setattr(Log, "of", lambda context, relation: context.log(relation))

    def played(module: Any, name: str, answer: Callable[[str], Any], at: int = 1) -> None:
        def play(*given: Any, **_: Any) -> Any:
            found = getattr(given[at], "name", given[at])
            do(found)
            return answer(found)

        monkeypatch.setattr(module, name, play)

    played(amend_run, "amend_view", ViewAmendment)
    played(whatif, "what_if", lambda name: WhatIf(name, "s", "ts", "ts", 9, 1, 0, 1, 1))
    played(rebuild, "_rebuild", lambda name: Rebuilt(name, "its definition has changed", 2, "generation_1"))
    monkeypatch.setattr(
        rebuild, "why_other", lambda session, view, changed: session.stored(view.name) and "it has changed"
    )
    played(upkeep, "maintain", UpkeepReport)
    played(
        audit_command,
        "audited",
        lambda name: (SourceAudit(name, [], None), lambda console: console.document(None, f"{name} adds up")),
    )
    played(
        quality_run,
        "_Asset",
        lambda name: SimpleNamespace(results=lambda: [SuiteResult(name, "log", "the whole log", [])]),
    )
    return names


VIEWS = ["va", "vb", "vc"]
#: What is asked, what is done without the one that fails, and what was before it.
COMMANDS = {
    "amend": (["amend"], ["va", "vc", "vvb"], ["va"]),
    "amend of some": (["amend", *VIEWS], ["va", "vc", "vvb"], ["va"]),
    "what-if": (["amend", *VIEWS, "--what-if", "ts - INTERVAL '1 hour'"], ["va", "vc"], ["va"]),
    "rebuild": (["rebuild"], ["va", "vc"], ["va"]),
    "rebuild of some": (["rebuild", *VIEWS], ["va", "vc"], ["va"]),
    "upkeep": (["upkeep"], ["s", "ta", "tc", "va", "vc", "vvb"], ["s", "ta"]),
    "upkeep of some": (["upkeep", *VIEWS], ["va", "vc"], ["va"]),
    "cleanup": (["cleanup"], ["ta", "tc"], ["ta"]),
    "cleanup of some": (["cleanup", "ta", "tb", "tc"], ["ta", "tc"], ["ta"]),
    "audit": (["audit", *VIEWS], ["va", "vc"], ["va"]),
    "audit of a selection": (["audit", "--select", "s+"], ["s", "va", "vc", "vvb"], ["s", "va"]),
    "quality": (["quality"], ["s", "ta", "tc", "va", "vc", "vvb"], ["s", "ta"]),
    "quality of some": (["quality", *VIEWS], ["va", "vc"], ["va"]),
}


@pytest.mark.medium
@pytest.mark.parametrize(("command", "others", "before"), COMMANDS.values(), ids=COMMANDS)
def test_one_that_fails_leaves_the_others_alone(
    tidegate: Call, done: list[str], command: list[str], others: list[str], before: list[str]
) -> None:
    result = tidegate(*command)
    assert (result.exit_code, sorted(done)) == (1, sorted(others)), result.output
    summary = result.stderr[result.stderr.index("not everything succeeded") :].splitlines()
    failing = [name for name in ("tb", "vb") if f"failed    {name}" in result.stderr]
    assert failing
    left_out = 1 if command[0] == "rebuild" else 0
    told = f"{len(failing)} failed, " + ("1 skipped, " if left_out else "") + f"{len(others)} done"
    assert summary[0] == f"not everything succeeded: {told}"
    for name in failing:
        assert f'"{name}" is in the way' in result.stderr
    assert ("  skipped  vvb (view): it reads vb" in summary) is bool(left_out)
    for name in others:
        assert name in result.output or command[0] == "upkeep"

    done.clear()
    document = json.loads(tidegate(*command, "--json").stdout.splitlines()[-1])
    assert [(one["name"], one["error"]["code"]) for one in document["failed"]] == [
        (name, "TG502") for name in sorted(failing)
    ]
    assert [one["name"] for one in document.get("skipped", [])] == ["vvb"] * left_out

    done.clear()
    fast = tidegate(*command, "--fail-fast")
    assert (fast.exit_code, sorted(done)) == (2, sorted(before))
    assert "error TG502" in fast.stderr


@pytest.mark.medium
@pytest.mark.parametrize("command", ["rebuild", "upkeep", "cleanup", "quality"])
def test_one_that_nobody_can_read_leaves_the_others_alone(
    tidegate: Call, done: list[str], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable = "tb" if command == "cleanup" else "va"
    monkeypatch.setattr(Stored, "unreadable", unreadable)
    result = tidegate(command)
    assert (result.exit_code, unreadable in done) == (1, False)
    assert f"  failed    {unreadable} (" in result.stderr
    assert "TG622" in result.stderr
    assert {"ta", "tc"} <= {*done} or {"vc"} <= {*done}


@pytest.mark.medium
def test_of_one_alone_it_is_the_error_itself(tidegate: Call, done: list[str]) -> None:
    for command in (["amend", "vb"], ["rebuild", "vb"], ["upkeep", "vb"], ["cleanup", "tb"], ["audit", "vb"]):
        result = tidegate(*command)
        assert (result.exit_code, done) == (2, [])
        assert "error TG502" in result.stderr
        assert "not everything" not in result.stderr


def test_windows_that_cannot_be_drawn_leave_the_advice_alone(
    shop: Path, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project.load(shop)
    monkeypatch.setattr(pictures, "of_advice", lambda advice: {"completeness": b""})
    monkeypatch.setattr(pictures, "of_history", lambda *_: {})
    monkeypatch.setattr(pictures, "of_windows", lambda *_: b"drawn")
    monkeypatch.setattr("tidegate.store.metadata.load_properties", lambda *_: {"some": "thing"})
    monkeypatch.setattr(
        "tidegate.advise.windows.newest_windows", lambda session, view: Stored.do(view.name) or [view.name]
    )
    relation, drawing = project.catalog().get("s"), steps.Steps()
    session: Any = Stored(project)
    drawn = _pictures(CaptureConsole(), session, project, relation, None, drawing)  # type: ignore[arg-type]
    assert list(drawn) == ["completeness", "windows_va", "windows_vc"]
    assert [one.name for one in drawing.failures] == ["vb"]
