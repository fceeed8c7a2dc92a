"""Variables in the SQL of a test file: `$name`, `${name}`, `${name:default}`; `\\$` is a dollar sign."""

from __future__ import annotations

import re
from collections.abc import Callable

from tidegate.errors import TidegateError

_NAME = re.compile(r"[A-Za-z_]\w*")


def substitute(text: str, lookup: Callable[[str], str | None]) -> str:
    """The text with every variable's value in its place. TG805 for one without a value and without a default."""
    done, rest = _until(text, 0, "", lookup)
    assert rest == len(text)
    return done


def _until(text: str, at: int, stop: str, lookup: Callable[[str], str | None]) -> tuple[str, int]:
    """Substitute up to one of the `stop` signs, or the end; the place of the sign."""
    out = []
    while at < len(text) and text[at] not in stop:
        sign = text[at]
        if sign == "\\" and at + 1 < len(text) and text[at + 1] in "\\${}:":
            out.append(text[at + 1])
            at += 2
        elif sign == "$":
            value, at = _variable(text, at + 1, lookup)
            out.append(value)
        else:
            out.append(sign)
            at += 1
    return "".join(out), at


def _variable(text: str, at: int, lookup: Callable[[str], str | None]) -> tuple[str, int]:
    braced = text[at : at + 1] == "{"
    match = _NAME.match(text, at + braced)
    if match is None:
        hint = "write \\$ for a dollar sign in the SQL itself"
        raise TidegateError("TG805", "a $ without the name of a variable", hint=hint)
    name, at = match[0], match.end()
    value = lookup(name)
    if braced:
        if text[at : at + 1] == ":":
            default, at = _until(text, at + 1, "}", lookup)
            value = default if value is None else value
        if text[at : at + 1] != "}":
            raise TidegateError("TG805", f"the }} of ${{{name} is missing")
        at += 1
    if value is None:
        hint = f"set it with let {name} or in the environment, or write ${{{name}:default}}"
        raise TidegateError("TG805", f'the variable "{name}" has no value', hint=hint)
    return value, at
