"""One term for one thing: a term that docs/glossary.md says is not to be used stands in no text that people read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "platform" / "tidegate"
GLOSSARY = ROOT / "docs" / "glossary.md"
#: Pages of others, quoted, are in their words.
QUOTED = ROOT / "docs" / "examples"


def entries() -> list[tuple[str, list[str]]]:
    """Each term of the glossary, with what is not to be used for it."""
    rows = [
        line.strip("|").split("|")
        for line in GLOSSARY.read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
    return [(row[0].strip(), re.findall(r"`([^`]+)`", row[2])) for row in rows if "`" in row[2]]


def pattern() -> re.Pattern[str]:
    """Any of them, also in the plural or at the beginning of a sentence; SQL's keywords are in capitals."""
    words = sorted({word for _, unused in entries() for word in unused}, key=len, reverse=True)
    spelled = [rf"[{word[0].upper()}{word[0].lower()}]{re.escape(word[1:])}" for word in words]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(spelled)})s?(?![\w-])".replace(r"\ ", r"\s+"))


def pages() -> list[Path]:
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if page != GLOSSARY and not page.is_relative_to(QUOTED)]


def sources() -> list[Path]:
    return [*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "infra" / "error_texts").glob("*.py"))]


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings of several words that are no comments of the code: messages, hints, help. The docstring of a command is
    its help. A rejected row's reason is stored with it, so its words stay."""
    comments = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            comments.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            "guarded" in ast.unparse(d) for d in node.decorator_list
        ):
            yield node.lineno, ast.get_docstring(node) or ""
        if isinstance(node, ast.JoinedStr):
            comments.update(id(part) for part in node.values)
            literals = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node.lineno, "".join(map(str, literals))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in comments:
            yield node.lineno, node.value


@pytest.mark.parametrize("page", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_use_the_terms_of_the_glossary(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", lambda code: " " * len(code[0]), page.read_text("utf-8"))
    found = [f"line {text[: m.start()].count(chr(10)) + 1}: {m[0]}" for m in pattern().finditer(text)]
    assert found == [], f"docs/glossary.md says what to write instead: {found}"


@pytest.mark.medium
def test_errors_and_help_use_the_terms_of_the_glossary() -> None:
    unused = pattern()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in sources()
        for line, text in texts(ast.parse(path.read_text("utf-8")))
        if " " in text and not text.startswith("unparseable: ") and (match := unused.search(text))
    ]
    assert found == [], f"docs/glossary.md says what to write instead: {found}"


def test_a_term_is_defined_once_and_is_not_one_that_is_not_to_be_used() -> None:
    terms = [term for names, _ in entries() for term in names.split(", ")]
    assert len(terms) == len(set(terms))
    assert not {term for term in terms if pattern().fullmatch(term)}


@pytest.mark.parametrize(
    "text", ["a straggler came", "Stragglers came", "it was\nmade anew", "nobody  knows"]
)
def test_a_term_not_to_be_used_is_found(text: str) -> None:
    assert pattern().search(text)


@pytest.mark.parametrize("text", ["DROP TABLE t PURGE", "a late row", "struggle"])
def test_other_words_are_not_found(text: str) -> None:
    assert not pattern().search(text)
