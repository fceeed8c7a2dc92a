"""A place in a list of tokens, with the few moves that the grammar is written in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, TypeVar

from sqlglot.tokens import Token, TokenType

from tidegate.errors import Location, did_you_mean
from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.text import Span, Text, token_span
from tidegate.sql.grammar.syntax import Name

T = TypeVar("T")

OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


class Cursor:
    """Moves over the tokens of one statement; never past its end."""

    def __init__(self, text: Text, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = list(tokens)
        self.index = 0

    def peek(self, ahead: int = 0) -> Token | None:
        """The token `ahead` of the current one, or None at the end."""
        index = self.index + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The token's text in upper case if it is an unquoted word, else the empty string."""
        token = self.peek(ahead)
        return token.text.upper() if token is not None and is_word(token) else ""

    def done(self) -> bool:
        return self.index >= len(self.tokens)

    def take(self) -> Token:
        token = self.peek()
        if token is None:
            self.fail("something is missing here")
        self.index += 1
        return token

    def accept(self, *words: str) -> bool:
        """Move over these words if they come next."""
        if any(self.word(i) != w for i, w in enumerate(words)):
            return False
        self.index += len(words)
        return True

    def if_not_exists(self) -> bool:
        """Move over IF NOT EXISTS; TG102 or TG104 at a wrong word in it. `IF` alone may be a name."""
        if self.word() != "IF" or self.word(1) in ("", "AS"):
            return False
        self.expect("IF", "NOT", "EXISTS", clause="IF NOT EXISTS")
        return True

    def accept_sign(self, kind: TokenType) -> bool:
        token = self.peek()
        if token is None or token.token_type is not kind:
            return False
        self.index += 1
        return True

    def expect(self, *words: str, clause: str | None = None) -> None:
        """These words, or TG104 at the first that is close to the expected one, or TG102."""
        for word in words:
            if self.word() != word:
                self.misspelt(word, clause or " ".join(words))
            self.index += 1

    def expect_sign(self, kind: TokenType, sign: str, after: str | None = None) -> Token:
        token = self.peek()
        if token is None or token.token_type is not kind:
            self.fail(f'expected "{sign}"' + (f" after {after}" if after else ""))
        self.index += 1
        return token

    def name(self, what: str) -> Name:
        """A quoted or unquoted name; TG102 if something else comes."""
        token = self.peek()
        if token is None or not (is_word(token) or token.token_type is TokenType.IDENTIFIER):
            self.fail(f"expected {what}")
        self.index += 1
        following = self.peek()
        if following is not None and following.text == "$" and following.start == token.end + 1:
            hint = 'write names that contain $ in double quotes: "flights$late"'
            raise error("TG102", 'unexpected "$"', self.text.at(token_span(following)), hint)
        return Name(token.text, token_span(token))

    def until(self, *stops: TokenType) -> list[Token]:
        """The tokens up to one of these outside any bracket (or to the end), without it; the cursor stands on
        it."""
        depth, start = 0, self.index
        while not self.done():
            kind = self.tokens[self.index].token_type
            if depth == 0 and kind in stops:
                break
            depth += (kind in OPEN) - (kind in CLOSE)
            self.index += 1
        if start == self.index:
            self.fail("expected an expression")
        return self.tokens[start : self.index]

    def listed(self, parse: Callable[[], T], after: str) -> list[T]:
        """`(item, item, …)` with at least one item."""
        self.expect_sign(TokenType.L_PAREN, "(", after)
        items = [parse()]
        while self.accept_sign(TokenType.COMMA):
            items.append(parse())
        token = self.peek()
        if token is None or token.token_type is not TokenType.R_PAREN:
            self.fail('expected "," or ")"')
        self.index += 1
        return items

    def span_since(self, start: int) -> Span:
        return token_span(self.tokens[start], self.tokens[max(start, self.index - 1)])

    def here(self) -> Location:
        """The current token, or the end of the statement."""
        token = self.peek()
        if token is not None:
            return self.text.at(token_span(token))
        last = self.tokens[-1]
        return self.text.at((last.start, last.end))

    def misspelt(self, expected: str, clause: str) -> NoReturn:
        """TG104 if the current word looks like `expected`, else TG102."""
        self.refuse_misspelt([expected], f"in {clause}")
        self.fail(f"expected {expected}" + ("" if clause == expected else f" ({clause})"))

    def refuse_misspelt(self, words: Iterable[str], where: str) -> None:
        """TG104 if the current word looks like one of `words`; `where` it stands, for the message."""
        token = self.peek()
        if token is not None and (hint := did_you_mean(token.text, words)):
            raise error("TG104", f'"{token.text}" {where}', self.here(), hint)

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """TG102 at the current token."""
        token = self.peek()
        found = "the end of the statement" if token is None else f'"{self.text.slice(token_span(token))}"'
        raise error("TG102", f"{message}, found {found}", self.here(), hint)


def is_word(token: Token) -> bool:
    """An unquoted word, keyword or not."""
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER):
        return False
    return bool(token.text) and (token.text[0].isalpha() or token.text[0] == "_")
