"""Carets stand where the words are: whatever letters come before them, and whatever statements come after."""

from __future__ import annotations

import pytest

from tests.sql.cases import CASES
from tests.sql.support import prelude
from tidegate.errors import TidegateError
from tidegate.sql import analyse
from tidegate.sql.dialect.dialect import to_text, tokenize
from tidegate.sql.dialect.parsing import parse_query
from tidegate.sql.dialect.text import Text, with_places

REFUSED = [
    (path.stem, number, statement.strip())
    for path in sorted(CASES.glob("*refused.sql"))
    for number, statement in enumerate(path.read_text("utf-8").split("\n----\n"))
]
#: In upper case it is longer, and says every word that an error might look for.
BEFORE = "CREATE MATERIALIZED VIEW straße AS SELECT 'größe' AS a, 'HAVING ALL DISTINCT UNION' AS b FROM orders /* ß */;"
AFTER = "\n;\nSELECT ALL id FROM orders GROUP BY ALL HAVING 1 UNION SELECT DISTINCT 2"


def refusal(text: str) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        list(analyse(text, prelude()))
    return caught.value


def place(text: str) -> tuple[str, int, int, int]:
    refused = refusal(text)
    where = refused.location
    assert where is not None
    return refused.code, where.line, where.column, where.length


@pytest.mark.medium
@pytest.mark.parametrize(("file", "number", "statement"), REFUSED, ids=lambda x: str(x)[:20])
def test_the_caret_does_not_depend_on_what_stands_around_the_statement(
    file: str, number: int, statement: str
) -> None:
    alone = place(statement)
    if alone[0] != "TG101":  # what never ends, ends elsewhere
        assert place(statement + AFTER) == alone
    code, line, column, length = place(BEFORE + "\n" + statement)
    assert (code, line - 1, column, length) == alone


def test_group_by_all_is_marked_where_it_stands() -> None:
    statement = (
        "CREATE MATERIALIZED VIEW v AS SELECT 'ßßß' AS s, window_end\n"
        "FROM TUMBLE(orders, ts, INTERVAL '1 hour') GROUP BY ALL;\n"
        "SELECT ALL id FROM orders;\n-- ALL of it"
    )
    where = refusal(statement).location
    assert where is not None
    assert (where.line, where.column, where.length) == (2, 53, 3)


def test_a_word_in_quotes_is_no_keyword() -> None:
    statement = (
        "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT ON (id) 'DISTINCT ßß' AS \"DISTINCT\", id FROM orders"
    )
    where = refusal(statement).location
    assert where is not None
    assert (where.column, where.length) == (statement.index("DISTINCT") + 1, 8)


def test_a_copy_with_places_is_the_same_at_the_same_places_and_has_its_own() -> None:
    text = Text("SELECT a.b /* why */ AS c, sum(x + 1) OVER (PARTITION BY y) FROM t AS a JOIN u USING (id)")
    query = parse_query(text, tokenize(text))
    copy = with_places(query)
    assert copy == query
    assert to_text(copy) == to_text(query)
    pairs = list(zip(query.walk(), copy.walk(), strict=True))
    assert len(pairs) > 15
    assert any("span" in one.meta for one, _ in pairs)
    for one, other in pairs:
        assert (other.meta, other.comments) == (one.meta, one.comments)
        assert other is not one
        assert other.meta is not one.meta
