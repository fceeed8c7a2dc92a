"""The two truths of random graphs agree: queries in plain Python, and as DuckDB's SQL over whole numbers."""

from __future__ import annotations

from collections import Counter
from random import Random

import duckdb
import pytest

from tests.graphs import duck
from tests.graphs.generate import history
from tests.graphs.simulate import Log, make, truth

WORLDS, VIEWS, ROUNDS = 12, 6, 8


@pytest.mark.medium
def test_property_duckdb_and_plain_python_agree() -> None:
    views = rows = 0
    for seed in range(WORLDS):
        rng = Random(seed)
        world = make(rng, VIEWS)
        logs = {source.name: Log(source) for source in world.sources}
        for insert in (one for inserts in history(rng, world.sources, ROUNDS) for one in inserts):
            logs[insert.source].insert(insert.rows)
        by_python = truth(world, world.states(), logs)
        with duckdb.connect() as database:
            for name, log in logs.items():
                database.execute(f"CREATE TABLE {name} (id BIGINT, k BIGINT, ts BIGINT)")
                for row in log.rows:
                    database.execute(f"INSERT INTO {name} VALUES (?, ?, ?)", [row["id"], row["k"], row["ts"]])
            unclear: set[str] = set()
            for view in world.views:
                question = duck.ambiguous(view.query)
                if unclear.intersection(view.query.reads()) or (
                    question and database.execute(question).fetchone()
                ):
                    unclear.add(view.name)
                    continue
                closes = world.closings[view.name]
                final = f" WHERE {closes} IS NOT NULL" if closes else ""
                database.execute(
                    f"CREATE TABLE {view.name} AS SELECT * FROM ({duck.query(view.query)}){final}"
                )
                names = [c.name for c in view.cols]
                found = Counter(database.execute(f"SELECT {', '.join(names)} FROM {view.name}").fetchall())
                expected = Counter(tuple(row[n] for n in names) for row in by_python[view.name])
                assert found == expected, f"world {seed}\n{world.text(view.name)}"
                views, rows = views + 1, rows + found.total()
    assert views > 0.8 * WORLDS * VIEWS
    assert rows > 5 * views
