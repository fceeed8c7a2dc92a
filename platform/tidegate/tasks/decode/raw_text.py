"""Bytes of a row that is rejected as `_raw` has them. Executor side."""

from __future__ import annotations

import base64

#: What stands before bytes that are no text.
BASE64 = "base64:"


def as_text(data: bytes) -> str:
    """The text that bytes are, else `in_base64`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return in_base64(data)


def in_base64(data: bytes) -> str:
    """Bytes that are no text."""
    return BASE64 + base64.b64encode(data).decode("ascii")
