"""The soak test must tell a leak from noise, and leave figures that people can read."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.processes import tree
from tests.soak import run, shapes
from tests.soak.page import BEGIN, END, figures, plot, read_csv, write_csv, write_docs
from tests.soak.run import PAGE, Options, Soak, parse
from tests.soak.sample import SLOWEST, Told, of_processes, series, together
from tests.soak.shapes import ManySources, OneSource
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
    tick = {"event": "tick_finished", "group": "a", "rows": 5, "seconds": 2.0, "commit_seconds": 0.5}
    lines = [tick, tick | {"rows": 0, "seconds": 9.0}, {"event": "batch_committed", "seconds": 1.0}]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "no JSON\n" + '{"event": "tick_fini'
    log.write_text(text)
    told = Told(log)
    assert told.times() == {"tick": 2.0, "commits of a tick": 0.5, "batch": 1.0, SLOWEST: 2.0}
    assert told.times() == {}
    with log.open("a") as file:
        file.write('shed", "group": "a", "rows": 1, "seconds": 4.0, "commit_seconds": 1.0}\n')
    assert told.times() == {"tick": 4.0, "commits of a tick": 1.0, SLOWEST: 4.0}


def test_the_slowest_group_is_the_one_whose_median_is_highest(tmp_path: Path) -> None:
    log = tmp_path / "live.log"
    tick = {"event": "tick_finished", "rows": 5, "commit_seconds": 0.5}
    seconds = {"a": (1.0, 1.0, 9.0), "b": (3.0, 3.0, 3.0), "c": (1.0, 2.0)}
    lines = [tick | {"group": group, "seconds": s} for group, all_of in seconds.items() for s in all_of]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = Told(log).times()
    assert (found["tick"], found[SLOWEST]) == (2.5, 3.0)


def test_a_sum_of_some_is_none() -> None:
    found = [{"rows": 1.0, "watermark behind": 4.0}, {"rows": 2.0, "watermark behind": 3.0}]
    assert together(found, sum) == {"rows": 3.0, "watermark behind": 7.0}
    assert together(found, max) == {"rows": 2.0, "watermark behind": 4.0}
    assert together([*found, {"rows": 5.0}], sum) == {"rows": 8.0}
    assert together([*found, {}], sum) == together([{}, *found], sum) == {}


def test_many_tables_and_sources_give_sums_and_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ManySources(3, 100, 60)
    tables = {name: {"snapshots": 10.0 * n, "metadata": 1.0} for n, name in enumerate(shape.tables, 1)}
    assert list(tables) == ["s0", "s1", "s2", "v0_0", "v0_1", "v1_0", "v1_1", "v2_0", "v2_1"]
    shape.streams[1].sent_at[:50] = 1.0
    watermark = shapes.BASE / shapes.SECOND + 2.0

    def of_lag(_: Any, source: str, ends: Any, clock: Any) -> dict[str, float]:
        waiting = sum(ends().values())
        return {"rows": 100.0, "rows waiting": waiting, "watermark behind": clock() - watermark}

    class Ends:
        def ends(self, topic: str) -> dict[int, int]:
            return {0: 1, 1: int(topic[-1])}

    monkeypatch.setattr(shapes, "of_lag", of_lag)
    monkeypatch.setattr(shapes, "of_table", lambda _, table: tables[table])
    project: Any = None
    topics: Any = Ends()
    lag = {"rows": 300.0, "rows waiting": 6.0, "watermark behind": pytest.approx(3.0)}
    found = shape.sample(project, topics)
    assert found == lag | {
        "all tables: snapshots": 450.0,
        "all tables: metadata": 9.0,
        "largest table: snapshots": 90.0,
        "largest table: metadata": 1.0,
    }
    assert found.keys() <= shape.known.keys()
    tables["v1_0"] = {}
    assert shape.sample(project, topics) == lag


def test_a_run_of_many_sources_has_defaults_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([]) == (Options(), False)
    assert parse(["--sources", "20"]) == (Options(sources=20, rate=100, interval="5s"), False)
    given = ["--sources", "6", "--rate", "200", "--interval", "1s", "--write-docs", "--json"]
    assert parse(given) == (Options(sources=6, rate=200, interval="1s", docs=True), True)
    assert isinstance(parse(["--sources", "1"])[0].shape(), OneSource)
    with pytest.raises(SystemExit):
        parse(["--sources", "0"])
    assert "at least one source" in capsys.readouterr().err


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
        write_docs(page, figures([found], {"rate": "2,000 rows a second"}, "images/soak.png"))
    text = page.read_text()
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert text.count("**growing**") == text.count("* rate: 2,000") == 1
    assert "old figures" not in text
    page.write_text("no place")
    with pytest.raises(ValueError, match="no place for figures"):
        write_docs(page, "x")


def judged(options: Options, folder: Path, **changed: list[float | None]) -> run.Report:
    """The report of samples in which everything is flat, but for what is `changed`."""
    names = [name for name in options.shape().known if name not in changed]
    samples = [{"seconds": t} | dict.fromkeys(names, 7.0) for t in TIMES]
    for name, values in changed.items():
        for sample, value in zip(samples, values, strict=True):
            sample |= {} if value is None else {name: value}
    return Soak(options, folder).judge(samples)


@pytest.mark.medium
@pytest.mark.parametrize("sources", [pytest.param(1, marks=pytest.mark.long_run), 20])
def test_a_run_that_passes_writes_its_own_figures(
    sources: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [OneSource.marks, ManySources.marks]
    page = tmp_path / "docs" / "soak.md"
    (page.parent / "images").mkdir(parents=True)
    page.write_text("\n".join(f"{begin}\nnothing yet\n{end}" for begin, end in blocks))
    monkeypatch.setattr(run, "PAGE", page)
    options, _ = parse(["--sources", str(sources), "--write-docs", "--warm-up", "5", "--out", str(tmp_path)])
    options = replace(options, samples=tmp_path / "soak.csv")
    failed = judged(options, tmp_path, tick=[None] * len(TIMES))
    assert failed.failures == ["too few samples after the warm-up of: tick"]
    assert page.read_text().count("nothing yet") == 2
    grown = judged(options, tmp_path, **{"memory jvm": noisy(900)})
    assert (grown.growing, grown.failures) == (["memory jvm"], [])
    assert page.read_text().count("**growing**") == 1

    report = judged(options, tmp_path)
    assert (report.growing, report.failures) == ([], [])
    text = page.read_text()
    begin, end = blocks[sources > 1]
    figures_of = text[text.index(begin) : text.index(end)]
    image = {1: "images/soak.png", 20: "images/soak_sources.png"}[sources]
    assert f"]({image})" in figures_of
    assert (page.parent / image).is_file()
    assert (text.count("nothing yet"), text.count("**growing**")) == (1, 0)
    assert ("| tick of the slowest group | 7 s |" in figures_of) == (sources > 1)
    assert ("for each of 20 sources, 7 rows" in figures_of) == (sources > 1)


def test_the_documentation_has_a_place_for_them() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for begin, end in (OneSource.marks, ManySources.marks):
        assert text.index(begin) < text.index(end)
    # Every kind of series that is judged is explained.
    for name in ("memory", "threads", "open files", "tick", "data files", "snapshots", "metadata", SLOWEST):
        assert f"`{name}`" in text, name
    assert {name.partition(":")[0] for name in ManySources(2, 1, 1).known if ":" in name} == set(
        shapes.TOTALS
    )
    assert all(f"`{name}`" in text for name in shapes.TOTALS)
