"""SQL as it is typed or piped in: when a statement is complete, and how a result is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.console.port import Console
    from tidegate.runtime.result import Result

# A quoted part, a comment, a semicolon; the last alternative is a quote or comment that does not end.
_TOKEN = re.compile(
    r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|--[^\n]*(?:\n|$)|/\*.*?\*/|(;)|('|"|`|/\*)""",
    re.DOTALL,
)

_QUESTION = re.compile(r"\(*\s*(?:select|with|values|show|describe|explain(?!\s+create))\b", re.IGNORECASE)


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


def only_asks(text: str) -> bool:
    """Whether all statements begin as those do that only read. Another process can answer these; of all others not even
    the text is sent to it, since a definition can have a password in it."""
    statements = _split(text)
    return bool(statements) and all(_QUESTION.match(one) for one in statements)


def _split(text: str) -> list[str]:
    """The statements, without comments and what is in quotes."""
    plain = _TOKEN.sub(lambda found: ";" if found[1] else " " if found[0][0] in "-/" else " '' ", text)
    return [one for part in plain.split(";") if (one := part.strip())]


def is_quit(text: str) -> bool:
    """Whether this asks to leave."""
    return text.strip().lower().rstrip("; ") in ("\\q", "quit", "exit")


def is_finished(text: str) -> bool:
    """Whether Enter runs this at the prompt: complete statements, a command, or nothing at all."""
    return not text.strip() or text.lstrip().startswith("\\") or is_quit(text) or is_complete(text)


def read_script(file: Path) -> str:
    """The text of a file of statements. Raises TG702."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TidegateError("TG702", f"can't read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TidegateError("TG702", f"{file} is not UTF-8 text", hint="save it as UTF-8") from None


def show_result(
    console: Console,
    result: Result,
    *,
    limit: int | None = None,
    stream: bool = False,
    layout: Literal["auto", "grid", "blocks"] = "auto",
) -> None:
    """Rows as a table, else the message. `limit`: draw at most so many rows, and say if there are more; `stream`: give
    rows out as they come, whatever their number.
    """
    from tidegate.console.port import Table

    if result.notice:
        console.note(f"warning: {result.notice}")
    if result.has_rows:
        names, types = [n for n, _ in result.columns], [t for _, t in result.columns]
        rows: Any
        if stream and result.dataframe is not None:
            rows = iter(result)
        else:
            rows = result.rows(None if limit is None else limit + 1)
        more = limit is not None and not stream and len(rows) > limit
        console.table(Table(names, rows[:limit] if more else rows, types, layout=layout))
        if more:
            console.note(f"only the first {limit:,} rows are shown; tidegate sql -c shows all")
    elif result.message:
        console.note(result.message) if stream else console.document({}, result.message)
