"""Random rows: strategies that remember rows decide as the oracle does, however batches are cut (S1–S4, W11, W4)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from tests.conftest import Workbench
from tests.oracles.strategies import Partition, Preceding, SourceWatermark
from tests.views.property.bundle import BEGIN, with_random_seeds

pytestmark = pytest.mark.runner("inprocess")

SQL = """
CREATE SOURCE {name} (p VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS {strategy})
WITH (connector = 'filesystem', path = 'input', partition.columns = 'p', max_files_per_batch = '1')
FORMAT PLAIN ENCODE JSON;
"""
PARTITIONS = "abc"


def without_maximum(frame: list[int]) -> int | None:
    return None if frame[-1] == max(frame) else frame[-1] - 2000


def lowest(frame: list[int]) -> int:
    return min(frame) - 1000


STRATEGIES: dict[str, tuple[str, Callable[[], SourceWatermark | Preceding]]] = {
    "measured": ("SOURCE_WATERMARK()", SourceWatermark),
    "outliers": (
        "CASE WHEN ts = max(ts) OVER (ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) THEN NULL "
        "ELSE ts - INTERVAL '2 seconds' END",
        lambda: Preceding(3, without_maximum),
    ),
    "lowest": (
        "min(ts) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) - INTERVAL '1 second'",
        lambda: Preceding(2, lowest),
    ),
}


def arrivals(rng: Random) -> list[tuple[str, int]]:
    """(partition, ms) in order of arrival: each partition has its own lateness, and enough rows to warm up."""
    out, now = [], 0
    habits = {
        p: rng.choice([[0, 0, 0, 5, 3000], [0, 10, 100, 4000], [0] * 6 + [5000, 40_000]]) for p in PARTITIONS
    }
    for _ in range(3600):
        now += rng.choice([0, 1, 10, 100])
        partition = rng.choice(PARTITIONS)
        out.append((partition, 60_000 + now - rng.choice(habits[partition])))
    return out


def text(ms: int) -> str:
    return f"{BEGIN + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S.%f}"


def check(workbench: Workbench, rng: Random) -> None:
    workbench.assets(**{name: SQL.format(name=name, strategy=sql) for name, (sql, _) in STRATEGIES.items()})
    rows = arrivals(rng)
    gates = {name: {p: Partition(make()) for p in PARTITIONS} for name, (_, make) in STRATEGIES.items()}
    expected: dict[str, dict[tuple[str, int], tuple]] = {name: {} for name in STRATEGIES}
    for name, partitions in gates.items():
        offsets = dict.fromkeys(PARTITIONS, 0)
        for partition, ms in rows:
            expected[name][partition, offsets[partition]] = partitions[partition].read(ms)
            offsets[partition] += 1

    cuts = sorted(rng.sample(range(1, len(rows)), 3))
    for i, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        lines = [{"p": p, "ts": text(ms)} for p, ms in rows[start:end]]
        workbench.json_lines(f"input/{i}.json", lines)
    session = workbench.session()
    session.run()
    for name in STRATEGIES:
        raw = session.table(f"{name}$raw").select("partition", "offset", "outcome", "watermark").collect()
        decided = {
            (p, offset): (outcome, in_ms(watermark) if outcome == "late" else None)
            for p, offset, outcome, watermark in raw
        }
        wrong = {
            place: (decided.get(place), want)
            for place, want in expected[name].items()
            if decided[place] != want
        }
        assert len(decided) == len(rows)
        assert len(wrong) == 0, f"{name}: the first (shown, expected): {min(wrong.items())}"
        outcomes = {outcome for outcome, _ in expected[name].values()}
        assert outcomes == {"on_time", "late"}, name


def in_ms(watermark) -> int | None:
    return None if watermark is None else (watermark - BEGIN) // timedelta(milliseconds=1)


@pytest.mark.slow
def test_property_S_and_W11_strategies_equal_the_oracle(new_workbench: Callable[[], Workbench]) -> None:
    def property(rng: Random) -> None:
        check(new_workbench(), rng)

    with_random_seeds(property)
