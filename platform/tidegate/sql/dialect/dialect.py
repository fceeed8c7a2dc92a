"""The dialect: sqlglot's Spark with tidegate's names, quotes and types, and its Spark text on the way out.

Functions are kept as written (`Anonymous`): Spark gets the call that the user wrote, sqlglot never swaps one
for another. Only special forms (CAST, EXTRACT, …) have nodes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot._version import __version__ as sqlglot_version
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from tidegate.sql.dialect.codes import error
from tidegate.sql.dialect.frame_syntax import FrameGenerator, FrameParser
from tidegate.sql.dialect.system_names import joined
from tidegate.sql.dialect.text import Span, Text, last_open, token_span, without_places
from tidegate.sql.dialect.types import ABSENT, from_datatype

#: Of what reads SQL.
LIBRARY = f"sqlglot {sqlglot_version}"

# sqlglot's token types are a closed list; this member belongs to a dialect that is not ours, and is neither a
# name nor an alias anywhere.
EMIT = TokenType.BULK_COLLECT_INTO
EMIT_WORDS = ("EMIT", "ON", "WINDOW", "CLOSE")

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")

_SPECIAL_FORMS = ("CAST", "TRY_CAST", "EXTRACT")
_NO_PAREN_FORMS = ("CASE", "IF", "TRANSFORM")
# The first of three arguments is a unit, not a column.
_UNIT_FIRST = ("dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff")


# Functions that stand without brackets, as they do in Spark.
_BARE = {
    exp.CurrentDate: "CURRENT_DATE",
    exp.CurrentTimestamp: "CURRENT_TIMESTAMP",
    exp.CurrentUser: "CURRENT_USER",
    exp.SessionUser: "SESSION_USER",
    exp.Localtimestamp: "LOCALTIMESTAMP",
}


class NotUnderstood(ParseError):
    """A syntax error where the parser stands: `span` of the token that it did not expect."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.span = span


class Later(NotUnderstood):
    """Something that a later version understands, with what to write instead."""

    def __init__(self, what: str, span: Span, instead: str | None) -> None:
        super().__init__(what, span)
        self.instead = instead


