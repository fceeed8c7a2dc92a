"""docs/testing.md shows what happens: its file is run, its output compared, its bad file refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tidegate.cli.progress import FileProgress
from tidegate.console import CaptureConsole
from tidegate.errors import TidegateError
from tidegate.testing.files import load
from tidegate.testing.parser import parse
from tidegate.testing.runner import Options, run_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)


def timeless(text: str) -> str:
    return re.sub(r"\(\d+\.\d s\)", "(… s)", text)


def test_the_file_gives_the_output_below_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("clicks.slt")
    file.write_text(BLOCKS[0])
    console = CaptureConsole()
    progress = FileProgress(console, color=False)
    reports = run_files(spark, [(file, load(file))], Options(), progress.file)
    progress.summary(reports, not_run=0)
    shown = "\n".join(text for _, text in console.documents)
    assert timeless(f"$ tidegate test clicks.slt\n{shown}\n") == timeless(BLOCKS[1])


def test_the_bad_file_is_refused_as_shown() -> None:
    bad = BLOCKS[2]
    line = re.search(r"^\d+ \| (.*)$", bad, re.MULTILINE)
    assert line is not None
    with pytest.raises(TidegateError) as caught:
        parse(f"\n\n{line[1]}\nSELECT 1\n", "clicks.slt")
    assert f"{caught.value}\n" == bad


def test_every_record_is_in_the_table() -> None:
    from tidegate.testing.parser import _DIRECTIVES

    table = PAGE[PAGE.index("| record") : PAGE.index("## How rows are compared")]
    for word in _DIRECTIVES:
        assert re.search(rf"`{word}\b", table), word
