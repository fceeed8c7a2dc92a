"""E1, R4: what is written differently and means the same is one definition; what differs in a literal is another."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.iceberg.layout import is_of_view, view_identity
from tidegate.sql.catalog.objects import View
from tidegate.sql.grammar.spelling import alike, plain, plain_before
from tidegate.sql.statements.analysis import load_catalog

HEAD = ["CREATE", "MATERIALIZED", "VIEW", "v", "AS", "SELECT", "ts", ",", "id", "FROM", "t", "WHERE"]
TAIL = ["EMIT", "ON", "WINDOW", "CLOSE"]
KEYWORDS = {
    "CREATE",
    "MATERIALIZED",
    "VIEW",
    "AS",
    "SELECT",
    "FROM",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "LIKE",
    *TAIL,
}
TABLE = "CREATE TABLE t (id INT, name VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"

#: The inside of a string, as SQL writes it: comments that are none, blanks, quotes, backslashes.
INSIDE = st.lists(
    st.sampled_from(["--", "/*", "*/", " ", "  ", "\n", "\t", ";", "''", "\\\\", "\\'", '"', "a", "A", "`"]),
    max_size=5,
).map("".join)
STRING = INSIDE.map(lambda text: f"'{text}'")
CONDITION = st.one_of(
    st.tuples(st.sampled_from(["name", '"name"', "`name`"]), st.sampled_from(["=", "<>", "LIKE"]), STRING),
    st.tuples(st.just("id"), st.sampled_from(["=", ">"]), st.integers(0, 9).map(str)),
    st.tuples(STRING, st.just("="), st.just("upper"), st.just("("), st.just("name"), st.just(")")),
)
CONDITIONS = st.lists(st.tuples(CONDITION, st.sampled_from(["AND", "OR"])), min_size=1, max_size=3)
GAP = st.sampled_from([" ", "  ", "\n", "\t ", " -- don't, 'or' do\n", " /* it's \" \n */ ", "/**/"])


def words(conditions: list) -> list[str]:
    """A view as the words that it is made of."""
    found: list[str] = []
    for condition, joint in conditions:
        found += [*condition, joint]
    return [*HEAD, *found[:-1], *TAIL]


def written(parts: list[str], gaps: st.DataObject, lower: bool) -> str:
    """The words with something between them that says nothing."""
    text = [w.lower() if lower and w in KEYWORDS else w for w in parts]
    return "".join(word + gaps.draw(GAP) for word in text)


def view(definition: str) -> View:
    found = load_catalog([("t.sql", TABLE), ("v.sql", definition)]).get("v")
    assert isinstance(found, View)
    return found


def properties(stored: View, identity: str | None = None) -> dict[str, str]:
    """Of a table that holds its results."""
    return {"tidegate.definition": stored.definition, "tidegate.identity": identity or view_identity(stored)}


@pytest.mark.medium
@settings(max_examples=60)
@given(CONDITIONS, st.booleans(), st.data())
def test_E1_property_another_spelling_is_no_change(
    conditions: list, lower: bool, gaps: st.DataObject
) -> None:
    parts = words(conditions)
    one, other = written(parts, gaps, False), written(parts, gaps, lower)
    assert alike(one, other)
    if not lower:
        assert plain(one) == plain(other)


@pytest.mark.medium
@settings(max_examples=60)
@given(CONDITIONS, CONDITIONS, st.data())
def test_R4_property_different_trees_never_share_an_identity(
    one: list, other: list, gaps: st.DataObject
) -> None:
    first, second = words(one), words(other)
    texts = written(first, gaps, False), written(second, gaps, False)
    assert (plain(texts[0]) == plain(texts[1])) == (first == second)
    assert alike(*texts) == (first == second)


@pytest.mark.medium
@settings(max_examples=60)
@given(CONDITIONS, st.data())
def test_R4_property_an_identity_changes_only_where_a_literal_was_damaged(
    conditions: list, gaps: st.DataObject
) -> None:
    parts = words(conditions)
    text = written(parts, gaps, False)
    damaged = any(plain_before(word) != word for word in parts if word.startswith("'"))
    # Beside a literal that opens a comment, everything was damaged.
    if not damaged and not any(re.search(r"--|/\*", word) for word in parts):
        assert plain(text) == plain_before(text)


def test_R4_what_the_first_release_stored_is_compared_by_its_text() -> None:
    same = "CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM t WHERE name <> '--' AND id > {} EMIT ON WINDOW CLOSE"
    one, two = view(same.format(1)), view(same.format(2))
    before = properties(one, _first_release(one))
    # To the first release these were one definition.
    assert _first_release(one) == _first_release(two)
    assert is_of_view(one, before)
    assert not is_of_view(two, before)
    wide, narrow = (
        view(f"CREATE MATERIALIZED VIEW v AS SELECT ts FROM t WHERE name = 'a{gap}b' EMIT ON WINDOW CLOSE")
        for gap in ("  ", " ")
    )
    assert not is_of_view(narrow, properties(wide, _first_release(wide)))
    assert is_of_view(wide, properties(wide, _first_release(wide)))


@pytest.mark.parametrize(
    "written",
    [
        "create materialized view v as select ts,id from t where ID > 1 emit on window close",
        "CREATE MATERIALIZED VIEW v AS SELECT ts, id -- both\nFROM t WHERE id>1 EMIT ON WINDOW CLOSE;",
        "/* a /* b */ c */ CREATE MATERIALIZED VIEW v AS\nSELECT ts, id FROM t WHERE id > 1 EMIT ON WINDOW CLOSE",
    ],
)
def test_E1_a_reformatted_view_is_not_rebuilt(written: str) -> None:
    stored = view("CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM t WHERE id > 1 EMIT ON WINDOW CLOSE")
    assert is_of_view(view(written.replace("ID", "id")), properties(stored))


def test_R4_a_text_that_is_not_the_identitys_decides_nothing() -> None:
    found = view("CREATE MATERIALIZED VIEW v AS SELECT ts FROM t EMIT ON WINDOW CLOSE")
    kept = properties(found)
    assert is_of_view(found, kept | {"tidegate.definition": ""})
    assert not is_of_view(found, kept | {"tidegate.definition": "", "tidegate.identity": "0" * 16})


def _first_release(found: View) -> str:
    """The identity that it gave."""
    import hashlib

    uncommented = re.sub(r"--[^\n]*|/\*.*?\*/", " ", found.definition, flags=re.DOTALL)
    return hashlib.sha256(" ".join(uncommented.split()).rstrip("; ").encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("(id > 1)", "id > 1", True),
        ("((id)) > (1)", "id > 1", True),
        ("(id > 1 AND name = 'a') OR id = 3", "id > 1 AND name = 'a' OR id = 3", True),
        ("(id + 1) * 2 > 3", "id + 1 * 2 > 3", False),
        ("NOT (id = 1 AND id = 2)", "NOT id = 1 AND id = 2", False),
        ("id = 1 AND (id = 2 OR id = 3)", "id = 1 AND id = 2 OR id = 3", False),
        ("id - (id - 1) = 1", "id - id - 1 = 1", False),
        ("name = '(a)'", "name = 'a'", False),
    ],
)
def test_E1_brackets_that_mean_nothing_are_no_change(one: str, other: str, same: bool) -> None:
    texts = [
        f"CREATE MATERIALIZED VIEW v AS SELECT ts, id FROM t WHERE {where} EMIT ON WINDOW CLOSE"
        for where in (one, other)
    ]
    assert alike(*texts) is same
    assert is_of_view(view(texts[1]), properties(view(texts[0]))) is same
