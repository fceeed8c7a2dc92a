"""What people see shows data as text, loads nothing from outside and runs nothing (X4), whatever is in the data."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.conftest import ROOT
from tests.dagster.browser import Browser
from tests.dagster.projects import JOINED, SINKS, write_project
from tidegate import plots
from tidegate.page import Section, page
from tidegate.pages import document, write_site
from tidegate.plots import canvas
from tidegate.project import Project
from tidegate.quality.docs import write_docs
from tidegate.quality.model import ExpectationOutcome, SuiteResult

DAGSTER = ROOT / "platform" / "tidegate" / "dagster"
_RUN = "document.title='owned'"
HOSTILE = (
    f"<img src=x onerror={_RUN}>",
    f"</style></title></pre><script>{_RUN}</script>",
    f"\"'><svg onload={_RUN}>",
    f"<a href='javascript:{_RUN}'>x</a><iframe src='http://127.0.0.1:9/'></iframe>",
    "<style>@import 'http://127.0.0.1:9/';</style><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "{{ 7 * 191 }}${7*191}<!-- ]]> \u2028\x00",
)
TOGETHER = " ".join(HOSTILE)
#: Writes pages into a folder, with this text wherever they have one.
Write = Callable[[Path, str], list[Path]]


def site(folder: Path, text: str) -> list[Path]:
    root = write_project(folder / "shop")
    (root / "assets" / "more.sql").write_text(SINKS + JOINED)
    said = document(Project.load(root))
    names = {asset["name"] for asset in said["assets"]}
    found = write_site(replaced(said, text, names), folder / "site")
    return [folder / "site" / name for name in found if name.endswith(".html")]


def replaced(value: Any, text: str, kept: set[str]) -> Any:
    """With `text` behind every text of it but names and kinds, which make links and shapes."""
    if isinstance(value, dict):
        return {
            key: one if key in ("kind", "from") else replaced(one, text, kept) for key, one in value.items()
        }
    if isinstance(value, list):
        return [replaced(one, text, kept) for one in value]
    return value + text if isinstance(value, str) and value not in kept else value


def data_docs(folder: Path, text: str) -> list[Path]:
    (folder / "validations").mkdir(parents=True)
    outcome = ExpectationOutcome(
        text, text, "critical", False, 3, 1, text, [text, text], [[text, None], [text, text]], text
    )
    return [write_docs(folder, text, [SuiteResult(text, text, text, [outcome], [text])])]


def report(folder: Path, text: str) -> list[Path]:
    folder.mkdir(parents=True)
    section = Section(text, [text], text, [text], [[text]], 0, b"\x89PNG", text)
    (folder / "report.html").write_text(page(text, text, [section]))
    return [folder / "report.html"]


class Elements(HTMLParser):
    """The elements of a page, with the attributes of each, the policy, and what it shows."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.policy, self.shown = "", ""
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        if ("http-equiv", "Content-Security-Policy") in attrs:
            # What is read before it is not under it.
            assert [tag for tag, _ in self.found[:-1]] == ["html", "head", "meta"]
            self.policy = dict(attrs)["content"] or ""

    def handle_data(self, data: str) -> None:
        self.shown += data


@pytest.mark.parametrize("write", [site, data_docs, report])
def test_no_element_and_no_attribute_comes_from_data(tmp_path: Path, write: Write) -> None:
    tame = [Elements(path) for path in write(tmp_path / "tame", "x")]
    wild = [Elements(path) for path in write(tmp_path / "wild", TOGETHER)]
    assert [one.found for one in wild] == [one.found for one in tame]
    for one in wild:
        assert HOSTILE[0] in one.shown
        assert "{{ 7 * 191 }}${7*191}" in one.shown
        assert re.fullmatch(
            r"default-src 'none'; img-src data:; style-src 'sha256-[\w+/=]+'; base-uri 'none'; form-action 'none'",
            one.policy,
        )


def test_pages_of_an_earlier_release_do_not_stay(tmp_path: Path) -> None:
    data_docs(tmp_path / "docs", "x")
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["index.html"]


@pytest.mark.medium
def test_a_name_in_a_picture_is_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    before = canvas.png

    def watched(made: Any) -> bytes:
        from matplotlib.text import Text

        found = before(made)
        drawn.extend(text.get_text() for text in made.findobj(Text) if not text.get_parse_math())
        return found

    monkeypatch.setattr(canvas, "png", watched)
    # As a formula this is an error.
    name = r"$\frac{$ <b>"
    assert plots.delays(name, {name: [(1.0, 60.0), (2.0, 600_000.0)]}).startswith(b"\x89PNG")
    assert any(name in text for text in drawn)


