"""Every tests/sql/**/*.slt through the runner of `tidegate test`, on the runner without a JVM, and on Spark where Sail
answers otherwise, or where what Spark's SQL means is the rule.

A new file is found by itself. Those in must_fail prove that the runner notices what is wrong: `# must fail: text`
stands above every record that has to fail and say so; all others have to pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.conftest import ROOT, SPARK
from tidegate.testing import junit
from tidegate.testing.files import load
from tidegate.testing.outcome import FileReport
from tidegate.testing.runner import Options, run_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
MUST_FAIL = sorted((HERE / "must_fail").glob("*.slt"))
#: Ours, and the one that `tidegate init` writes.
TEMPLATE = ROOT / "platform" / "tidegate" / "cli" / "template" / "tests"
FILES = sorted({*HERE.rglob("*.slt"), *TEMPLATE.glob("*.slt")} - set(MUST_FAIL))

#: C7 is what Spark's expressions mean; to Sail a TIMESTAMPTZ has no zone, and there are no sinks into Iceberg. The
#: longest of them are of `make property`.
ON_SPARK = {
    *("A1_adds_up", "C7_exact", "D1_derivation", "D2_joins", "D2_time_zones", "types"),
    *("sinks", "rfc_watermark_filter"),
}
LONG = {"D1_derivation", "D2_joins", "D2_time_zones", "sinks"}

Play = Callable[..., FileReport]


@pytest.fixture
def play(runner: str, request: pytest.FixtureRequest) -> Play:
    """Run one file; pauses are not slept."""
    spark: SparkSession | None = request.getfixturevalue("spark") if runner == SPARK else None

    def run(
        path: Path, sleep: Callable[[float], None] = lambda seconds: None, **options: object
    ) -> FileReport:
        from tests.inprocess.session import session_on

        session = session_on if spark is None else None
        chosen = Options(sleep=sleep, session=session, **options)  # type: ignore[arg-type]
        return run_files(spark, [(path, load(path))], chosen)[0]

    return run


def named(path: Path) -> str:
    return "/".join(path.parts[-2:])


@pytest.mark.runner("inprocess")
@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in ON_SPARK], ids=named)
def test_file(path: Path, play: Play) -> None:
    all_pass(path, play)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.long_run if path.stem in LONG else ())
        for path in FILES
        if path.stem in ON_SPARK
    ],
    ids=named,
)
def test_file_on_spark(path: Path, play: Play) -> None:
    all_pass(path, play)


def all_pass(path: Path, play: Play) -> None:
    report = play(path)
    told = [f"{o.record.file}:{o.record.line}\n{o.sql}\n{o.message}\n{o.diff}" for o in report.failures]
    assert not told, "\n\n".join(told)
    assert report.count("passed")


@pytest.mark.parametrize("path", MUST_FAIL, ids=lambda path: path.stem)
def test_what_must_fail_fails_and_says_why(path: Path, play: Play) -> None:
    lines = path.read_text("utf-8").splitlines()
    wanted = {i + 2: m[1] for i, line in enumerate(lines) if (m := re.fullmatch("# must fail: (.*)", line))}
    report = play(path)
    told = {o.record.line: f"{o.message}\n{o.diff}" for o in report.failures}
    assert sorted(told) == sorted(wanted)
    for line, text in wanted.items():
        assert text in told[line], line
    assert report.count("passed")


def test_errors_of_sql_point_into_the_test_file(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "a.slt"
    file.write_text("# one\n\nstatement ok\nSELECT\n  nope\n")
    failure = play(file).failures[0]
    assert f"{file}:5:3" in failure.message
    assert failure.record.line == 3


def test_update_writes_what_queries_gave(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "a.slt"
    file.write_text(
        "query I\nSELECT 1\n----\n2\n\nquery T rowsort\nVALUES ('b c'), ('a')\n\nstatement ok\nSELECT nope\n"
    )
    report = play(file, update=True)
    assert [o.status for o in report.outcomes] == ["updated", "updated", "failed"]
    assert file.read_text() == (
        "query I\nSELECT 1\n----\n1\n\nquery T rowsort\nVALUES ('b c'), ('a')\n----\na\nb c\n\n"
        "statement ok\nSELECT nope\n"
    )
    assert [o.status for o in play(file).outcomes] == ["passed", "passed", "failed"]


def test_a_long_result_is_a_hash(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "a.slt"
    file.write_text("hash-threshold 2\n\nquery I\nVALUES (1), (2), (3)\n----\n")
    assert play(file, update=True).count("updated") == 1
    assert "3 values hashing to c0710d6b4f15dfa88f600b0e6b624077" in file.read_text()
    assert play(file).count("passed") == 1


def test_stopping_conditions_and_skipped_records(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "a.slt"
    file.write_text(
        "skipif tidegate\nstatement ok\nSELECT nope\n\nonlyif postgres\nquery I\nSELECT nope\n----\n\n"
        "onlyif tidegate\nstatement ok\nSELECT 1\n\nstatement ok\nSELECT a\n\nstatement ok\nSELECT b\n\n"
        "halt\n\nstatement ok\nSELECT c\n"
    )
    assert [o.status for o in play(file).outcomes] == ["skipped", "skipped", "passed", "failed", "failed"]
    assert [o.status for o in play(file, stop_after=1).outcomes][-2:] == ["passed", "failed"]


def test_variables_and_a_folder_for_each_file(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_TEST_WORD", "from outside")
    file = tmp_path / "a.slt"
    file.write_text(
        "control substitution on\n\nlet $a, b\nSELECT 1 + 1, 'x y'\n\nquery IT\nSELECT $a, '${b}'\n----\n2 x y\n\n"
        "query T\nSELECT '$TIDEGATE_TEST_WORD'\n----\nfrom outside\n\n"
        "query TTT\nSELECT '$__TEST_DIR__' LIKE '/%', length('$__NOW__') = 19, '$__DATABASE__' <> ''\n----\nt t t\n"
    )
    assert [o.status for o in play(file).outcomes] == ["passed"] * 4


def test_time_passes_sources_are_read(play: Play, tmp_path: Path) -> None:
    """What a server does while a test waits: `sleep` and the pause before a retry bring everything up to date."""
    slept: list[float] = []
    file = tmp_path / "a.slt"
    query = "query I{}\nSELECT count(*) FROM clicks\n----\n5\n"
    project = f"project {HERE / 'rules' / 'partitions'}\n\n"
    file.write_text(project + query.format("") + "\n" + query.format(" retry 3 backoff 2s"))
    assert [o.status for o in play(file, sleep=slept.append).outcomes] == ["failed", "passed"]
    file.write_text(project + "sleep 1m\n\n" + query.format(""))
    assert [o.status for o in play(file, sleep=slept.append).outcomes] == ["passed"]
    assert slept == [2.0, 60.0]


def test_reports(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "a.slt"
    file.write_text(
        "query T\nSELECT 'a\u0001<&'\n----\nb\n\nstatement ok\nSELECT 1\n\nskipif tidegate\nstatement ok\nX\n"
    )
    report = play(file)
    junit.write([report], tmp_path / "deep" / "report.xml")
    suite = ET.parse(tmp_path / "deep" / "report.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    failure = suite[0].find("failure")
    assert failure is not None
    assert "-b" in (failure.text or "")
    assert f"{file}:1" in (failure.text or "")
    data = json.loads(json.dumps(report.to_dict()))
    assert (data["passed"], data["failed"], data["failures"][0]["line"]) == (1, 1, 1)
