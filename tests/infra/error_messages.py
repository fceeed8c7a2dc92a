"""Which messages the source raises with each code, as patterns: anything where a value stands."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from tests.conftest import ROOT

PACKAGE = ROOT / "platform" / "tidegate"
_CODE = re.compile(r"TG\d{3}")
#: A text with fewer letters of its own would match anything, except where it is itself the message of an error.
_LETTERS = 10


def letters(node: ast.AST) -> int:
    """How many signs of a text are written in the source."""
    return sum(
        len(part.value)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def pattern(node: ast.expr) -> str | None:
    """What a text matches; None for what is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text)
        case ast.JoinedStr(values=parts):
            return "".join(re.escape(p.value) if isinstance(p, ast.Constant) else ".*" for p in parts)  # type: ignore[arg-type]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{pattern(left) or '.*'}{pattern(right) or '.*'}"
        case _:
            return None


def texts(node: ast.AST, at_least: int = _LETTERS) -> set[str]:
    """The patterns of all texts below a node."""
    found = (
        pattern(part)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant | ast.JoinedStr | ast.BinOp) and letters(part) >= at_least
    )
    return {text for text in found if text is not None}


def _raised(tree: ast.Module) -> Iterator[tuple[str, ast.Call, ast.AST]]:
    """(code, call, function) for each call that has a code among its arguments."""
    for scope in [
        tree,
        *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)),
    ]:
        for call in (node for node in ast.walk(scope) if isinstance(node, ast.Call)):
            for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
                if isinstance(value, ast.Constant) and _CODE.fullmatch(str(value.value)):
                    yield str(value.value), call, scope


def _messages(call: ast.Call, scope: ast.AST) -> set[str]:
    """The message of a call: a text, a text in parts, or a variable that the function gives its texts."""
    given = [value for value in call.args if not _is_code(value)][:1]
    found: set[str] = set()
    for value in given:
        direct = pattern(value)
        if direct is not None and letters(value) > 3:
            found.add(direct)
            continue
        names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
        found |= texts(value)
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=targets, value=text):
                    assigned = {
                        n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)
                    }
                case ast.AugAssign(target=ast.Name(id=name), value=text):
                    assigned = {name}
                case _:
                    continue
            if assigned & names:
                # Something may be written before and behind what a variable begins with.
                found |= {f"{one}.*" for one in texts(text)}
    return found


def _is_code(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and bool(_CODE.fullmatch(str(value.value)))


@cache
def messages() -> dict[str, list[re.Pattern[str]]]:
    """By code, what the messages look like that the package raises with it."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in PACKAGE.rglob("*.py"):
        for code, call, scope in _raised(ast.parse(file.read_text("utf-8"))):
            found[code] |= _messages(call, scope)
    return {
        code: [re.compile(one, re.DOTALL) for one in sorted(patterns)] for code, patterns in found.items()
    }


@cache
def all_texts() -> list[re.Pattern[str]]:
    """Every text of the package with at least a few words of its own."""
    found: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        found |= texts(ast.parse(file.read_text("utf-8")))
    return [re.compile(one, re.DOTALL) for one in sorted(found)]
