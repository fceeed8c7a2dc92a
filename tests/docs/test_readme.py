"""The newcomer's path is a test: what the README shows is what happens."""

from __future__ import annotations

import io
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT, Workbench
from tests.support.flights import year
from tidegate import TidegateError
from tidegate.console import LinesConsole, Table

if TYPE_CHECKING:
    from tidegate.runtime.result import Result

README = (ROOT / "README.md").read_text(encoding="utf-8")


def block_after(marker: str, kind: str = "") -> str:
    """The first fenced block of a kind after a text."""
    match = re.search(rf"```{kind}\n(.*?)```", README[README.index(marker) :], re.DOTALL)
    assert match is not None
    return match.group(1)


def shown(results: list[Result]) -> str:
    out = io.StringIO()
    console = LinesConsole(out)
    for result in results:
        if result.has_rows:
            names, types = zip(*result.columns, strict=True)
            console.table(Table(names, result.rows(), types=types))
        else:
            console.document({}, result.message or "")
    return out.getvalue()


def test_the_five_lines_give_the_output_beside_them(workbench: Workbench) -> None:
    sql = block_after("<!-- executed by", "sql")
    # The block right after the SQL is its output.
    expected = README[README.index(sql) + len(sql) :].split("```\n")[2]
    assert shown(list(workbench.session().execute_all(sql))) == expected


def test_the_error_is_the_one_that_people_get(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(block_after("<!-- executed by", "sql").partition("CREATE MATERIALIZED")[0])
    bad = (
        "CREATE MATERIALIZED VIEW v AS\nSELECT window_start, count(*) AS n\n"
        "FROM TUMBLE(orders, tz, INTERVAL '1 minute')\nGROUP BY window_start EMIT ON WINDOW CLOSE;"
    )
    with pytest.raises(TidegateError) as caught:
        list(session.execute_all(bad, file="bad.sql"))
    assert str(caught.value) == block_after("reports a mistake with its place").rstrip("\n")


@pytest.mark.medium
def test_the_demos_numbers_are_those_of_the_independent_computation() -> None:
    expected = year()
    late = sum(expected.late.values())
    line = f"{expected.rows:,} rows = {expected.rows - late:,} on time + {late:,} late + 0 rejected: all counts agree"
    assert line in README
    for origin, count in expected.late.items():
        assert re.search(rf"^{origin} .* {count} .*{expected.watermarks[origin]}$", README, re.MULTILINE)


def test_every_make_target_and_file_that_is_named_is_there() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in set(re.findall(r"`?make ([a-z]+)", README)):
        assert re.search(rf"make {target}\b", listed) or target == "help", target
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link