class TidegateParser(FrameParser):
    """Spark's expressions and queries; a query is the only statement it knows (see grammar.py for the
    others)."""

    STRICT_CAST = True
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar = {
        **{k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k in _SPECIAL_FORMS},
        "POSITION": lambda self: self._parse_worded("position", TokenType.IN),
        "SUBSTRING": lambda self: self._parse_worded("substring", TokenType.FROM, TokenType.FOR),
        "SUBSTR": lambda self: self._parse_worded("substr", TokenType.FROM, TokenType.FOR),
        "OVERLAY": lambda self: self._parse_worded("overlay", "PLACING", TokenType.FROM, TokenType.FOR),
        "TRIM": lambda self: self._parse_trim(),
    }
    PRIMARY_PARSERS: ClassVar = {
        **SparkParser.PRIMARY_PARSERS,
        TokenType.RAW_STRING: lambda self, token: exp.Literal.string(token.text),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        k: v for k, v in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if k in _NO_PAREN_FORMS
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {}
    # A temporal join; Spark's own time travel is an option of its reader, not of these queries.
    VERSION_PHRASES: ClassVar[dict[tuple[str, ...], str]] = {("FOR", "SYSTEM_TIME"): "SYSTEM_TIME"}
    # No JSON arrows: `->` is a lambda and nothing else.
    COLUMN_OPERATORS: ClassVar = {
        k: v for k, v in SparkParser.COLUMN_OPERATORS.items() if k in (TokenType.DOT, TokenType.DCOLON)
    }

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        where = token or self._curr or self._prev
        raise NotUnderstood(message, token_span(where) if where else (0, 0))

    def _parse_statement(self) -> exp.Expr | None:
        # What follows WITH … AS (…); the base class would take any statement, INSERT included.
        query = self._parse_select(nested=True)
        if query is None:
            self.raise_error("expected SELECT")
        return query

    def _parse_select(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return super()._parse_select(*args, **{**kwargs, "consume_pipe": False})

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        table = super()._parse_table(*args, **kwargs)
        # FOR SYSTEM_TIME AS OF PROCTIME() may stand behind the alias, too.
        if isinstance(table, exp.Table) and not table.args.get("version"):
            table.set("version", self._parse_version())
        return table

    def _parse_ordered(self, parse_method: Callable[[], exp.Expr | None] | None = None) -> exp.Ordered | None:
        # ORDER BY ALL is one bare word; the base class takes a quoted "all", 'all' and all(…) for it, too.
        found: list[exp.Expr | None] = []

        def read() -> exp.Expr | None:
            found.append((parse_method or self._parse_disjunction)())
            return found[0]

        ordered = super()._parse_ordered(read)
        written = found[0]
        is_bare = (
            isinstance(written, exp.Column) and not written.table and not written.this.args.get("quoted")
        )
        if ordered is not None and not is_bare:
            ordered.set("this", written)
        return ordered

    def _parse_parameter(self) -> exp.Parameter:
        self.raise_error("a name cannot start with this character", self._prev)

    def _parse_at_time_zone(self, this: exp.Expr | None) -> exp.Expr | None:
        if self._match_text_seq("AT", "TIME", "ZONE", advance=False):
            instead = "use from_utc_timestamp(ts, zone), to_utc_timestamp(ts, zone) or convert_timezone(…)"
            raise Later("AT TIME ZONE", token_span(self._curr), instead)
        return this

    def _parse_worded(self, name: str, *words: TokenType | str) -> exp.Anonymous:
        """`f(a WORD b WORD c)`, the same as `f(a, b, c)`, which it becomes."""
        arguments = [self._parse_bitwise()]
        if self._match(TokenType.COMMA):
            arguments += self._parse_function_args()
        for word in words:
            if self._match_text_seq(word) if isinstance(word, str) else self._match(word):
                arguments.append(self._parse_bitwise())
        return self.expression(exp.Anonymous(this=name, expressions=arguments))

    def _parse_trim(self) -> exp.Expr:  # type: ignore[override]  # the base makes nothing but exp.Trim
        sides = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
        side = self._curr.text.upper()
        if side not in sides or self._curr.token_type is TokenType.IDENTIFIER:
            arguments = self._parse_function_args()
            if self._match(TokenType.FROM):
                return self.expression(
                    exp.Anonymous(this="btrim", expressions=[self._parse_bitwise(), *arguments])
                )
            return self.expression(exp.Anonymous(this="trim", expressions=arguments))
        if self._next.token_type is not TokenType.FROM:
            return super()._parse_trim()
        self._advance(2)
        return self.expression(exp.Anonymous(this=sides[side], expressions=[self._parse_bitwise()]))

    def _parse_interval(self, *args: Any, **kwargs: Any) -> exp.Add | exp.Interval | None:
        interval = super()._parse_interval(*args, **kwargs)
        if not isinstance(interval, exp.Add):
            return interval
        # INTERVAL 5 days 3 hours: one interval, as Spark has it, not a sum of two.
        parts = list(interval.find_all(exp.Interval, bfs=False))
        if not all(isinstance(p.this, exp.Literal) for p in parts):
            self.raise_error("an INTERVAL of several units needs a number and a unit for each part")
        text = " ".join(f"{p.this.name} {p.text('unit').lower()}".strip() for p in parts)
        return self.expression(exp.Interval(this=exp.Literal.string(text)))

    def _parse_query(self) -> exp.Expr | None:
        query = self._parse_statement()
        return self._parse_query_modifiers(self._parse_set_operations(query))

    def _spanned(self, parse: Callable[[], exp.Expr | None]) -> exp.Expr | None:
        first = self._curr
        node = parse()
        if node is not None and first and self._prev and "span" not in node.meta:
            node.meta["span"] = token_span(first, self._prev)
        return node

    def _parse_expression(self) -> exp.Expr | None:
        return self._spanned(super()._parse_expression)

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._spanned(super()._parse_disjunction)

    def _parse_unary(self) -> exp.Expr | None:
        return self._spanned(super()._parse_unary)

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        return self._spanned(lambda: super(TidegateParser, self)._parse_lambda(alias))

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token = self._curr
        call = super()._parse_function_call(*args, **kwargs)
        if call is None:
            return None
        function = call.find(exp.Anonymous) if isinstance(call, exp.Window | exp.Filter) else call
        if isinstance(function, exp.Anonymous) and len(function.expressions) == 3:
            unit = function.expressions[0]
            if function.name.lower() in _UNIT_FIRST and isinstance(unit, exp.Column) and not unit.table:
                function.expressions[0].replace(exp.var(unit.name))
        call.meta.setdefault("name_span", token_span(token))
        return call


class TidegateGenerator(FrameGenerator):
    """Back to the user's own language: for the round trip and for messages."""

    TRANSFORMS: ClassVar = {
        **{k: v for k, v in SparkGenerator.TRANSFORMS.items() if k not in (exp.Select, exp.Create)},
        **{node: (lambda _self, _node, text=text: text) for node, text in _BARE.items()},
        exp.BitwiseLeftShift: lambda self, node: self.binary(node, "<<"),
        exp.BitwiseRightShift: lambda self, node: self.binary(node, ">>"),
    }

    def version_sql(self, expression: exp.Version) -> str:
        return f"FOR {expression.name} {expression.text('kind')} {self.sql(expression, 'expression')}"

    def datatype_sql(self, expression: exp.DataType) -> str:
        kind = expression.this
        if not isinstance(kind, exp.DType):
            return super().datatype_sql(expression)
        own = kind in (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ) or kind.value in ABSENT
        # Spark has no such type; here it has to come back as it was, for an error of its own.
        return kind.value if own and not expression.expressions else super().datatype_sql(expression)


class Tidegate(Spark):
    """The dialect of asset files and of `tidegate sql`."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES: ClassVar = ["'"]
        IDENTIFIERS: ClassVar = ['"', "`"]
        STRING_ESCAPES: ClassVar = ["\\", "'"]
        RAW_STRINGS: ClassVar = [("r'", "'"), ("R'", "'")]
        # Otherwise the rest of SHOW, EXPLAIN, … would be one opaque string.
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar = {
            **Spark.Tokenizer.KEYWORDS,
            " ".join(EMIT_WORDS): EMIT,
            # The name of a window function, nothing else.
            "SESSION": TokenType.VAR,
            "TIMESTAMP": TokenType.TIMESTAMP,
            "INT8": TokenType.BIGINT,
            "BYTEA": TokenType.VARBINARY,
        }

    Parser = TidegateParser
    Generator = TidegateGenerator


class Read(exp.Expression):
    """An item of FROM: the rows that the engine gives to a query of tidegate's under the role `this`. No text is parsed
    into it."""

    arg_types: ClassVar = {"this": True}


class Fragment(exp.Expression):
    """An expression that tidegate itself writes as Spark SQL, `this`, over columns that it has quoted. It reads
    nothing."""

    arg_types: ClassVar = {"this": True}


class SparkTextGenerator(FrameGenerator):
    """What Spark is given: every name in backticks, TIMESTAMP as TIMESTAMP_NTZ, TIMESTAMPTZ as TIMESTAMP,
    bare DECIMAL as DECIMAL(28,10). `names`: what each role of `Read` is called."""

    TRANSFORMS: ClassVar = {
        **TidegateGenerator.TRANSFORMS,
        Fragment: lambda _self, node: node.name,
        Read: lambda self, node: self.read(node.name),
    }
    names: Mapping[str, str] | None = None

    def read(self, role: str) -> str:
        """What is read under a role."""
        return f"{{{role}}}" if self.names is None else f"`{self.names[role]}`"

    def datatype_sql(self, expression: exp.DataType) -> str:
        return str(from_datatype(expression))

    def extract_sql(self, expression: exp.Extract) -> str:
        if expression.name.upper() != "EPOCH":
            return super().extract_sql(expression)
        # Spark has no such part: whole seconds (D1).
        return f"unix_seconds(CAST({self.sql(expression, 'expression')} AS TIMESTAMP))"


class SparkText(Spark):
    """Output only."""

    Generator = SparkTextGenerator


TIDEGATE = Tidegate()
_SPARK_TEXT = SparkText()


def tokenize(text: Text) -> list[Token]:
    """The tokens of a whole file. Raises TG101."""
    try:
        return list(joined(TIDEGATE.tokenize(text.sql)))
    except TokenError as problem:
        raise _unreadable(text, problem) from None


def readable(text: Text) -> Text:
    """Of a text for which `tokenize` raises TG101: its beginning, to the last semicolon in front of what can't be
    read. A quote that is missing further above makes other text of what is between."""
    before = _tokens_before(text.sql, last_open(text.sql) or 0)
    ends = (t.end for t in before if t.token_type is TokenType.SEMICOLON)
    return Text(text.sql[: max(ends, default=-1) + 1], text.file, text.base_line)


def over_lines(text: Text, tokens: Iterable[Token]) -> Iterator[Token]:
    """Strings and quoted names that end in another line than they begin."""
    quoted = (TokenType.STRING, TokenType.IDENTIFIER)
    return (t for t in tokens if t.token_type in quoted and "\n" in text.sql[t.start : t.end])


def to_spark(node: exp.Expr, names: Mapping[str, str] | None = None) -> str:
    """The expression or query as Spark SQL text. `names`: the relation that each role of a `Read` stands for; without
    them the text is for people, and the role stands in braces."""
    generator = _SPARK_TEXT.generator(
        identify=True, normalize_functions=False, comments=False, unsupported_level=ErrorLevel.IGNORE
    )
    assert isinstance(generator, SparkTextGenerator)
    generator.names = names
    return generator.generate(without_places(node), copy=False)


def to_text(node: exp.Expr) -> str:
    """The expression or query as a user would write it."""
    generator = TIDEGATE.generator(
        normalize_functions=False, comments=False, unsupported_level=ErrorLevel.IGNORE
    )
    return generator.generate(without_places(node), copy=False)


def _unreadable(text: Text, problem: TokenError) -> Exception:
    """sqlglot only says that something is missing; what was opened last is where it happened."""
    opened = last_open(text.sql)
    if opened is None:
        return error("TG101", f"this is not SQL: {problem}", text.at((0, 0)))
    where = text.at((opened, opened))
    hint = "write strings in '…', and names in \"…\" or `…`"
    if text.sql[opened] == "/":
        return error("TG101", "this comment is never closed", where, hint)
    # If a quote is missing, each one behind it is taken for the opposite of what it is: text follows on its end.
    wrong = (t for t in over_lines(text, _tokens_before(text.sql, opened)) if text.sql[t.end + 1].isalnum())
    quote = next(wrong, None)
    if quote is not None:
        line = text.at((quote.start, quote.start)).line
        hint += (
            f"; the quote that begins in line {line} ends in a later line: is it the one that is not closed?"
        )
    return error("TG101", "this quote is never closed", where, hint)


def _tokens_before(sql: str, end: int) -> list[Token]:
    try:
        return list(TIDEGATE.tokenize(sql[:end]))
    except TokenError:
        return []
