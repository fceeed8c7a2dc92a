"""Markdown for Dagster's UI: what is given is shown as text, whatever is in it."""

from __future__ import annotations

import base64
import re

from dagster import MarkdownMetadataValue, MetadataValue


def code(text: str, language: str) -> MarkdownMetadataValue:
    """A block of code. Its fence is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return MetadataValue.md(f"{fence}{language}\n{text}\n{fence}")


def picture(alt: str, png: bytes) -> MarkdownMetadataValue:
    """A PNG, with words for who can't see it."""
    encoded = base64.b64encode(png).decode("ascii")
    return MetadataValue.md(f"![{escaped(alt)}](data:image/png;base64,{encoded})")


def escaped(text: str) -> str:
    """In one line, without any of markdown's or HTML's meanings."""
    # An underscore inside of a word means nothing.
    return re.sub(
        r"(?<!\w)_|_(?!\w)|[\\`*\[\](){}<>!&~|$#:]", lambda found: f"\\{found[0]}", " ".join(text.split())
    )
