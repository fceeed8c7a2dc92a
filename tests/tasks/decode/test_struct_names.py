"""Names inside of JSON values whatever their case (`case = 'insensitive'`): at every level of declared structs."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

from tests.conftest import Workbench
from tests.tasks.decode.test_decode import decoded as by_spark
from tests.tasks.decode.test_decode import source
from tests.tasks.decode.test_property_decoders import decoder
from tidegate.sql.dialect.types import parse_ddl
from tidegate.tasks.decode.text.bulk import parsed
from tidegate.tasks.decode.text.strict_json import NotStrict
from tidegate.tasks.decode.text.struct_names import folded, names_of, renamed

KIND = "struct<a:int,Bee:struct<c:string>,l:array<struct<x:int>>,m:map<string,struct<y:int>>>"
NAMES = names_of(parse_ddl(KIND))
COLUMNS = "id INT, st STRUCT<a INT, Bee STRUCT<c VARCHAR>>, l STRUCT<x INT>[], m MAP<VARCHAR, STRUCT<y INT>>"
TWICE = "unparseable: a name is there twice in an object"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"A" : 5}', '{"a" : 5}'),
        ('{ "a":5, "bee" : {"C":"A"} }', '{ "a":5, "Bee" : {"c":"A"} }'),
        ('{"L":[ {"X":1},{"x":2} , null]}', '{"l":[ {"x":1},{"x":2} , null]}'),
        # Keys of a map are values; what is not declared is left alone, and so are spellings.
        ('{"M":{"Y":{"Y":1},"y":{"y":2}}}', '{"m":{"Y":{"y":1},"y":{"y":2}}}'),
        ('{"A":{"A":1,"a":2},"Other":{"A":1,"a":[1.50]}}', '{"a":{"A":1,"a":2},"Other":{"A":1,"a":[1.50]}}'),
        (r'{"\u0061":1,"\u0042EE":null}', r'{"\u0061":1,"Bee":null}'),
        ("{}", "{}"),
        ("[]", "[]"),
        ("1e5", "1e5"),
        ('{"l":[],"m":{}}', '{"l":[],"m":{}}'),
    ],
)
def test_names_become_the_declared_ones_and_nothing_else_changes(text: str, wanted: str) -> None:
    assert NAMES is not None
    assert renamed(text, NAMES) == wanted


@pytest.mark.parametrize(
    "text",
    [
        '{"a":5,"A":6}',
        '{"bee":{"c":"x","C":"y"}}',
        '{"l":[{"x":1},{"X":1,"x":2}]}',
        '{"M":{"k":{"y":1,"Y":1}}}',
    ],
)
def test_an_object_that_has_a_field_twice_is_rejected_at_every_level(text: str) -> None:
    assert NAMES is not None
    with pytest.raises(NotStrict, match="twice"):
        renamed(text, NAMES)


def test_a_letter_from_outside_of_ascii_is_none_of_it() -> None:
    assert folded("ST") == "st" == folded("st")
    assert folded("ſt") == "ſt"  # the long s
    assert folded("\u212a") == "\u212a"  # the Kelvin sign
    assert folded("İ") == "İ"
    assert folded("ÄÉ") == "äé" == folded("äé")
    # Of two fields that differ by their case only each goes by its own spelling.
    both = names_of(parse_ddl("struct<a:int,A:int,b:int>"))
    assert both is not None
    assert renamed('{"a":1,"A":2,"B":3}', both) == '{"a":1,"A":2,"b":3}'


@pytest.mark.medium
def test_property_whatever_the_spelling_the_declared_names_are_read() -> None:
    """The same objects with declared and with other spellings, decoded together and alone."""
    decode = decoder("JSON (case = 'insensitive')", COLUMNS)

    def spelled(r: random.Random, value: Any, change: bool) -> Any:
        if isinstance(value, dict):
            return {
                (r.choice([k.upper(), k.lower()]) if change and k != "Key" else k): spelled(r, v, change)
                for k, v in value.items()
            }
        return [spelled(r, v, change) for v in value] if isinstance(value, list) else value

    for seed in range(100):
        r = random.Random(seed)
        rows = [
            {
                "id": n,
                "st": r.choice([None, {"a": n}, {"Bee": {"c": "A"}}, {"a": 1, "Bee": None}]),
                "l": [{"x": i} for i in range(r.randrange(3))],
                "m": {"Key": {"y": r.randrange(9)}},
            }
            for n in range(30)
        ]
        texts = [json.dumps(spelled(r, row, r.random() < 0.5)).encode() for row in rows]
        found = parsed(decode, pa.array(texts, pa.binary()))
        assert found["_why"].null_count == len(rows)
        for i, row in enumerate(rows):
            if found["_whole"][i].as_py():
                text = json.loads(found["_text"][i].as_py())
                assert {n: text[n] for n in ("st", "l", "m")} == {n: row[n] for n in ("st", "l", "m")}, seed
                continue
            for place, name in ((1, "st"), (2, "l"), (3, "m")):
                text = found[f"t{place}"][i].as_py()
                assert (None if text is None else json.loads(text)) == row[name], seed


def test_X5_both_spellings_in_one_object_reject_it() -> None:
    decode = decoder("JSON (case = 'insensitive')", COLUMNS)
    texts = [
        b'{"st":{"A":5}}',
        b'{"st":{"a":5,"A":6}}',
        b'{"ST":{"a":5},"st":null}',
        '{"ſt":{"a":5}}'.encode(),
    ]
    for values in (texts, texts[::-1], *[[text] for text in texts]):
        found = dict(
            zip(values, parsed(pickle.loads(pickle.dumps(decode)), pa.array(values))["_why"], strict=True)
        )
        why = {texts[1]: TWICE, texts[2]: 'unparseable: column "st" is there twice'}
        assert {text: reason.as_py() for text, reason in found.items()} == {t: why.get(t) for t in values}


@pytest.mark.spark
def test_spark_reads_names_inside_whatever_their_case(workbench: Workbench) -> None:
    session = workbench.session()
    relation = source("JSON (case = 'insensitive')", COLUMNS)
    values: list[bytes | None] = [
        b'{"ID":1,"ST":{"A":5,"BEE":{"C":"x"}},"L":[{"X":1}],"M":{"Y":{"Y":2}}}',
        b'{"id":1,"st":{"a":5,"Bee":{"c":"x"}},"l":[{"x":1}],"m":{"Y":{"y":2}}}',
        '{"id":1,"ſt":{"a":5}}'.encode(),
        b'{"id":1,"st":{"a":5,"A":6}}',
    ]
    rows = by_spark(session, relation, values)
    assert rows[0] == rows[1]
    assert (rows[0]["st"], rows[0]["l"]) == ({"a": 5, "Bee": {"c": "x"}}, [{"x": 1}])
    assert rows[0]["m"] == {"Y": {"y": 2}}
    assert (rows[2]["st"], rows[2]["_why"]) == (None, None)
    assert (rows[3]["_why"], rows[3]["_raw"]) == (TWICE, '{"id":1,"st":{"a":5,"A":6}}')
