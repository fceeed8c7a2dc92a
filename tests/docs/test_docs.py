"""What the documentation names exists: commands and their options, codes, make targets, files, pages, headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from infra.error_page import codes
from tests.conftest import ROOT
from tidegate.cli.main import app
from tidegate.errors import TidegateError
from tidegate.sql.dialect.text import Text
from tidegate.sql.grammar.grammar import read_statement, split
from tidegate.sql.options.kafka_options import KafkaOptions

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TEMPLATE = sorted((ROOT / "platform" / "tidegate" / "cli" / "template").rglob("*.md"))
FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
#: A command line: in a block of code at the beginning of a line, or as a whole in backticks.
IN_BLOCK = re.compile(r"^(?:\$ |.*&& )?(?:\S*/)?(tidegate [^\n]+)$", re.MULTILINE)
IN_TEXT = re.compile(r"`(tidegate [^`\n]+)`")


def blocks(page: str) -> Iterator[str]:
    """The text of every block that is no program in another language."""
    for match in FENCE.finditer(page):
        if match["kind"] in ("", "bash", "console", "sh"):
            yield match["text"]


def command_lines(page: str) -> Iterator[str]:
    for block in blocks(page):
        yield from (match[1] for match in IN_BLOCK.finditer(block))
    yield from IN_TEXT.findall(FENCE.sub("", page))


def words(line: str) -> list[str]:
    """The words of a command line, without its comment and what follows a pipe."""
    plain = re.split(r"\s+#|\s[|>]|\s…|\s&&", line)[0]
    try:
        return shlex.split(plain)
    except ValueError:
        return plain.split()


@cache
def tidegate() -> Any:
    return typer.main.get_command(app)


def problem(line: str) -> str | None:
    """What of a command line does not exist; None if all of it does."""
    command = tidegate()
    known: set[str] = {"--help"}
    arguments = words(line)[1:]
    for i, word in enumerate(arguments):
        known |= {
            name for p in command.params for name in (*p.opts, *p.secondary_opts) if name.startswith("-")
        }
        if word.startswith("-") and not re.fullmatch(r"-?-", word):
            name = word.split("=")[0]
            if name not in known and not _known_later(command, arguments[i:], name):
                return f"no option {name}"
        elif _groups(command) and not _is_value(command, arguments, i):
            found = _groups(command).get(word)
            if found is None:
                return None if not re.fullmatch(r"[a-z][a-z-]*", word) else f"no command {word}"
            command = found
    return None


def _groups(command: Any) -> dict[str, Any]:
    """The commands below one that has any."""
    return getattr(command, "commands", {})


def _is_value(command: Any, arguments: list[str], i: int) -> bool:
    """Whether a word is the value of the option before it."""
    before = arguments[i - 1] if i else ""
    return any(
        before in (*p.opts, *p.secondary_opts) and not getattr(p, "is_flag", False) for p in command.params
    )


def _known_later(command: Any, rest: list[str], name: str) -> bool:
    """Options of every command may stand before its name, too."""
    for word in rest:
        if _groups(command) and word in _groups(command):
            command = _groups(command)[word]
            if any(name in (*p.opts, *p.secondary_opts) for p in command.params):
                return True
    return False


@pytest.mark.parametrize("page", [*PAGES, *TEMPLATE], ids=lambda p: p.name)
def test_every_command_line_exists(page: Path) -> None:
    wrong = {line: why for line in command_lines(page.read_text("utf-8")) if (why := problem(line))}
    assert not wrong


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("tidegate run --project web", None),
        ("tidegate alerts test web_team", None),
        ("tidegate runn", "no command runn"),
        ("tidegate alerts tset", "no command tset"),
        ("tidegate run --porject web", "no option --porject"),
        ("tidegate sql -c 'SELECT 1'   # --not an option", None),
    ],
)
def test_the_check_finds_what_does_not_exist(line: str, wrong: str | None) -> None:
    assert problem(line) == wrong


@pytest.mark.parametrize("page", [*PAGES, *TEMPLATE], ids=lambda p: p.name)
def test_every_error_code_exists(page: Path) -> None:
    named = set(re.findall(r"\bTG[0-9]{3}\b", page.read_text("utf-8")))
    assert named <= set(codes())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_statement_is_understood(page: Path) -> None:
    """As far as a statement alone can be; errors.md has those that are refused."""
    wrong = []
    for match in FENCE.finditer(page.read_text("utf-8")) if page.name != "errors.md" else ():
        if match["kind"] == "sql" and "…" not in match["text"]:
            text = Text(match["text"])
            try:
                for tokens, description in split(text):
                    read_statement(text, tokens, description)
            except TidegateError as error:
                wrong.append(str(error))
    assert not wrong


def test_every_option_of_a_kafka_source_is_on_the_page() -> None:
    page = (ROOT / "docs" / "language.md").read_text("utf-8")
    table = re.search(r"^\| option \| default \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert table is not None
    shown = set(re.findall(r"^\| `([\w.]+)", table[0], re.MULTILINE))
    fields = {field.alias or name for name, field in KafkaOptions.model_fields.items()} - {
        "connector",
        "properties",
    }
    assert fields <= shown
    assert {name for name in shown if not name.startswith("properties.")} <= fields | {"max_future_skew"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text("utf-8"))
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"https?:|mailto:", target):
            continue
        file = page if not path else (page.parent / path).resolve()
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert not wrong


def anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings, and those that are written."""
    text = FENCE.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h).replace("`", "") for h in headings)
    made = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in plain}
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_make_target_and_file_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [
        *re.findall(r"`make ([a-z0-9-]+)[^`]*`", text),
        *re.findall(r"^make ([a-z0-9-]+)", "".join(blocks(text)), re.M),
    ]
    assert set(lines) <= targets
    files = re.findall(r"`((?:tests|infra|platform|docs)/[\w./-]+)`", FENCE.sub("", text))
    # Those of a new project are in its template.
    places = (ROOT, ROOT / "platform" / "tidegate" / "cli" / "template")
    missing = [f for f in files if not any((place / f).exists() for place in places)]
    assert not missing
