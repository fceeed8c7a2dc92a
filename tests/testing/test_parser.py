"""Test files as sqllogictest-rs and RisingWave write them, and what is no test file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import TidegateError
from tidegate.testing import records as r
from tidegate.testing.files import find, load, rewrite
from tidegate.testing.parser import parse

FILE = """\
# A comment, and a statement
statement ok
CREATE TABLE t (
  id INT
);

statement error relation .* \\(t\\) exists
CREATE TABLE t (id INT)

statement error
CREATE TABLE t (id INT)
----
db error: it exists

Caused by: another t


statement count 2 retry 3 backoff 500ms
INSERT INTO t VALUES (1), (2)

query I rowsort all_rows
SELECT * FROM t
----
1
2

query
SELECT 1 WHERE false
----

query error nope retry 2 backoff 1s
SELECT nope

let $a, b
SELECT 1, 2

sleep 1.5s
control substitution on
onlyif postgres
skipif tidegate
statement ok
SET x = 1

hash-threshold 8
subtest last
connection two
project ..
run orders
halt
"""


def test_every_kind_of_record() -> None:
    found = parse(FILE, "a.slt")
    assert [type(f).__name__ for f in found] == [
        *["Statement"] * 4,
        *["QueryRecord"] * 3,
        "Let",
        "Sleep",
        "Control",
        "Statement",
        "HashThreshold",
        *["Note"] * 2,
        "UseProject",
        "Run",
        "Halt",
    ]
    create, inline, multiline, insert, rows, empty, fails = found[:7]
    assert (create.line, create.sql_line, create.sql) == (2, 3, "CREATE TABLE t (\n  id INT\n);")
    assert inline.error.pattern.pattern == "relation .* \\(t\\) exists"
    assert multiline.error.text == "db error: it exists\n\nCaused by: another t"
    assert (insert.count, insert.retry) == (2, r.Retry(3, 0.5))
    assert (rows.types, rows.sort, rows.label, rows.expected) == ("I", "rowsort", "all_rows", ("1", "2"))
    assert FILE.split("\n")[rows.span[0] - 1 : rows.span[1] - 1] == ["1", "2"]
    assert (empty.expected, empty.has_results, empty.span[0] == empty.span[1]) == ((), True, True)
    assert (fails.error.pattern.pattern, fails.retry) == ("nope", r.Retry(2, 1.0))
    assert found[7].names == ("a", "b")
    assert found[8].seconds == 1.5
    assert found[10].conditions == (r.RunCondition(True, "postgres"), r.RunCondition(False, "tidegate"))


@pytest.mark.parametrize(
    ("text", "code", "place", "said"),
    [
        ("statment ok\nSELECT 1", "TG802", "1:1", 'did you mean "statement"?'),
        ("\nstatement okay\nSELECT 1", "TG802", "2:11", 'did you mean "ok"?'),
        ("statement ok\n\nSELECT 1", "TG802", "1:1", "the SQL is missing"),
        ("statement ok", "TG802", "1:1", "the SQL is missing"),
        ("statement ok\nSELECT 1\n----\n1", "TG802", "3:1", "write query"),
        ("statement count two\nSELECT 1", "TG804", "1:17", '"two" is not a number'),
        ("query I rowsrt\nSELECT 1", "TG802", "1:9", 'did you mean "rowsort"?'),
        ("query I,I\nSELECT 1", "TG802", "1:7", "one letter for each column"),
        ("query error (\nSELECT 1", "TG804", "1:13", "regular expression"),
        ("query error x\nSELECT 1\n----\ny", "TG802", "3:1", "twice"),
        ("sleep long", "TG804", "1:7", "units are ms, s"),
        ("sleep 5parsec", "TG804", "1:7", "not a duration"),
        ("control substitution maybe", "TG802", "1:22", "on or off"),
        ("control substitutions on", "TG802", "1:9", 'did you mean "substitution"?'),
        ("system ok\nrm -rf /", "TG803", "1:1", "tidegate.connect()"),
        ("onlyif tidegate", "TG802", "1:1", "without a record"),
        ("skipif tidegate\nhalt", "TG802", "2:1", "not allowed before halt"),
        ("let a b\nSELECT 1", "TG802", "1:5", "not the name of a variable"),
        ("hash-threshold 1 2", "TG802", "1:18", "one word"),
    ],
)
def test_what_is_not_understood_has_a_place(text: str, code: str, place: str, said: str) -> None:
    with pytest.raises(TidegateError) as caught:
        parse(text, "bad.slt")
    where = caught.value.location
    assert where is not None
    assert (caught.value.code, f"{where.line}:{where.column}") == (code, place)
    assert said in str(caught.value)
    assert "bad.slt" in str(caught.value)
    assert "^" in str(caught.value)


def test_included_records_stand_in_their_place_and_know_their_file(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.part").write_text("statement ok\nSELECT 1\n")
    (tmp_path / "parts" / "two.part").write_text("statement ok\nSELECT 2\n")
    (tmp_path / "a.slt").write_text("include parts/*.part\n\nstatement ok\nSELECT 3\n")
    found = load(tmp_path / "a.slt")
    assert [f.sql for f in found if isinstance(f, r.Sql)] == ["SELECT 1", "SELECT 2", "SELECT 3"]
    assert [Path(f.file).name for f in found] == ["one.part", "two.part", "a.slt"]


def test_what_can_t_be_included(tmp_path: Path) -> None:
    for name, text, said in (
        ("none.slt", "include nothing.slt", "no file has the name nothing.slt"),
        ("loop.slt", "include loop.slt", "includes itself"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(TidegateError, match=said) as caught:
            load(tmp_path / name)
        assert (caught.value.code, caught.value.location and caught.value.location.line) == ("TG801", 1)


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.slt", "a.slt", "deep/c.slt", "notes.txt"):
        (tmp_path / name).write_text("")
    assert [p.name for p in find([tmp_path, tmp_path / "a.slt"])] == ["a.slt", "b.slt", "c.slt"]
    assert find([tmp_path / "notes.txt"]) == [tmp_path / "notes.txt"]
    for missing in (tmp_path / "x.slt", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(TidegateError, match="there is no") as caught:
            find([missing])
        assert caught.value.code == "TG801"
    (tmp_path / "bad.slt").write_bytes(b"\xff")
    with pytest.raises(TidegateError, match="not UTF-8"):
        load(tmp_path / "bad.slt")


def test_rewriting_touches_only_the_expected_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.slt"
    file.write_text(
        "query I\nSELECT 1\n----\n2\n3\n\n# kept\nquery T\nSELECT 'x'\n\nquery I\nSELECT 5\n----\n"
    )
    first, second, third = (q for q in load(file) if isinstance(q, r.QueryRecord))
    rewrite(file, [(first, ["1"]), (second, ["x"]), (third, ["5"])])
    assert file.read_text() == (
        "query I\nSELECT 1\n----\n1\n\n# kept\nquery T\nSELECT 'x'\n----\nx\n\nquery I\nSELECT 5\n----\n5\n"
    )
    assert [q.expected for q in load(file) if isinstance(q, r.QueryRecord)] == [("1",), ("x",), ("5",)]
