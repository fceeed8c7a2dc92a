"""`tidegate test` as a command: options, exit codes, what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidegate.testing import records as r
from tidegate.testing.outcome import FileReport, RecordOutcome
from tidegate.testing.runner import Options

Call = Callable[..., Any]

GOOD = "statement ok\nSELECT 1\n"
BAD = "query I\nSELECT 1\n----\n2\n\nstatement ok\nSELECT 3\n"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files, and a runner without Spark: a query fails, a statement passes."""

    def run_files(
        spark: object,
        files: Sequence[tuple[Path, list[r.Record]]],
        options: Options,
        on_file: Callable[[FileReport], None],
    ) -> list[FileReport]:
        reports, left = [], options.stop_after
        for path, records in files:
            report = FileReport(path, seconds=1.5)
            for record in records:
                assert isinstance(record, r.Sql)
                fails = isinstance(record, r.QueryRecord)
                diff = "--- expected\n+++ actual\n-2\n+1"
                report.outcomes.append(
                    RecordOutcome(record, "failed", 0.5, record.sql, "the rows are not as expected", diff)
                    if fails
                    else RecordOutcome(record, "passed", 0.5, record.sql)
                )
            reports.append(report)
            on_file(report)
            if left is not None and sum(len(x.failures) for x in reports) >= left:
                break
        return reports

    monkeypatch.setattr("tidegate.testing.runner.run_files", run_files)
    monkeypatch.setattr("tidegate.cli.commands.project.test._spark", lambda call: None)
    folder = tmp_path / "tests"
    folder.mkdir()
    for name, text in (("a_bad", BAD), ("b_bad", BAD), ("c_good", GOOD)):
        (folder / f"{name}.slt").write_text(text)
    return folder


def test_what_failed_is_shown_with_its_place(tidegate: Call, files: Path) -> None:
    result = tidegate("test", str(files))
    assert result.exit_code == 1
    assert f"✓ {files}/c_good.slt: 1 passed (1.5 s)" in result.stdout
    assert (
        f"\n{files}/a_bad.slt:1: query I\n    SELECT 1\n    the rows are not as expected\n" in result.stdout
    )
    assert "    -2\n    +1\n" in result.stdout
    assert result.stdout.splitlines()[-1] == "3 files, 2 failed; 5 records: 3 passed, 2 failed (4.5 s)"


def test_everything_passes(tidegate: Call, files: Path) -> None:
    result = tidegate("test", str(files / "c_good.slt"))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        "1 file, all passed; 1 record: 1 passed (1.5 s)",
    )


def test_which_files_and_when_to_stop(tidegate: Call, files: Path) -> None:
    assert tidegate("test", str(files), "-k", "GOOD").exit_code == 0
    nothing = tidegate("test", str(files), "-k", "nothing")
    assert (nothing.exit_code, "no file has" in nothing.stderr) == (1, True)
    for options in (["-x"], ["--fail-fast"], ["--bail", "1"]):
        assert "; 2 files were not run" in tidegate("test", str(files), *options).stdout
    assert "; 1 file was not run" in tidegate("test", str(files), "--bail", "2").stdout


def test_json_and_junit(tidegate: Call, files: Path, tmp_path: Path) -> None:
    report = tmp_path / "out" / "report.xml"
    result = tidegate("test", str(files), "--json", "--junit", str(report))
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("failed") for line in lines] == [1, 1, 0, 2]
    assert lines[0]["failures"][0]["line"] == 1
    assert lines[-1] == {
        **{
            "event": "summary",
            "files": 3,
            "records": 5,
            "passed": 3,
            "failed": 2,
            "updated": 0,
            "skipped": 0,
        },
        **{"seconds": 4.5, "not_run": 0},
    }
    assert report.read_text().count("<testcase") == 5


def test_a_file_that_is_no_test_file_is_found_before_spark_starts(
    tidegate: Call, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(call: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("tidegate.cli.commands.project.test._spark", start)
    (files / "d.slt").write_text("statment ok\nSELECT 1\n")
    result = tidegate("test", str(files))
    assert (result.exit_code, "error TG802" in result.stderr) == (2, True)
    assert f"{files / 'd.slt'}:1:1" in result.stderr
    missing = tidegate("test", str(files / "nowhere.slt"))
    assert (missing.exit_code, "error TG801" in missing.stderr) == (2, True)
