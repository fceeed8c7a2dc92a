"""The prompt in a real pseudo-terminal: what a person sees and what their keys do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.conftest import ROOT

pytestmark = pytest.mark.medium

UP, ENTER, TAB, CTRL_C, CTRL_D = "\x1b[A", "\r", "\t", "\x03", "\x04"

Open = Callable[[], Terminal]


@pytest.fixture
def opened(shop: Path) -> Iterator[Open]:
    """Open the prompt on the project; closed at the end of the test."""
    terminals: list[Terminal] = []

    def start() -> Terminal:
        script = str(ROOT / "tests" / "cli" / "prompting.py")
        path = os.pathsep.join([str(ROOT / "platform"), str(ROOT)])
        terminal = Terminal([sys.executable, script, str(shop)], shop, PYTHONPATH=path)
        terminals.append(terminal)
        terminal.expect("tidegate>")
        return terminal

    yield start
    for terminal in terminals:
        terminal.__exit__(None, None, None)


def test_a_statement_may_span_lines_and_runs_at_its_semicolon(opened: Open) -> None:
    terminal = opened()
    terminal.type(f"SELECT order_id{ENTER}").expect(r"\.\.\.")
    terminal.type(f"FROM orders LIMIT 3{ENTER}").expect(r"\.\.\.")
    terminal.type(f";{ENTER}").expect(r"column_0\s+─+\s+0\s+1\s+2\s+\(3 rows\)")
    terminal.expect("tidegate>")
    assert terminal.type(f"\\q{ENTER}").ends() == 0


def test_tab_completes_the_name_of_a_table(opened: Open) -> None:
    terminal = opened()
    terminal.type(f"SELECT * FROM orders_d{TAB}").expect("orders_daily")
    terminal.type(f" LIMIT 2;{ENTER}").expect(r"\(2 rows\)")


def test_history_outlives_the_prompt(opened: Open) -> None:
    first = opened()
    first.type(f"SELECT order_id{ENTER}FROM orders LIMIT 4;{ENTER}").expect(r"\(4 rows\)")
    first.expect("tidegate>")
    assert first.type(CTRL_D).ends() == 0
    second = opened()
    second.type(UP).expect("FROM orders LIMIT 4;")
    second.type(ENTER).expect(r"\(4 rows\)")


def test_an_error_has_a_caret_and_the_prompt_goes_on(opened: Open) -> None:
    terminal = opened()
    terminal.type(f"SELECT order_idd FROM orders;{ENTER}").expect("error TG202")
    terminal.expect(r"1 \| SELECT order_idd FROM orders;\s+\^{9}\s+hint: did you mean \"order_id\"\?")
    terminal.expect("tidegate>")
    terminal.type(f"SELECT 1 LIMIT 5;{ENTER}").expect(r"\(5 rows\)")


def test_ctrl_c_drops_what_was_typed(opened: Open) -> None:
    terminal = opened()
    terminal.type(f"SELECT nothing{ENTER}").expect(r"\.\.\.")
    terminal.type(CTRL_C).expect("tidegate>")
    terminal.type(f"SELECT 1 LIMIT 6;{ENTER}").expect(r"\(6 rows\)")


def test_ctrl_c_stops_the_statement_that_runs_and_nothing_else(opened: Open) -> None:
    terminal = opened()
    terminal.type(f"SELECT 1 LIMIT 98;{ENTER}").expect(r"\(98 rows\)")
    terminal.expect("tidegate>")
    terminal.type(f"SELECT 1 LIMIT 99;{ENTER}").expect("running")
    terminal.type(CTRL_C).expect("jobs cancelled")
    terminal.expect("interrupted; what was committed is kept")
    terminal.expect("tidegate>")
    terminal.type(f"SELECT 1 LIMIT 7;{ENTER}").expect(r"\(7 rows\)")


def test_tables_fit_the_terminal(opened: Open) -> None:
    terminal = opened()
    terminal.type(f"SELECT 1 AS wide LIMIT 1;{ENTER}").expect(
        r"\(1 row; \d+ of 30 columns are hidden: \\x shows them\)"
    )
    terminal.expect("tidegate>")
    lines = terminal.text[terminal.text.index("column_0") :].splitlines()
    assert max(map(len, lines)) <= 100
    terminal.type(f"\\x{ENTER}").expect("rows as blocks")
    terminal.expect("tidegate>")
    terminal.type(f"SELECT 1 AS wide LIMIT 1;{ENTER}").expect(r"── row 1 ──(\s+column_\d+\s+0)+\s+\(1 row\)")


def test_timing(opened: Open) -> None:
    terminal = opened()
    terminal.type(f"\\timing{ENTER}").expect("timing is on")
    terminal.expect("tidegate>")
    terminal.type(f"SELECT 1;{ENTER}").expect(r"\(1 row\)\s+time: [\d,]+ ms")
