"""The console blocks of docs/install.md and docs/changing.md are run in a new project, and print what stands there."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.docs.test_tutorial import BLOCK, calls, fits, tidegate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(page: str) -> list[str]:
    """Run the page's executed block in the working directory; the commands that there were."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (block,) = [m["text"] for m in BLOCK.finditer(text) if (m["mark"] or "").startswith("executed by")]
    seen = []
    for words, shown in calls(block):
        seen.append(" ".join(words[:2]))
        if words[0] == "tidegate":
            real = tidegate(words)
            assert fits(shown, real), f"{' '.join(words)}\n{real}"
        else:
            assert words[0] == "sed"
            subprocess.run(words, check=True)
    return seen


@pytest.mark.jvm
def test_the_page_about_installing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tidegate(["tidegate", "init", "shop"])
    monkeypatch.chdir(tmp_path / "shop")
    assert run("install.md") == ["tidegate doctor"]


def test_the_page_about_changing_a_definition(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tidegate(["tidegate", "init", "shop"])
    monkeypatch.chdir(tmp_path / "shop")
    seen = run("changing.md")
    assert seen == ["tidegate run", "sed -i.bak", "tidegate check", "tidegate rebuild", "tidegate sql"]
