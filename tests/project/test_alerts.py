"""`alerts:` and `stalls:` of jobs/*.yaml: strict, with places; secrets only as variables, expanded only to send."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tidegate.errors import TidegateError
from tidegate.project import Project
from tidegate.project.jobs.alerts import Target
from tidegate.project.jobs.jobs import load_jobs
from tidegate.project.jobs.stalls import StallLimits
from tidegate.sql.catalog.lineage import computed

ASSET = "CREATE TABLE orders (t TIMESTAMP, WATERMARK FOR t AS t) APPEND ONLY;"


def jobs(root: Path, text: str, name: str = "alerts") -> Path:
    (root / "assets").mkdir(exist_ok=True)
    (root / "assets" / "orders.sql").write_text(ASSET)
    (root / "jobs").mkdir(exist_ok=True)
    (root / "jobs" / f"{name}.yaml").write_text(text)
    return root


def refused(root: Path, text: str) -> TidegateError:
    def check() -> None:
        project = Project.load(jobs(root, text))
        names = [o.name for o in computed(project.catalog())]
        project.jobs().check(names, names, [])

    with pytest.raises(TidegateError) as caught:
        check()
    return caught.value


def test_secrets_are_not_needed_to_read_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACK_TOKEN", raising=False)
    text = "alerts:\n  targets:\n    - {name: team, url: 'slack://${SLACK_TOKEN}/#data'}\n  routes: [{to: [team]}]\n"
    alerts = load_jobs(jobs(tmp_path, text)).alerts
    assert alerts is not None
    [target] = alerts.targets
    assert (target.url, target.service) == ("slack://${SLACK_TOKEN}/#data", "slack")
    with pytest.raises(TidegateError, match="SLACK_TOKEN is not set"):
        target.expanded()
    expanded = target.expanded({"SLACK_TOKEN": "abc"})
    assert (str(expanded), repr(expanded)) == ("slack://abc/#data", "'***'")


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1/B2/c3",
        "pagerduty://key@me",
        "https://hooks.example.com/services/T/B/x",
        "mailto://user:password@example.com",
        "json://host/x?token=abc",
        "json://host/x?-X-Key=abc",
        "jsons://user:pw@host/x",
        "not a url",
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(tmp_path: Path, url: str) -> None:
    error = refused(tmp_path, f"alerts:\n  targets: [{{name: team, url: '{url}'}}]\n")
    code = "TG605" if url == "not a url" else "TG410"
    assert (error.code, error.location is not None) == (code, True)
    assert url not in str(error)
    assert url not in error.message
    assert "${" in (error.hint or "")


@pytest.mark.parametrize(
    "url",
    [
        "json://localhost:8080/x",
        "mailto://${USER}:${PASSWORD}@example.com",
        "${ALERT_URL}",
        "tgram://${BOT}/${CHAT}",
    ],
)
def test_urls_that_hold_no_secret_are_taken(url: str) -> None:
    assert Target(name="team", url=url).url == url


@pytest.mark.parametrize(
    ("text", "code", "message", "hint"),
    [
        ("alerts:\n  target: []\n", "TG604", 'unknown key "alerts.target"', 'did you mean "targets"?'),
        ("alerts:\n  routes: [{to: [team]}]\n", "TG609", 'no target "team"', "known: none"),
        (
            "alerts:\n  targets: [{name: t, url: 'json://h'}]\n  routes: [{to: [t], assets: [oders]}]\n",
            "TG609",
            'no asset "oders"',
            'did you mean "orders"?',
        ),
        (
            "alerts:\n  targets: [{name: t, url: 'json://h'}]\n  routes: [{to: [t], kinds: [al_late]}]\n",
            "TG605",
            'no cause "al_late"',
            'did you mean "all_late"?',
        ),
        (
            "alerts:\n  targets: [{name: t, url: 'json://h'}, {name: t, url: 'json://h'}]\n",
            "TG605",
            'target "t" is given twice',
            "give it another name",
        ),
        (
            "alerts: {targets: [{name: t, url: 'json://h'}], routes: [{to: [t], quiet: {from: 22, until: '07:00'}}]}\n",
            "TG605",
            "string",
            None,
        ),
        (
            "alerts: {routes: [{to: [t], quiet: {from: '22:00', until: '7'}}]}\n",
            "TG605",
            "this must be a time of day",
            '"22:00"',
        ),
        (
            "alerts: {routes: [{to: [t], quiet: {from: '22:00', until: '07:00', timezone: Berlin}}]}\n",
            "TG605",
            'no time zone "Berlin"',
            "Europe/Berlin",
        ),
        ("stalls: [{asset: orders, silnt: 1 hour}]\n", "TG604", 'unknown key "stalls.0.silnt"', '"silent"'),
        ("stalls: [{asset: orders}]\n", "TG605", "sets no limit", "silent: 1 hour"),
        ("stalls: [{asset: ordrs, silent: 1 hour}]\n", "TG609", 'no asset "ordrs"', '"orders"'),
        ("stalls: [{asset: '*', ignore: [idel]}]\n", "TG605", 'no cause "idel"', '"idle"'),
    ],
)
def test_mistakes_are_placed_and_explained(
    tmp_path: Path, text: str, code: str, message: str, hint: str | None
) -> None:
    error = refused(tmp_path, text)
    assert (error.code, message in error.message, error.location is not None) == (code, True, True)
    assert hint is None or hint in (error.hint or "")


def test_one_file_has_the_alerts(tmp_path: Path) -> None:
    jobs(tmp_path, "alerts: {}\n", "a")
    error = refused(tmp_path, "alerts: {}\n")
    assert (error.code, error.message) == ("TG609", "alerts are also defined in jobs/a.yaml")


def test_the_examples_in_the_comments_of_jobs_alerts_hold(tmp_path: Path) -> None:
    lines, example = [], False
    for line in (ROOT / "jobs" / "alerts.yaml").read_text(encoding="utf-8").splitlines():
        example = (example or line in ("# stalls:", "# alerts:")) and line.startswith("# ")
        lines.append(line.removeprefix("# ") if example else line)
    found = load_jobs(jobs(tmp_path, "\n".join(lines)))
    assert found.alerts is not None
    assert [t.name for t in found.alerts.targets] == ["team", "on_call", "archive"]
    # What the comments call the default is the default.
    everywhere, defaults = found.stalls[0], StallLimits()
    given = everywhere.model_dump(exclude={"asset", "ignore", "not_running", "idle"})
    assert given == {name: getattr(defaults, name) for name in given}
