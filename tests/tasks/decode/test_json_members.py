"""What some rows of JSON have beside declared columns: counted within limits, and said of names only."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tidegate.tasks.decode.text.json_members import (
    FEWEST,
    JsonNames,
    Members,
    MembersLook,
    both_kinds,
    fits,
    undeclared_members,
)

KNOWN = JsonNames(frozenset({"id"}), frozenset({"ref"}))


def texts(*rows: Any) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def said(*rows: Any) -> dict[str, str | None]:
    return Members.of(texts(*rows), KNOWN).undeclared(KNOWN)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -(2**63)], "bigint"),
        ([1, 2**63], None),
        ([1, 2.5, None], "double"),
        ([True, False], "boolean"),
        ([True, 1], None),
        (["a", ""], "string"),
        (["a", 1], None),
        ([None], "void"),
        ([None, {}], None),
        ([[1]], None),
    ],
)
def test_values_have_the_type_that_holds_all_of_them(values: list[Any], kind: str | None) -> None:
    assert said(*[{"ID": 1, "x": value} for value in values] * FEWEST) == {"x": kind}
    # Wherever they are cut.
    parts = [Members.of(texts({"x": value}), KNOWN) for value in values * FEWEST]
    whole = Members()
    for part in parts:
        whole = whole.both(Members.from_text(part.to_text()))
    assert whole.undeclared(KNOWN) == {"x": kind}


def test_X4_only_names_that_half_of_ten_rows_have_are_said_and_those_that_were_taken_in() -> None:
    assert said(*[{"x": 1}] * 9) == {}
    assert said(*[{"x": 1}] * 10, *[{}] * 10) == {"x": "bigint"}
    assert said(*[{"x": 1}] * 10, *[{}] * 11) == {}
    assert said({"ref": 1}, *[{}] * 9) == {"ref": "bigint"}
    assert said(*[{"a b": 1, "": 2, "x" * 129: 3, "1x": 4}] * 10) == {}


def test_what_is_no_object_is_not_counted() -> None:
    good, bad = texts(*[{"x": 1}] * 10), [b"[1]", b"{", b'{"y": NaN}', b"\xff", b"", b"[" * 100_000, b"7"]
    assert Members.of([*bad * 10, *good], KNOWN) == Members(10, {"x": (10, "bigint")})
    assert undeclared_members(b"\xef\xbb\xbf" + b"\n".join([*good, b'{"x": "cut of']), KNOWN) == {
        "x": "bigint"
    }
    # More digits than Python converts.
    assert Members.of([b'{"x": ' + b"1" * 5000 + b"}"], KNOWN).rows == 0


def test_X2_a_task_looks_at_so_many_messages_and_bytes() -> None:
    look, rows, found = MembersLook(KNOWN), pa.array(texts(*[{"x": 1}] * 5000), pa.binary()), 0
    for _ in range(10):
        column = look.column(rows)
        assert len(column) == 5000
        assert column[1:].null_count == 4999
        found += 0 if column[0].as_py() is None else Members.from_text(column[0].as_py()).rows
    assert found == 300
    look = MembersLook(KNOWN)
    long = pa.array([None, *texts({"x": "y" * 700_000}, {"x": "y" * 700_000}, {"z": 1})], pa.binary())
    (text,) = look.column(long).drop_null().to_pylist()
    assert Members.from_text(text) == Members(2, {"x": (1, "string"), "z": (1, "bigint")})
    assert look.column(pa.array([], pa.binary())) == pa.array([], pa.string())


def test_X2_what_a_task_says_is_little_whatever_the_names_are() -> None:
    strange = [{f"n{'x' * 100}{i}{j}": 1 for j in range(5000)} | {"common": 1} for i in range(20)]
    text = Members.of(texts(*strange, {"common": 1}), KNOWN).to_text()
    assert len(text) < 100_000
    assert len(Members.from_text(text).found) == 500
    # A name behind the first thousand of a row is not looked at.
    assert Members.from_text(text).found.get("common", (1, ""))[0] == 1


def test_types_of_json_and_of_columns() -> None:
    assert both_kinds("void", "bigint") == both_kinds("bigint", "void") == "bigint"
    assert both_kinds(None, "void") is None
    assert fits("string", None)
    assert fits("double", "bigint")
    assert not fits("bigint", "double")
    assert not fits("boolean", None)
    # Of a type that no look says nothing is said.
    assert fits("array<bigint>", None)
