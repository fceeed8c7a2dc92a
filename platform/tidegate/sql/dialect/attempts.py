"""C7: functions of Spark that fail on some rows are asked so that they give NULL there. Spark has an expression that
does so with any other, behind its own `try_` functions; sessions know it as `tidegate_attempt` (jvm/attempts.py)."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from tidegate.sql.dialect.dialect import SparkText
from tidegate.sql.dialect.functions import reach_of
from tidegate.sql.dialect.infer import Lookup, infer

#: `tidegate_attempt(x)` is x, or NULL where x fails. No statement can write it: TG209 knows Spark's functions only.
ATTEMPT = "tidegate_attempt"
#: Of a text what stands in front of DOCTYPE, as no statement can write it: none keeps how a string was quoted.
_CUT, _DOCTYPE = "substring_index", "r'<!DOCTYPE'"
#: A megabyte of SQL, more than Spark compiles.
_MOST_NODES = 30_000
#: Operators that fail on a pattern that is none.
_MATCHES = (exp.RegexpLike, exp.Escape)
#: Those that fail over intervals, and over times that are further apart than an interval can be.
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Neg)
#: They fail where a decimal gets more than 38 digits.
_OF_DECIMALS = ("bround", "ceil", "ceiling", "floor", "round")


def attempt(node: exp.Expr, resolved: exp.Expr, lookup: Lookup) -> exp.Expr:
    """The expression, which is asked by `ATTEMPT` if it may fail on a row; `resolved`: as it was written, for types."""
    node = cut(node)
    return exp.Anonymous(this=ATTEMPT, expressions=[node]) if _may_fail(node, resolved, lookup) else node


def cut(node: exp.Expr) -> exp.Expr:
    """Of a call that reads XML, the call that reads no document type (X1): Java's parser would fetch the files and
    addresses that one names. What stands in front of one is no document, and fails as any other text that is none."""
    if isinstance(node, exp.Anonymous) and node.name.lower().startswith("xpath") and node.expressions:
        xml, *others = node.expressions
        arguments = [xml.copy(), exp.var(_DOCTYPE), exp.Literal.number(1)]
        node.set("expressions", [exp.Anonymous(this=_CUT, expressions=arguments), *others])
    return node


def cut_all(query: exp.Expr) -> None:
    """`cut` in all of a query, in place."""
    for call in list(query.find_all(exp.Anonymous, bfs=False)):
        cut(call)


def _may_fail(node: exp.Expr, resolved: exp.Expr, lookup: Lookup) -> bool:
    if isinstance(node, exp.Anonymous):
        return (
            isinstance(node.this, str) and reach_of(node.name) == "failing" and not _is_safe(resolved, lookup)
        )
    if isinstance(node, exp.Like | exp.ILike):
        # Over a pattern that ends within an escape; around ESCAPE, it is asked as a whole.
        pattern = node.expression
        is_whole = isinstance(pattern, exp.Literal) and "\\" not in pattern.name
        return not is_whole and not isinstance(resolved.parent, exp.Escape)
    if isinstance(node, _ARITHMETIC):
        type_ = infer(resolved, lookup)
        return type_ is None or not type_.is_numeric
    return isinstance(node, _MATCHES)


def _is_safe(call: exp.Expr, lookup: Lookup) -> bool:
    """Whether a call can't fail because of how its arguments are written, or of their types."""
    if call.name.lower() == "map":
        # Keys that are constants, each another one: what Spark wants the options of from_json and its like to be.
        keys = [key for key in call.expressions[::2] if isinstance(key, exp.Literal)]
        return len({key.name for key in keys}) == len(call.expressions[::2])
    if call.name.lower() in _OF_DECIMALS and call.expressions:
        type_ = infer(call.expressions[0], lookup)
        # An integer is its own rounding, unless a second argument rounds it to tens: that can overflow.
        is_whole = type_ is not None and type_.is_integer and len(call.expressions) == 1
        return is_whole or (type_ is not None and type_.name in ("double", "float"))
    return False


def only_if(condition: exp.Expr, call: exp.Expr, instead: exp.Expr | None = None) -> exp.Expr:
    """The call, or NULL (or what is asked `instead`) where the condition is not true."""
    asked = exp.Anonymous(this="if", expressions=[condition, call, instead or exp.Null()])
    return bounded(exp.Anonymous(this=ATTEMPT, expressions=[asked]))


def bounded(made: exp.Expr) -> exp.Expr:
    """What was made of a call that stands in it several times: of calls in calls it has two, four, eight … Raises
    RecursionError if nobody could compute it."""
    if sum(1 for _ in made.walk()) > _MOST_NODES:
        raise RecursionError(f"an expression of more than {_MOST_NODES} nodes")
    return made


def without_attempts(sql: str) -> str:
    """What `safe_sql` made before there were `ATTEMPT` and `cut`: identities of tables are of this text (R4)."""
    if ATTEMPT not in sql and _DOCTYPE not in sql:
        return sql
    tokens = SparkText().tokenize(sql)
    cuts = list[tuple[int, int]]()
    for i, token in enumerate(tokens):
        if token.text == _CUT and token.token_type is TokenType.VAR:
            end, commas = _closed(tokens, i + 1)
            if len(commas) == 2 and tokens[commas[0] + 1].token_type is TokenType.RAW_STRING:
                cuts += [
                    (token.start, tokens[i + 2].start),
                    (tokens[commas[0]].start, tokens[end].end + 1),
                ]
        if token.text != ATTEMPT or token.token_type is not TokenType.VAR:
            continue
        end, commas = _closed(tokens, i + 1)
        if tokens[i + 2].text == "if":
            end, commas = _closed(tokens, i + 3)
            cuts += [
                (token.start, tokens[commas[0] + 1].start),
                (tokens[commas[1]].start, tokens[end + 1].end + 1),
            ]
        else:
            cuts += [(token.start, tokens[i + 2].start), (tokens[end].start, tokens[end].end + 1)]
    # What lies inside another cut goes with it.
    kept, at = [], 0
    for start, end in sorted(cuts):
        if start >= at:
            kept.append(sql[at:start])
        at = max(at, end)
    return "".join([*kept, sql[at:]])


def _closed(tokens: list[Token], i: int) -> tuple[int, list[int]]:
    """Where the bracket that opens at `i` is closed, and the commas right inside of it."""
    depth, commas = 0, []
    for place in range(i, len(tokens)):
        kind = tokens[place].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 1 and kind is TokenType.COMMA:
            commas.append(place)
        if depth == 0:
            return place, commas
    raise ValueError("a bracket is not closed")
