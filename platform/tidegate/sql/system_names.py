"""Names with a `$` that a query may use without quotes: the hidden columns of logs (W12, W14)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokens import Token, TokenType

#: The hidden column of every source and table (W12): when a row arrived.
ROWTIME = "$rowtime"
#: Another: the watermark as of the row (W14). Only CURRENT_WATERMARK leads to it.
WATERMARK = "$watermark"


def joined(tokens: list[Token]) -> Iterator[Token]:
    """`$rowtime` without quotes as the one name that it is (W12); every other `$` stays an error of its own."""
    waiting: Token | None = None
    for token in tokens:
        if waiting is not None:
            if token.text.lower() == ROWTIME[1:] and token.start == waiting.end + 1:
                yield Token(TokenType.IDENTIFIER, ROWTIME, waiting.line, token.col, waiting.start, token.end)
                waiting = None
                continue
            yield waiting
            waiting = None
        if token.text == ROWTIME[0] and token.token_type is TokenType.PARAMETER:
            waiting = token
        else:
            yield token
    if waiting is not None:
        yield waiting
