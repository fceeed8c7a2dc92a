"""Names with a `$` that a query may use without quotes: the hidden columns of logs (W12, W14)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokens import Token, TokenType

#: Hidden columns of every source and table: a row's time (W12: the message's, else when it arrived), and its place.
ROWTIME, PARTITION, OFFSET = "$rowtime", "$partition", "$offset"
#: Of what comes from messages.
KEY, HEADERS = "$key", "$headers"
#: All that a query may name.
NAMES = (ROWTIME, PARTITION, OFFSET, KEY, HEADERS)
#: Another: the watermark as of the row (W14). Only CURRENT_WATERMARK leads to it.
WATERMARK = "$watermark"


def absent_hint(name: str) -> str | None:
    """For a hidden column that is named where there is none: where it is to be had."""
    if name not in NAMES:
        return None
    where = "sources and tables with connector 'kafka'" if name in (KEY, HEADERS) else "sources, tables"
    return f"{where} and their $late, $rejected and $raw have it: select it there, under another name"


def joined(tokens: list[Token]) -> Iterator[Token]:
    """`$rowtime` (or another of `NAMES`) without quotes as the one name that it is (W12); every other `$` stays an
    error of its own."""
    waiting: Token | None = None
    for token in tokens:
        if waiting is not None:
            name = f"${token.text.lower()}"
            if name in NAMES and token.start == waiting.end + 1:
                yield Token(TokenType.IDENTIFIER, name, waiting.line, token.col, waiting.start, token.end)
                waiting = None
                continue
            yield waiting
            waiting = None
        if token.text == "$" and token.token_type is TokenType.PARAMETER:
            waiting = token
        else:
            yield token
    if waiting is not None:
        yield waiting
