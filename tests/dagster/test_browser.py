"""What an operator does in the UI: launch, read along, look at plots, checks and ticks, launch a backfill.

`TIDEGATE_SCREENSHOTS=docs/images` renews the pictures of docs/dagster.md.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.dagster.browser import Browser, says
from tests.dagster.projects import write_project
from tests.support.quick import quick
from tests.support.ui import served

pytestmark = pytest.mark.slow

LOCATION = "tidegate.dagster.definitions"

VISITS = """\
-- Visits of two shops: a folder each, a file a day.
CREATE SOURCE visits (
  id BIGINT NOT NULL,
  seconds INTEGER,
  came_at TIMESTAMP,
  WATERMARK FOR came_at AS came_at - INTERVAL '10 minutes'
) WITH (connector = 'filesystem', path = 'data/visits', max_files_per_batch = '2') FORMAT PLAIN ENCODE JSON;

-- ---
-- partitions: day
-- ---
-- Visits of each hour.
CREATE MATERIALIZED VIEW visits_hourly AS
SELECT window_start, window_end, count(*) AS visits, sum(seconds) AS seconds
FROM TUMBLE(visits, came_at, INTERVAL '1 hour')
GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;
"""
LAGS = "thresholds:\n  - {source: visits, behind_newest: 2 hours}\n"


def write_visits(root: Path) -> None:
    """Definitions, threshold and rows of four days, one every 20 minutes in each shop; on the last one paris stops
    after 19:40. Every fifth is up to 46 minutes behind, and late from 31 on: six in each shop on a whole day.
    """
    (root / "assets" / "visits.sql").write_text(VISITS, encoding="utf-8")
    (root / "jobs" / "visits.yaml").write_text(LAGS, encoding="utf-8")
    for shop in ("berlin", "paris"):
        folder = root / "data" / "visits" / shop
        folder.mkdir(parents=True)
        for day in range(1, 5):
            rows = []
            for i in range(60 if (shop, day) == ("paris", 4) else 72):
                hour, minute = divmod(20 * i - (i * 7 % 50 + 1 if i and i % 5 == 0 else 0), 60)
                came_at = f"2026-03-{day:02} {hour:02}:{minute:02}:00"
                rows.append(json.dumps({"id": 100 * day + i, "seconds": i, "came_at": came_at}))
            (folder / f"{day}.json").write_text("\n".join(rows) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Ui:
    """A running `tidegate ui`: its address, and the project that it shows."""

    address: str
    root: Path


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Ui]:
    """`tidegate ui` on a small project, with the instance settings that operators are given."""
    root = write_project(tmp_path / "shop", "schedules:\n  - {name: often, cron: '@daily', enabled: false}\n")
    quick(root)
    settings = yaml.safe_load((ROOT / "infra" / "dagster" / "dagster.yaml").read_text())
    # Files instead of PostgreSQL, which tests/infra/test_stack.py starts.
    del settings["storage"]
    home = root / ".tidegate" / "dagster"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    with served(root) as address:
        yield Ui(address, root)


STATES = "{ runsOrError { ... on Runs { results { status stepStats { status } } } } }"


def _away(
    page: Browser, address: str, done: Callable[[list[dict[str, Any]]], object], seconds: float
) -> None:
    """Until the runs are so, newest first. Meanwhile the window is empty: the page of a run that goes on draws itself
    anew all the time, which takes as much CPU as the run."""
    here = page.evaluate("location.href")
    page.goto("about:blank")
    body = json.dumps({"query": STATES}).encode()
    request = urllib.request.Request(f"{address}/graphql", body, {"Content-Type": "application/json"})
    deadline = time.monotonic() + seconds
    while True:
        with urllib.request.urlopen(request, timeout=30) as answer:
            runs = json.load(answer)["data"]["runsOrError"]["results"]
        if done(runs):
            break
        assert time.monotonic() < deadline, runs
        time.sleep(1.0)
    page.goto(here)


def _ended(run: dict[str, Any]) -> bool:
    return run["status"] in ("SUCCESS", "FAILURE", "CANCELED")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as browser:
        yield browser


@pytest.fixture
def pictures() -> Path | None:
    """Where screenshots go, if somebody asks for them."""
    folder = os.environ.get("TIDEGATE_SCREENSHOTS")
    return Path(folder) if folder else None


def _row(key: str) -> str:
    """JavaScript of the line of a table that begins with this cell."""
    return (
        f"[...document.querySelectorAll('tr')].find(r => r.cells[0]?.innerText.trim() === {json.dumps(key)})"
    )


def _plot(page: Browser, key: str) -> None:
    """Open a plot of the materialization on the page."""
    page.click("[Show Markdown]", within=_row(key))
    page.wait(
        f"[...document.images].some(i => i.src.startsWith('data:image/png') && i.naturalWidth > 300"
        f" && i.alt.startsWith({json.dumps(key)}))",
        what=f"the plot {key}",
    )


def _launch(ui: Ui, page: Browser, pictures: Path | None) -> None:
    """A run of two assets, from the graph to its end."""
    # Source and view, but not the closed days: two clicks on the graph.
    page.goto(f"{ui.address}/locations/{LOCATION}/asset-groups/visits")
    page.wait_for("Never materialized", 120)
    page.click("visits")
    page.click("visits_hourly", shift=True)
    page.click("Materialize selected (2)")
    page.click("View", 120)
    page.wait("location.pathname.startsWith('/runs/')", what="the page of the run")
    page.point_away()
    _away(page, ui.address, lambda runs: runs[0]["stepStats"] or _ended(runs[0]), 300)

    # Lines of the log while the step is at work, with progress.
    page.wait(
        "document.body.innerText.includes('Executing (1)')"
        " && /visits: epoch [34]: .* rows read, \\d+ in the log; watermark/.test(document.body.innerText)",
        300,
        "progress in the log of a run that goes on",
    )
    _picture(page, pictures, "dagster_run.png")
    _away(page, ui.address, lambda runs: _ended(runs[0]), 300)
    page.wait(_says("Success", "Failure"), 60, "the end of the run")
    assert page.evaluate(_says("Success")), page.text()


def _backfill(ui: Ui, page: Browser, pictures: Path | None, view: str) -> str:
    """Of all closed days, with their late rows; the address of its page."""
    # A sensor makes a partition of each closed day. All of them are computed anew, with their late rows.
    page.goto_until(f"{view}/closed_days?view=partitions", "Materialized (3)", 180)
    page.click("Materialize…")
    page.wait_for("Launch runs to materialize")
    page.click("All")
    page.wait_for("3 partitions")
    page.click("Tags")
    page.click("Add tags")
    page.fill("Tag Key", "tidegate/from_late")
    page.fill("Tag Value", "true")
    page.click("Apply")
    page.wait_for("tidegate/from_late: true")
    page.wait("!document.body.innerText.includes('Custom tags:')", what="the closed dialog of tags")
    _picture(page, pictures, "dagster_launch_backfill.png")
    page.click("Launch backfill")
    page.click("View", 120)
    page.wait("/(runs|backfills)[/]/.test(location.pathname)", what="the page of the backfill")
    _away(page, ui.address, lambda runs: len(runs) > 1 and _ended(runs[0]), 420)
    page.wait_for("100% completed", 120)
    backfill = page.evaluate("location.href")
    page.goto(f"{view}/closed_days?view=partitions&partition=2026-03-02")
    # Of this day alone: six late rows in each shop.
    for key, value in (("windows with a new revision", 6), ("late rows included", 12)):
        page.wait(f"{_row(key)}?.cells[1].innerText.trim() === '{value}'", what=f"{key}: {value}")
    return backfill


@pytest.mark.parametrize("backfills", [False, pytest.param(True, marks=pytest.mark.long_run)])
def test_a_new_view_from_launch_to_backfill_in_the_ui(
    ui: Ui, page: Browser, pictures: Path | None, backfills: bool
) -> None:
    write_visits(ui.root)
    visits, view = f"{ui.address}/assets/visits", f"{ui.address}/assets/visits_hourly"
    # A file dropped into assets/ is an asset after a reload.
    page.goto(f"{ui.address}/asset-groups/")
    page.click("Reload definitions", 120)
    page.wait_for("visits", 120)

    _launch(ui, page, pictures)

    page.goto(f"{visits}?view=events")
    page.wait_for("2026-03-04 19:30:00")
    page.wait_for("paris")
    _plot(page, "watermarks over time")
    page.click("Close")
    _plot(page, "completeness")
    _picture(page, pictures, "dagster_plot.png")

    # paris has stopped, and both sensor and run say so; whatever the order of their words, the last one stays.
    page.goto_until(f"{visits}?view=checks", "564 rows in 2 partitions: all counts agree", 120)
    page.wait_for("watermark_lag")
    page.click("watermark_stall")
    page.wait_for("check the partition that holds it back: paris", 180)
    page.wait(_says("Failed", "Warning"))
    _picture(page, pictures, "dagster_checks.png")
    page.goto(f"{view}?view=checks")
    page.click("windowed_equals_raw")
    page.wait_for("91 closed windows up to 2026-03-04 19:30:00: all counts agree", 120)

    backfill = _backfill(ui, page, pictures, view) if backfills else None

    page.goto(f"{ui.address}/locations/{LOCATION}/sensors/tidegate_watermark_stall")
    page.click(
        "0 runs requested",
        within="[...document.querySelectorAll('tr')].find(r => r.innerText.includes('View logs'))",
    )
    page.wait_for("Skip reason: WARNING lagging: visits")
    _picture(page, pictures, "dagster_sensor.png")

    if backfill is None:
        return
    # Once as the heading of a column, once as the status, which the daemon sets within half a minute.
    page.goto(backfill)
    page.wait("document.body.innerText.split('Succeeded').length > 2", 180, "a backfill that succeeded")
    _picture(page, pictures, "dagster_backfill.png")


def _says(*texts: str) -> str:
    """JavaScript: something on the page says exactly one of these."""
    return f"[...document.querySelectorAll('body *')].some(e => {says(*texts)})"


def _picture(page: Browser, pictures: Path | None, name: str) -> None:
    """A screenshot of 256 colours: half the size, and nobody sees it."""
    if pictures is None:
        return
    from PIL import Image

    path = pictures / name
    page.screenshot(path)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
