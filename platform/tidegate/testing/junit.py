"""Reports in JUnit's XML, which every CI system reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from tidegate.testing.outcome import FileReport, RecordOutcome

# What XML 1.0 can't hold at all.
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(reports: Sequence[FileReport], path: Path) -> None:
    """One suite for each file, one case for each record that runs SQL."""
    root = ET.Element("testsuites", name="tidegate test")
    for report in reports:
        suite = ET.SubElement(
            root,
            "testsuite",
            name=str(report.path),
            tests=str(len(report.outcomes)),
            failures=str(report.count("failed")),
            skipped=str(report.count("skipped")),
            errors="0",
            time=f"{report.seconds:.3f}",
        )
        for outcome in report.outcomes:
            _case(suite, outcome)
    ET.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _case(suite: ET.Element, outcome: RecordOutcome) -> None:
    record = outcome.record
    first = _clean((outcome.sql or record.text).strip().partition("\n")[0])
    case = ET.SubElement(
        suite,
        "testcase",
        name=f"line {record.line}: {first}",
        classname=re.sub(r"\.slt$", "", record.file).strip("./").replace("/", "."),
        file=record.file,
        line=str(record.line),
        time=f"{outcome.seconds:.3f}",
    )
    if outcome.status == "failed":
        failure = ET.SubElement(case, "failure", message=_clean(outcome.message.partition("\n")[0]))
        parts = (f"{record.file}:{record.line}", outcome.sql, outcome.message, outcome.diff)
        failure.text = _clean("\n".join(part for part in parts if part))
    elif outcome.status == "skipped":
        ET.SubElement(case, "skipped", message=outcome.message)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
