"""Typing SQL: when is a statement complete, and what else can be typed at the prompt."""

from __future__ import annotations

import re

# A quoted part, a comment, a semicolon; the last alternative is a quote or comment that does not end.
_TOKEN = re.compile(
    r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|--[^\n]*(?:\n|$)|/\*.*?\*/|(;)|('|"|`|/\*)""",
    re.DOTALL,
)


def is_complete(text: str) -> bool:
    """Whether `text` ends with a `;` that is not inside quotes or a comment. Comments may follow it."""
    end, open_part = -1, False
    position = 0
    while (match := _TOKEN.search(text, position)) is not None:
        if match.group(2):
            open_part = True
            break
        if match.group(1):
            end = match.end()
        position = match.end()
    return not open_part and end >= 0 and is_blank(text[end:])


def is_blank(text: str) -> bool:
    """Whether there is nothing but blanks and comments (an unfinished block comment is something)."""
    return not re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL).strip()
