"""`tidegate apply` while `tidegate live` runs (E1, E3, E5): a change of a source and of the views that name its columns
is made by one command; other groups do not notice, and every row is counted once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_alter import SOURCE, VIEWS, Orders, judged, shell
from tests.live.test_end_to_end import Live
from tests.maintenance.backups.restoring import expected, stored
from tests.support.commands import tidegate
from tidegate.project import Project
from tidegate.store.metadata import load_table

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long_run]


def _view(name: str, query: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE;\n"


SINK = """CREATE SINK out FROM minutes WITH (connector = 'filesystem', path = 'out', on_change = '{}')
FORMAT PLAIN ENCODE JSON"""


def _asset(
    amount: str = "INT", note: str = "", minutes: str = VIEWS["minutes"], on_change: str = "replay"
) -> str:
    source = SOURCE.format(name="orders").replace("amount INT", f"amount {amount}{note}")
    views = _view("minutes", minutes) + _view("sums", VIEWS["sums"])
    return f"{source};\n{views}{SOURCE.format(name='other')};\n{SINK.format(on_change)};\n"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    root = tmp_path / "project"
    (root / "in" / "other").mkdir(parents=True)
    warehouse = {"catalog": {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}}
    (root / "resources").mkdir()
    (root / "resources" / "local.yaml").write_text(json.dumps({"warehouse": warehouse}))
    # As the shell keeps what is created in it.
    Project.load(root).save_definition("noted", SOURCE.format(name="noted"))
    found = Live(root, asset=_asset(), warehouse=warehouse)
    yield found
    if found.process.poll() is None:
        found.process.send_signal(signal.SIGTERM)
        found.process.wait(60)


def total_of(live: Live) -> int | None:
    """Of all windows that are closed; None before there is a table."""
    if load_table(Project.load(live.root).storage, "sums") is None:
        return None
    return sum(
        total * times for (_, total), times in stored(live.root, "sums", "window_end", "total").items()
    )


def delivered(live: Live) -> list[dict[str, Any]]:
    files = (live.root / "out").glob("*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def command(live: Live, *words: str) -> tuple[int, str]:
    code, said, problems = tidegate(live.root, *words)
    return code, said + problems


def test_E1_E5_a_column_that_views_name_is_changed_by_apply_while_live_mode_runs(live: Live) -> None:
    orders, noted = Orders(live.root), Orders(live.root, "noted")
    orders.send(10, 50, 40, 70, amount=1)
    noted.send(10, 20)
    live.wait(lambda: judged(live) == 4)
    live.wait(lambda: total_of(live) == 2)

    # Widened, with a column more that a view counts now, too: what live mode does not make by itself.
    counted = VIEWS["minutes"].replace("sum(id) AS ids", "sum(id) AS ids, count(note) AS notes")
    live.assets.write_text(_asset("BIGINT", ", note VARCHAR", counted, "from_frontier"))
    code, said = command(live, "reload")
    assert (code, "sums (view): new version" in said, "minutes (view): new version" in said) == (
        1,
        True,
        True,
    ), said
    code, said = command(live, "plan", "sums")
    assert code == 2, said
    assert [name in said for name in ("orders (source): in place", "sums (view): new version")] == [
        True,
        True,
    ], said
    # (The query of the other view was changed by itself.)
    assert "minutes (view)" not in said
    code, said = command(live, "apply", "--yes")
    assert code == 0, said
    assert "live mode makes these changes: orders, out" in said, said

    orders.send(90, 61, 130, amount=1 << 40, note="new")
    live.wait(lambda: judged(live) == 7)
    orders.send(400, amount=4)
    live.wait(lambda: judged(live) == 8)
    outcomes, windows, _ = expected(orders.rows)
    rows = "_outcome != 'watermark'"
    assert stored(live.root, "orders", "id", "_outcome", where=rows) == dict.fromkeys(outcomes.items(), 1)
    live.wait(lambda: stored(live.root, "minutes", "window_end", "k", "n", "ids") == windows)
    on_time = {number for number, outcome in outcomes.items() if outcome == "on_time"}
    closed = {number for number in on_time if orders.rows[number][2] < 360}
    total = sum(1 << 40 if number >= 4 else 1 for number in closed)
    live.wait(lambda: total_of(live) == total)
    notes = stored(live.root, "minutes", "window_end", "notes")
    assert sum(n * times for (_, n), times in notes.items()) == len(
        [number for number in closed if number >= 4]
    )
    # Each window of one version only, as the sink says since then (E6).
    live.wait(lambda: len(delivered(live)) == sum(windows.values()))
    assert set(Counter((row["window_end"], row["k"]) for row in delivered(live)).values()) == {1}
    code, said = command(live, "plan")
    assert code == 0, said

    _is_altered_in_the_shell(live, noted)
    # The other group has not begun again, and the process is the one that began.
    assert [one["began"] for one in live.told("definitions_loaded")] == [["orders"], ["noted"]]
    assert len({one["pid"] for one in live.told("worker_started")}) == 1
    assert {one["name"] for one in live.told("member_failed")} <= {"sums", "minutes"}


def _is_altered_in_the_shell(live: Live, noted: Orders) -> None:
    """A source that was created in the shell (E7)."""
    live.wait(lambda: judged(live, "noted") == 2)
    code, said = shell(live, "ALTER SOURCE noted ADD COLUMN note VARCHAR")
    assert (code, "is added; rows that are judged keep their outcome; live mode continues" in said) == (
        0,
        True,
    ), said
    noted.send(30, note="new")
    live.wait(lambda: judged(live, "noted") == 3)
    assert stored(live.root, "noted", "id", "note", where="_outcome != 'watermark'") == {
        (0, None): 1,
        (1, None): 1,
        (2, "new"): 1,
    }