def test_markdown_is_text() -> None:
    from tidegate.dagster import markdown

    shown = markdown.code(f"SELECT 1 -- ```\n{HOSTILE[0]}\n````", "sql").md_str
    assert shown.startswith("`````sql\n")
    assert shown.endswith("\n`````")
    alt = markdown.picture(f"a](http://127.0.0.1:9/x)![b\n{HOSTILE[1]}", b"x").md_str
    text, _, address = alt.removeprefix("![").rpartition("](")
    assert address == "data:image/png;base64,eA==)"
    assert not re.search(r"(?<!\\)[][<>`!()]", text)
    assert "\n" not in text


#: Values and names in a description, as somebody could send them: everything that means something to markdown.
SENT = (
    *HOSTILE,
    "![x](http://127.0.0.1:9/x.png)",
    "[x](javascript:alert(1)) <http://127.0.0.1:9/> [x]: http://127.0.0.1:9/",
    "_a_ __b__ *c* **d** `e` ``f`` ~~g~~ \\_h_ &lt;img&gt; &#60; &amp;",
    "# a",
    "> a",
    "- a",
    "+ a",
    "1. a",
    "12) a",
    "=",
    "| a | b |",
    "    a",
    "a_b 3 < 4 & 5 > 2, count(*)",
    "---",
    "```",
)


@pytest.mark.parametrize("sent", SENT)
def test_a_description_in_dagster_is_words_whatever_is_in_it(sent: str) -> None:
    from tidegate.dagster.markdown import as_text

    parser = MarkdownIt("commonmark", {"html": True}).enable("strikethrough")
    for said in (sent, f"held back by {sent}, 5 minutes", f"{sent} and {sent}"):
        block, inline, end = parser.parse(as_text(said))
        assert (block.type, end.type) == ("paragraph_open", "paragraph_close")
        assert {one.type for one in inline.children or []} == {"text"}
        # NUL is shown as what stands for it.
        assert "".join(one.content for one in inline.children or []) == said.strip().replace("\0", "\ufffd")
        # Of several lines a block of code, in which each stays where it is: a caret stands below its mistake.
        [block] = parser.parse(as_text(f"{said}\n  ^^^"))
        assert (block.type, block.content.splitlines()[-1]) == ("fence", "  ^^^")
    assert as_text("berlin_1: 12 rows (3 late), 40 %; held back by paris") == (
        "berlin_1: 12 rows (3 late), 40 %; held back by paris"
    )


@pytest.mark.medium
def test_every_description_in_dagster_is_made_words_of() -> None:
    """What has data or names in it, found by machine: a description that is neither ours as a whole nor made words."""
    written = {
        # What the data team writes about its own assets is markdown on purpose (docs/dagster.md).
        "translator.py AssetSpec self.get_description(asset)",
        "translator.py TableColumn column.comment",
        # Made words of before.
        "quality.py AssetCheckEvaluation result.description",
        "lag.py AssetCheckResult evaluation.description",
        # Constants, and what `as_text` was asked for.
        "schedules.py define_asset_job description",
        "quality.py AssetCheckSpec _DESCRIPTIONS[suite]",
        "quality.py AssetCheckSpec _DESCRIPTIONS[RECONCILIATION]",
    }
    found = set()
    for path in sorted(DAGSTER.rglob("*.py")):
        for function in ast.parse(path.read_text("utf-8")).body:
            assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign)]
            values = {ast.unparse(n.targets[0]): n.value for n in assigned}
            for call in [n for n in ast.walk(function) if isinstance(n, ast.Call)]:
                [value] = [k.value for k in call.keywords if k.arg == "description"] or [ast.Constant("")]
                value = values.get(ast.unparse(value), value)
                words = isinstance(value, ast.Constant) or ast.unparse(value).startswith("as_text(")
                # The text of a failure is shown as it is.
                if not words and ast.unparse(call.func) != "Failure":
                    found.add(f"{path.name} {ast.unparse(call.func)} {ast.unparse(value)}")
    assert found == written


@pytest.mark.slow
def test_a_browser_runs_and_loads_nothing(tmp_path: Path) -> None:
    """Pages with their style, in a real browser; also where the text were not escaped at all."""
    paths = [
        path for write in (site, data_docs, report) for path in write(tmp_path / write.__name__, TOGETHER)
    ]
    raw = tmp_path / "raw.html"
    tag = "<p>raw</p>"
    raw.write_text(page("t", "s", [Section("t", ["raw"])]).replace(tag, "".join(HOSTILE[:4])))
    assert tag not in raw.read_text()
    with Browser(tmp_path / "profile") as browser:
        for path in [*paths, raw]:
            browser.goto(path.as_uri())
            browser.wait(
                f"location.href === {json.dumps(path.as_uri())} && document.readyState === 'complete'"
            )
            assert browser.evaluate("document.title") != "owned", path
            assert (
                browser.evaluate("getComputedStyle(document.querySelector('h1')).marginTop") != "21.44px"
            ), path
            loaded = browser.evaluate("performance.getEntriesByType('resource').map(e => e.name).join(' ')")
            assert "127.0.0.1" not in loaded, path
            assert bool(browser.evaluate("document.scripts.length")) == (path == raw)
