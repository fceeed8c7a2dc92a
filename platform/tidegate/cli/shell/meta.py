"""Commands of the prompt that are not SQL: they start with a backslash."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """`word` with its backslash, `argument` as the help shows it."""

    word: str
    argument: str
    about: str


COMMANDS = (
    Command("\\d", "[NAME]", "list all definitions; with NAME: list its columns"),
    Command("\\e", "NAME", "explain NAME"),
    Command("\\x", "[on|off|auto]", "show every row as a block, one column below the other"),
    Command("\\timing", "[on|off]", "show how long each statement took"),
    Command("\\i", "FILE", "run the statements of a file"),
    Command("\\?", "", "show this help"),
    Command("\\q", "", "quit (also Ctrl-D)"),
)


def help_text() -> str:
    """For `\\?`."""
    lines = ["Statements end with ; and Enter, and may span lines. Beside SQL:"]
    lines += [f"  {f'{c.word} {c.argument}':20} {c.about}" for c in COMMANDS]
    lines += [
        "Tab completes names, columns, functions and settings; the arrow keys show earlier statements.",
        "Ctrl-C discards the current input, or stops the running statement.",
    ]
    return "\n".join(lines)
