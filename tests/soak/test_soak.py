"""The soak test must tell a leak from noise, and leave figures that people can read."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from tests.chaos.processes import tree
from tests.soak.page import BEGIN, END, figures, plot, read_csv, write_csv, write_docs
from tests.soak.run import IMAGE, PAGE, TABLES
from tests.soak.sample import Told, of_processes, series
from tests.soak.trend import Limit, trend

LIMIT = Limit(share=0.10, amount=30)
TIMES = [10.0 * i for i in range(180)]


def noisy(slope_per_hour: float, level: float = 800.0, scatter: float = 10.0) -> list[float | None]:
    rng = random.Random(5)
    return [level + slope_per_hour * t / 3600 + rng.gauss(0, scatter) for t in TIMES]


def test_noise_is_flat_and_a_leak_is_not() -> None:
    flat = trend("memory", "MB", TIMES, noisy(0), LIMIT)
    leak = trend("memory", "MB", TIMES, noisy(400), LIMIT)
    assert flat is not None
    assert leak is not None
    assert (flat.verdict, leak.verdict) == ("flat", "growing")
    assert leak.per_hour == pytest.approx(400, abs=30)
    assert leak.rise == pytest.approx(leak.per_hour * (TIMES[-1] - TIMES[0]) / 3600)


def test_a_saw_tooth_is_flat() -> None:
    """Files come, and compaction takes them again."""
    teeth = [50 + i % 37 * 5.0 for i in range(len(TIMES))]
    found = trend("files", "", TIMES, teeth, Limit(0.20, 50))
    assert found is not None
    assert not found.growing


def test_half_a_tooth_of_a_saw_is_flat_and_a_saw_that_climbs_is_not() -> None:
    """Memory that is collected every forty minutes, looked at for thirty."""
    half = [600 + (900 + t) % 2400 / 2400 * 400 for t in TIMES]
    collected, climbing = (
        trend("memory", "MB", TIMES, [v + slope * t / 3600 for t, v in zip(TIMES, half, strict=True)], LIMIT)
        for slope in (0, 500)
    )
    assert collected is not None
    assert climbing is not None
    assert (collected.growing, climbing.growing) == (False, True)


def test_a_rise_below_the_amount_is_flat() -> None:
    found = trend("memory", "MB", TIMES, noisy(40, level=20, scatter=1), LIMIT)
    assert found is not None
    assert found.rise < 30
    assert not found.growing


def test_what_was_not_measured_has_no_trend() -> None:
    assert trend("memory", "MB", TIMES, [None] * len(TIMES), LIMIT) is None
    gaps = [value if i % 2 else None for i, value in enumerate(noisy(400))]
    found = trend("memory", "MB", TIMES, gaps, LIMIT)
    assert found is not None
    assert found.growing
    assert found.samples == len(TIMES) // 2


def test_times_come_from_the_log_once(tmp_path: Path) -> None:
    log = tmp_path / "live.log"
    tick = {"event": "tick_finished", "rows": 5, "seconds": 2.0, "commit_seconds": 0.5}
    lines = [tick, tick | {"rows": 0, "seconds": 9.0}, {"event": "batch_committed", "seconds": 1.0}]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "no JSON\n" + '{"event": "tick_fini'
    log.write_text(text)
    told = Told(log)
    assert told.times() == {"tick": 2.0, "commits of a tick": 0.5, "batch": 1.0}
    assert told.times() == {}
    with log.open("a") as file:
        file.write('shed", "rows": 1, "seconds": 4.0, "commit_seconds": 1.0}\n')
    assert told.times() == {"tick": 4.0, "commits of a tick": 1.0}


def test_processes_are_measured() -> None:
    found = of_processes(tree(os.getpid()))
    assert found["memory supervisor"] > 10
    assert found["processes"] >= 1


@pytest.mark.medium
def test_figures_go_between_the_marks_of_the_page(tmp_path: Path) -> None:
    known = series(["events"])
    samples = [{"seconds": t, "memory jvm": v, "tick": 1.0} for t, v in zip(TIMES, noisy(900), strict=True)]
    found = trend("memory jvm", "MB", TIMES, [s["memory jvm"] for s in samples], LIMIT)
    assert found is not None
    plot(tmp_path / "soak.png", known, samples, 300, {"memory jvm": found})
    assert (tmp_path / "soak.png").stat().st_size > 10_000
    write_csv(tmp_path / "soak.csv", list(known), samples)
    lines = (tmp_path / "soak.csv").read_text().splitlines()
    assert lines[0].startswith("seconds,memory supervisor,")
    assert len(lines) == len(samples) + 1
    again = read_csv(tmp_path / "soak.csv")
    assert [sample["memory jvm"] for sample in again] == pytest.approx(
        [s["memory jvm"] for s in samples], rel=1e-5
    )

    page = tmp_path / "soak.md"
    page.write_text(f"above\n{BEGIN}\nold figures\n{END}\nbelow\n")
    for _ in range(2):
        write_docs(page, figures([found], {"rate": "2,000 rows a second"}, IMAGE))
    text = page.read_text()
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert text.count("**growing**") == text.count("* rate: 2,000") == 1
    assert "old figures" not in text
    page.write_text("no place")
    with pytest.raises(ValueError, match="no place for figures"):
        write_docs(page, "x")


def test_the_documentation_has_a_place_for_them() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)
    # Every kind of series that is judged is explained.
    for name in ("memory", "threads", "open files", "tick", "data files", "snapshots", "metadata"):
        assert f"`{name}`" in text, name
    assert TABLES[0] == "events"
