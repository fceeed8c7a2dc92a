"""Markdown for Dagster's UI: what is given is shown as text, whatever is in it."""

from __future__ import annotations

import base64
import re

from dagster import MarkdownMetadataValue, MetadataValue

#: An underscore between letters means nothing to markdown.
_UNDERSCORE = r"(?<![^\W_])_|_(?![^\W_])"
#: What means something to markdown or HTML where it stands: `<` before a blank does not.
_MEANINGS = re.compile(_UNDERSCORE + r"|[\\`*\[\]~]|<(?=[\w/!?])|&(?=#?\w+;)|^[#>=+|-]|^\d+[.)](?!\S)")


def code(text: str, language: str) -> MarkdownMetadataValue:
    """A block of code. Its fence is longer than any in it."""
    return MetadataValue.md(_fenced(text, language))


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def picture(alt: str, png: bytes) -> MarkdownMetadataValue:
    """A PNG, with words for who can't see it."""
    encoded = base64.b64encode(png).decode("ascii")
    return MetadataValue.md(f"![{escaped(alt)}](data:image/png;base64,{encoded})")


def as_text(said: str) -> str:
    """A description for Dagster, which shows descriptions as markdown: words, whatever names and values are in them. No
    more is escaped than has a meaning where it stands, because logs show descriptions, too. Lines keep their places.
    """
    said = said.strip()
    return _fenced(said, "text") if re.search(r"[\r\n]", said) else _MEANINGS.sub(_literal, said)


def escaped(text: str) -> str:
    """In one line, without any of markdown's or HTML's meanings anywhere, not even inside of an address."""
    return re.sub(_UNDERSCORE + r"|[\\`*\[\](){}<>!&~|$#:]", _literal, " ".join(text.split()))


def _literal(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}\\{found[0][-1]}"
