"""`tidegate docs`: the site is complete, its links lead somewhere, and it needs no network."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.dagster.projects import JOINED, SINKS, write_project
from tidegate.pages import document, write_site
from tidegate.pages.drawing import lineage_svg
from tidegate.project import Project

FRONT = """\
-- ---
-- owners: [team:shops]
-- tags: [finance]
-- description: Notes & <more> of each hour.
-- columns: {n: How many notes.}
-- freshness: 2 hours
-- schedule: "@hourly"
-- ---
CREATE MATERIALIZED VIEW notes_hourly AS SELECT window_end, count(*) AS n FROM TUMBLE(notes, at, INTERVAL '1 hour')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE TABLE "odd näme %25" (at TIMESTAMP) APPEND ONLY;
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = write_project(tmp_path / "shop")
    (root / "assets" / "more.sql").write_text(SINKS + JOINED + FRONT)
    return Project.load(root)


class Page(HTMLParser):
    """Links, and every tag closed by its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for key, value in attrs if key in ("href", "src") and value]
        if tag not in ("meta", "rect", "path", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag in ("rect", "path") or self.open.pop() == tag


def test_every_asset_has_a_page_and_every_link_leads_to_one(project: Project, tmp_path: Path) -> None:
    said = document(project)
    files = write_site(said, tmp_path / "site")
    assert len([f for f in files if f.endswith(".html")]) == len(said["assets"]) + 1
    for file in files:
        text = (tmp_path / "site" / file).read_text()
        if not file.endswith(".html"):
            continue
        page = Page(text)
        assert page.open == []
        assert set(page.links) <= set(files), file
        assert not re.search(r"<script|@import|url\(|https?://(?!www\.w3\.org/2000/svg)", text)
    assert json.loads((tmp_path / "site" / "catalog.json").read_text()) == said


def test_a_page_says_what_front_matter_and_sql_say(project: Project, tmp_path: Path) -> None:
    said = {asset["name"]: asset for asset in document(project)["assets"]}
    view = said["notes_hourly"]
    assert (view["owners"], view["tags"], view["freshness"]) == (["team:shops"], ["finance"], "2 hours")
    assert view["schedules"] == ["notes_hourly_schedule: @hourly UTC"]
    assert (view["reads"], said["notes"]["read_by"]) == (["notes"], ["notes_hourly", "notes_daily"])
    # The schedule brings what it reads up to date, too.
    assert said["notes"]["schedules"] == view["schedules"]
    by_name = {column["name"]: column for column in view["columns"]}
    assert (by_name["n"]["type"], by_name["n"]["description"]) == ("BIGINT", "How many notes.")
    assert by_name["window_end"]["from"] == ["notes.at"]
    assert said["orders"]["facts"]["Watermark"] == "ordered_at AS ordered_at - INTERVAL '10 minutes'"
    assert "RisingWave" in said["orders"]["explain"]
    write_site(document(project), tmp_path / "site")
    text = (tmp_path / "site" / "asset-notes_hourly.html").read_text()
    assert "Notes &amp; &lt;more&gt; of each hour." in text
    assert "<more>" not in text


def test_pages_of_assets_that_are_gone_are_removed_and_nothing_else(project: Project, tmp_path: Path) -> None:
    site = tmp_path / "site"
    first = write_site(document(project), site)
    (site / "mine.html").write_text("kept")
    (project.root / "assets" / "more.sql").unlink()
    files = write_site(document(Project.load(project.root)), site)
    assert "asset-notes_hourly.html" in first
    assert {p.name for p in site.iterdir()} == {*files, "mine.html"}
    # The same definitions give the same bytes: a diff shows what has changed.
    before = {p.name: p.read_bytes() for p in site.iterdir()}
    write_site(document(Project.load(project.root)), site)
    assert {p.name: p.read_bytes() for p in site.iterdir()} == before


def test_inputs_are_drawn_on_the_left() -> None:
    kinds = {"a": "source", "b": "view", "c": "view"}
    svg = lineage_svg(kinds, [("a", "b"), ("b", "c"), ("a", "c"), ("x", "a")], {}, chosen="b")
    places = {name: int(x) for name, x in re.findall(r"<title>(\w): \w+</title><rect x=\"(\d+)\"", svg)}
    assert places["a"] < places["b"] < places["c"]
    assert svg.count('class="edge"') == 3
    assert 'class="node view chosen"' in svg
