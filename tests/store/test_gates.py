"""W14: what is said of inline gates, which stand in nobody's files, without a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.tables import progress_row
from tests.store.test_status import NOON, Stored
from tidegate.cli.commands.questions.status_answer import render
from tidegate.findings.look import look
from tidegate.project import Project
from tidegate.sql.catalog.objects import Relation

SQL = """
CREATE MATERIALIZED VIEW gated AS SELECT window_start, count(*) AS n
FROM TUMBLE(WATERMARK(zoned, at, INTERVAL '1 minute'), at, INTERVAL '1 hour') GROUP BY window_start
EMIT ON WINDOW CLOSE;
CREATE SINK told AS SELECT id, made FROM WATERMARK(
  (SELECT 1 AS id, CAST(CAST(at AS VARCHAR) AS TIMESTAMP) AS made FROM zoned), made, INTERVAL '1 minute')
  EMIT ON WINDOW CLOSE WITH (connector = 'console');
"""
STREAM = """
CREATE SOURCE stream (id INT, at TIMESTAMPTZ, WATERMARK FOR at AS at) WITH (connector = 'kafka', topic = 't',
  properties.bootstrap.server = '127.0.0.1:1') FORMAT PLAIN ENCODE JSON;
"""
#: At noon, two days later, and one minute before both, µs.
NOW = 1_578_657_600_000_000
AHEAD, MINUTE = 2 * 86_400_000_000, 60_000_000


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    made = Stored(tmp_path)
    (tmp_path / "assets" / "gated.sql").write_text(SQL)
    made.project = Project.load(tmp_path)
    return made


def gates(stored: Stored) -> tuple[str, str]:
    """The gate of the view, whose time is the source's, and that of the sink, whose time is another."""
    found = [o for o in stored.project.catalog().order() if isinstance(o, Relation) and o.kind == "gate"]
    (own,) = (gate.name for gate in found if gate.follows is None)
    (follows,) = (gate.name for gate in found if gate.follows is not None)
    return follows, own


def judge(stored: Stored, name: str, newest: int, late: int) -> None:
    """A commit of a gate or source."""
    mark = newest - MINUTE
    row = progress_row("a", watermark=mark, max_event_time=newest, on_time=5, late=late, state="active")
    path = stored.progress(name, progress_row(None, watermark=mark), row)
    stored.commit(name, epoch=1, watermark=mark, progress=path, on_time=5, late=late)


@pytest.mark.medium
def test_W14_status_says_of_gates_what_it_says_of_sources(stored: Stored) -> None:
    follows, own = gates(stored)
    judge(stored, follows, NOW, late=3)
    found = stored.status()
    assert follows not in [r.name for r in found.relations]
    gate, never = found.gates
    assert (gate.name, gate.kind, gate.read_by) == (follows, "gate", ("gated",))
    assert str(gate.gate).startswith("WATERMARK(zoned, at, ")
    assert (gate.raw, gate.on_time, gate.late) == (8, 5, 3)
    assert (gate.watermark_text, gate.lag, gate.behind_newest) == ("2020-01-10 11:59:00+00:00", 60.0, 60.0)
    assert [p.late for p in gate.partitions] == [3]
    assert (never.name, never.ran, never.read_by) == (own, False, ("told",))
    # Of what was asked for: those of a view or sink, those over a source, or one by its name.
    assert [g.name for g in stored.status("gated").gates] == [follows]
    assert [g.name for g in stored.status("told").gates] == [own]
    assert {g.name for g in stored.status("zoned").gates} == {follows, own}
    assert stored.status("epochs").gates == ()
    (asked,) = stored.status(follows).relations
    assert (asked, stored.status(follows).gates) == (gate, ())
    text = render(found, partitions=True)
    assert "inline gate" in text
    assert f"{follows}: WATERMARK(zoned" in text
    assert f"partitions of {follows}" in text


@pytest.mark.medium
def test_W14_W9_why_says_that_a_gate_is_poisoned_and_what_takes_it_back(stored: Stored) -> None:
    """Of a broker: files may be of any time."""
    folder = stored.project.root / "assets"
    (folder / "gated.sql").write_text(STREAM + SQL.replace("zoned", "stream"))
    stored.project = Project.load(folder.parent)
    follows, own = gates(stored)
    judge(stored, "stream", NOW, late=0)
    for name in (follows, own):
        judge(stored, name, NOW + AHEAD, late=4)
    seen = look(stored.project, now=NOON, ask_brokers=False)
    poison = {f.asset: f for f in seen.findings if f.kind == "future_timestamp"}
    assert poison.keys() == {follows, own}
    assert "ahead of the clock" in poison[follows].text
    assert "are late by it" in poison[follows].text
    # What has the source's time goes back with it; another time goes back by its own name.
    assert "ALTER SOURCE stream RESET" in poison[follows].advice
    assert f'ALTER SOURCE "{own}" RESET' in poison[own].advice
    assert [w.view for w in poison[follows].waiting] == ["gated"]
    assert follows in look(stored.project, ["gated"], now=NOON, ask_brokers=False).names
    assert own not in look(stored.project, ["gated"], now=NOON, ask_brokers=False).names
    assert not look(stored.project, ["epochs"], now=NOON, ask_brokers=False).of(follows)
