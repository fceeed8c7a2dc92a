"""`jobs/amendments.yaml`: strict, with places; `tidegate check` refuses what it can't mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.jobs.amendments import load_amendments

SQL = """
CREATE TABLE t (n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW m AS SELECT window_end, count(*) AS n FROM TUMBLE(t, ts, INTERVAL '1 minute')
GROUP BY window_end EMIT ON WINDOW CLOSE;
CREATE MATERIALIZED VIEW r AS SELECT ts, sum(n) OVER (ORDER BY ts) AS s FROM t EMIT ON WINDOW CLOSE;
"""


def check(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "assets").mkdir(exist_ok=True)
    (tmp_path / "assets" / "all.sql").write_text(SQL)
    (tmp_path / "jobs").mkdir(exist_ok=True)
    (tmp_path / "jobs" / "amendments.yaml").write_text(text)
    project = Project.load(tmp_path, "local")
    found = load_amendments(project.root)
    found.check(project.catalog(), {"taken": "another file in jobs/"})
    assert project.jobs().schedules == ()
    return [a.name for a in found.content.amendments]


def test_B2_a_schedule_for_amendments(tmp_path: Path) -> None:
    assert check(tmp_path, 'amendments:\n  - name: nightly\n    cron: "0 3 * * *"\n    select: [m]\n') == [
        "nightly"
    ]
    assert load_amendments(tmp_path / "elsewhere").content.amendments == []


@pytest.mark.parametrize(
    ("entry", "code", "said"),
    [
        ('name: a\n    cron: "0 3 * * *"\n    select: [mm]', "TG609", 'no view "mm"'),
        ('name: a\n    cron: "0 3 * * *"\n    select: [t]', "TG609", 'no view "t"'),
        ('name: a\n    cron: "0 3 * * *"\n    select: [r]', "TG609", "OVER"),
        ('name: taken\n    cron: "0 3 * * *"', "TG609", "another file"),
        ('name: a\n    cron: "sometimes"', "TG605", "cron"),
        ('name: a\n    cron: "0 3 * * *"\n    when: now', "TG604", "when"),
    ],
)
def test_what_is_refused(tmp_path: Path, entry: str, code: str, said: str) -> None:
    with pytest.raises(TidegateError) as caught:
        check(tmp_path, f"amendments:\n  - {entry}\n")
    assert caught.value.code == code
    assert said in str(caught.value)
    assert caught.value.location is not None
