"""docs/errors.md: every code has its section, and the texts that are shown are those that are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.error_examples import FOLDER, SHOWN_FOLDER, read_example
from infra.error_page import FIXTURES, PAGE, codes, incomplete
from infra.error_texts import PRINTED, TEXTS
from tests.infra.error_messages import all_texts, messages

EXAMPLES = sorted(FOLDER.rglob("*.txt"))


def sections() -> dict[str, str]:
    page = PAGE.read_text("utf-8")
    return dict(re.findall(r"^### (TG\d+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))


def said(code: str) -> tuple[str, list[str]]:
    """The message of a printed example, which may have several lines, and its hints."""
    text = PRINTED[code]
    head = re.match(rf"(?:error|warning) {code}: (.*?)(?=\n -->|\nhint: |\Z)", text, re.DOTALL)
    assert head is not None, text
    return head[1], [line.removeprefix("hint: ") for line in text.splitlines() if line.startswith("hint: ")]


@pytest.mark.medium
@pytest.mark.parametrize("code", sorted(PRINTED))
def test_an_example_is_a_message_that_the_source_raises_with_this_code(code: str) -> None:
    message, hints = said(code)
    assert any(one.fullmatch(message) for one in messages()[code]), messages()[code]
    for hint in hints:
        assert any(one.fullmatch(hint) for one in all_texts()), hint


@pytest.mark.parametrize(("code", "other"), [("TG501", "TG554"), ("TG544", "TG512"), ("TG561", "TG543")])
def test_the_message_of_another_code_is_no_example(code: str, other: str) -> None:
    message, _ = said(code)
    assert not any(one.fullmatch(message) for one in messages()[other])
    assert not any(
        one.fullmatch(message + " today") for one in messages()[code] if not one.pattern.endswith(".*")
    )


@pytest.mark.parametrize("code", sorted(PRINTED))
def test_the_caret_of_an_example_is_at_its_place(code: str) -> None:
    lines = PRINTED[code].splitlines()
    for number, line in enumerate(lines):
        if place := re.fullmatch(r" --> .*:(\d+):(\d+)", line):
            text, carets = lines[number + 1 : number + 3]
            gutter = f"{place[1]} | "
            assert text.startswith(gutter)
            assert carets.index("^") - len(gutter) + 1 == int(place[2])
            assert len(carets) <= len(text)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_a_command_prints_what_the_page_shows(file: Path) -> None:
    example = read_example(file)
    printed = example.printed()
    assert f"$ {example.command}\n{printed}\n```" in sections()[example.code]
    places = re.findall(r"(?<![\w.])/(?:tmp|home|root|work|private|var|Users)/\S*", printed)
    assert all(place.startswith(SHOWN_FOLDER) for place in places), "no path of this machine is on the page"


def test_every_code_has_a_section_with_cause_example_remedy_and_anchor() -> None:
    found = sections()
    assert list(found) == list(codes())
    assert {code: missing for code, text in found.items() if (missing := incomplete(code, text))} == {}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("\nMeaning.\n\nCause.\n\n```\nerror TG999: no\n```\n\n**What to do.** This.\n", []),
        ("\nMeaning.\n\nCause.\n\n```\nerror TG999: no\nhint: this\n```\n", []),
        ("\nMeaning.\n\n```\nerror TG999: no\nhint: this\n```\n", ["cause"]),
        ("\nMeaning.\n\nCause.\n\n**What to do.** This.\n", ["example"]),
        ("\nMeaning.\n\nCause.\n\n```\nerror TG998: no\n```\n\n**What to do.** This.\n", ["example"]),
        ("\nMeaning.\n\nCause.\n\n```\nerror TG999: no\n```\n", ["remedy"]),
    ],
)
def test_what_is_missing_is_found(text: str, missing: list[str]) -> None:
    assert incomplete("TG999", text) == missing


def test_a_code_has_one_example_and_no_text_is_without_a_code() -> None:
    shown = [file.name[:5] for file in (*EXAMPLES, *FIXTURES.rglob("*.sql"))]
    assert not set(PRINTED) & set(shown), (
        "an example that is carried out is better than one that is written down"
    )
    assert {*shown, *PRINTED, *TEXTS} <= set(codes())
    assert len({file.name[:5] for file in EXAMPLES}) == len(EXAMPLES)
