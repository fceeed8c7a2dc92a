"""ALTER in the shell while `tidegate live` runs (E7): live mode makes the change, other groups do not notice, and rows
of before and after it are judged and counted once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_end_to_end import Live
from tests.maintenance.backups.restoring import at, expected, stored
from tidegate.project import Project
from tidegate.store.metadata import load_table
from tidegate.store.writers import running

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long_run]

SOURCE = """CREATE SOURCE {name} (id INT, k VARCHAR, amount INT, ts TIMESTAMP,
WATERMARK FOR ts AS ts - INTERVAL '5 seconds') WITH (connector = 'filesystem', path = 'in/{name}')
FORMAT PLAIN ENCODE JSON"""
VIEWS = {
    "minutes": "SELECT window_end, k, count(*) AS n, sum(id) AS ids FROM TUMBLE(orders, ts, INTERVAL '1 minute') "
    "GROUP BY window_end, k",
    "sums": "SELECT window_end, sum(amount) AS total FROM TUMBLE(orders, ts, INTERVAL '1 minute') GROUP BY window_end",
}


class Orders:
    """Rows for a source, and what the oracle is told of them."""

    def __init__(self, root: Path, source: str = "orders") -> None:
        self._folder, self.rows = root / "in" / source, list[tuple[int, str, int]]()
        self._folder.mkdir(parents=True)

    def send(self, *times: int, **more: Any) -> None:
        """A file, with the columns `more` in each row."""
        first = len(self.rows)
        rows = [(first + n, "ab"[n % 2], time) for n, time in enumerate(times)]
        texts = [json.dumps({"id": i, "k": k, "ts": at(time)} | more) for i, k, time in rows]
        hidden = self._folder / f".{first:04}"
        hidden.write_text("".join(f"{text}\n" for text in texts))
        hidden.rename(self._folder / f"{first:04}.json")
        self.rows += rows


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    root = tmp_path / "project"
    warehouse = {"catalog": {"type": "jdbc", "uri": "jdbc:sqlite:.tidegate/warehouse/catalog.db"}}
    (root / "resources").mkdir(parents=True)
    (root / "resources" / "local.yaml").write_text(json.dumps({"warehouse": warehouse}))
    # As the shell keeps what is created in it.
    project = Project.load(root)
    project.save_definition("orders", SOURCE.format(name="orders"))
    for name, query in VIEWS.items():
        project.save_definition(name, f"CREATE MATERIALIZED VIEW {name} AS {query} EMIT ON WINDOW CLOSE")
    (root / "in" / "other").mkdir(parents=True)
    found = Live(root, asset=f"{SOURCE.format(name='other')};\n", warehouse=warehouse)
    yield found
    if found.process.poll() is None:
        found.process.send_signal(signal.SIGTERM)
        found.process.wait(60)


def shell(live: Live, *statements: str) -> tuple[int, str]:
    words = [sys.executable, "-m", "tidegate.cli.main", "sql", "-c", "; ".join(statements)]
    done = subprocess.run(words, cwd=live.root, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def judged(live: Live, source: str = "orders") -> int:
    """Rows of a source that are stored."""
    table = load_table(Project.load(live.root).storage, source)
    names = ("tidegate.on_time", "tidegate.late", "tidegate.rejected")
    return 0 if table is None else sum(table.integer(name) or 0 for name in names)


def test_E7_a_source_is_altered_in_the_shell_while_live_mode_writes_it(live: Live) -> None:
    orders = Orders(live.root)
    orders.send(10, 50, 40, 70, amount=1)
    live.wait(lambda: judged(live) == 4)
    code, said = shell(live, "ALTER SOURCE orders ADD COLUMN note VARCHAR")
    assert (code, "is added; rows that are judged keep their outcome; live mode continues" in said) == (
        0,
        True,
    ), said
    orders.send(90, 61, 130, amount=2, note="new")
    live.wait(lambda: judged(live) == 7)
    changes = ("RENAME COLUMN note TO remark", "ADD COLUMN big INT", "ALTER COLUMN big TYPE BIGINT")
    code, said = shell(live, *(f"ALTER SOURCE orders {change}" for change in changes))
    assert (code, said.count("live mode continues with the change")) == (0, 3), said
    orders.send(200, 201, amount=3, remark="last", big=1 << 40)
    live.wait(lambda: judged(live) == 9)

    # What live mode does not make by itself is refused, and nothing is changed.
    code, said = shell(live, "ALTER SOURCE orders ALTER COLUMN amount TYPE BIGINT")
    assert (code, "TG709" in said, "sums (view)" in said) == (2, True, True), said
    orders.send(400, amount=4)
    live.wait(lambda: judged(live) == 10)

    outcomes, windows, _ = expected(orders.rows)
    assert list(outcomes.values()).count("late") == 2
    live.wait(lambda: stored(live.root, "minutes", "window_end", "k", "n", "ids") == windows)
    rows = "_outcome != 'watermark'"
    assert stored(live.root, "orders", "id", "_outcome", where=rows) == dict.fromkeys(outcomes.items(), 1)
    new, last = ("new", None), ("last", 1 << 40)
    values = {4: new, 5: new, 6: new, 7: last, 8: last}
    expected_values = {(i, *values.get(i, (None, None))): 1 for i in outcomes}
    assert stored(live.root, "orders", "id", "remark", "big", where=rows) == expected_values
    live.wait(
        lambda: sum(total for _, total in stored(live.root, "sums", "window_end", "total")) == 3 + 4 + 6
    )

    # The other group has not begun again, and the process is the one that began.
    assert [one["began"] for one in live.told("definitions_loaded")] == [["orders"]] * 4
    assert [one.refused for one in running(live.root / ".tidegate", "local")] == [None]
    # (The statement has looked before it asked.)
    assert not live.told("definitions_refused")
    assert [one["group"] for one in live.told("worker_started")].count("other") == 1
    assert len({one["pid"] for one in live.told("worker_started")}) == 1
    assert not [*live.told("member_failed"), *live.told("worker_failed")]
