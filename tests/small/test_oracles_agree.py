"""The oracle of the rules, step by step, against the one in SQL: on every world of some rows here, on more by
`make worlds`."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.oracles import oracle, sql, tables
from tests.small import agree
from tests.small.histories import TIMES, cuts, histories
from tests.small.portions import oracles_agree, with_deletes
from tests.small.walk import WrongError


def test_every_history_is_there_once() -> None:
    assert list(cuts(1, 1)) == [((0, 1), (1, 0)), ((1, 0), (0, 1)), ((1, 1),)]
    # 7 symbols would be 49 contents: of one partition in 2 cuts each, of two in 3; those of more than one batch may be
    # a backlog, too.
    found = list(histories(TIMES, 2, least=2))
    assert len(found) == len(set(found)) == 36 * (2 + 2 + 3 + 2)


@pytest.mark.parametrize("strategy", agree.STRATEGIES)
def test_W1_W2_W5_W6_C2_C3_C4_B1_B2_B3_both_oracles_say_the_same(strategy: str) -> None:
    """Of up to two rows of all times, and of three where every relation of a row to the watermark occurs."""
    times = [*histories(TIMES, 2), *histories((0, 1, 2), 3, least=3)]
    counted = oracles_agree([agree.World(history, strategy) for history in times], as_tables=False)
    assert counted.worlds > 2_000


def test_T1_T2_T4_both_oracles_say_the_same() -> None:
    worlds = [world for history in histories((0, 1, 2), 3) for world in with_deletes(history)]
    assert oracles_agree(worlds, as_tables=True).worlds > 5_000


@pytest.mark.parametrize(
    ("rule", "statement", "said", "instead"),
    [
        ("W1 W2 W5", "_JUDGED", "e.t < mark", "e.t <= mark"),
        ("W1 W2 W5", "_JUDGED", "THEN greatest(w1, offered)", "THEN offered"),
        ("W6", "_JUDGED", "greatest(g, least(", "greatest(g, greatest("),
        ("C4", "_JUDGED", "least(CASE WHEN in0 THEN w0 END, CASE WHEN in1 THEN w1 END)", "w0"),
    ],
)
def test_a_defect_in_an_oracle_is_noticed(
    monkeypatch: pytest.MonkeyPatch, rule: str, statement: str, said: str, instead: str
) -> None:
    text = getattr(sql, statement)
    assert said in text
    monkeypatch.setattr(sql, statement, text.replace(said, instead))
    with pytest.raises(WrongError, match=rule):
        oracles_agree([agree.World(history, "ahead") for history in histories((0, 1, 2), 3)], as_tables=False)


def test_a_defect_in_the_oracle_of_tables_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "lag(t) OVER own <= bar"
    assert said in sql._LIVES
    monkeypatch.setattr(sql, "_LIVES", sql._LIVES.replace(said, "lag(t) OVER own < bar"))
    worlds = [world for history in histories((0, 1, 2), 3) for world in with_deletes(history)]
    with pytest.raises(WrongError, match="T2"):
        oracles_agree(worlds, as_tables=True)


def test_the_oracle_in_SQL_shares_nothing_with_the_other_one() -> None:
    assert oracle.__file__ != sql.__file__ != tables.__file__
    imported = set()
    for node in ast.walk(ast.parse(Path(sql.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    others = {name.split(".")[0] for name in imported} - set(sys.stdlib_module_names)
    assert others == {"duckdb", "pyarrow"}
