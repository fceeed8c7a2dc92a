"""`alerts:` of `jobs/*.yaml`: who is told of which findings, when, and how often."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from tidegate.confidential import VARIABLE, variables
from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.jobs.stalls import known_kinds
from tidegate.project.reading.durations import format_duration
from tidegate.project.reading.strict import PlainName, Seconds, StrictModel, ZoneName, refuse
from tidegate.project.reading.variables import Listed, expand

if TYPE_CHECKING:
    from tidegate.project.reading.yamlfile import Path_, YamlFile

Severity = Literal["info", "warning", "error"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

#: Services whose URL need not hold a secret: webhooks, and mail through a server that asks for none.
_OPEN = ("json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos", "syslog", "dbus", "gnome")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SECRET_HINT = "put secrets into variables: url: slack://${SLACK_TOKEN}/#data"


class Target(StrictModel):
    """Where messages go: a URL of apprise (Slack, e-mail, PagerDuty, a webhook, …)."""

    name: PlainName
    """Name that routes use."""

    url: str
    """URL as apprise has it, with every secret as `${NAME}`: expanded when a message is sent, and kept nowhere."""

    @field_validator("url")
    @classmethod
    def _no_secrets(cls, url: str) -> str:
        # What is told of it never repeats it: it may be a secret after all.
        found = _SCHEME.fullmatch(url)
        if found is None:
            if VARIABLE.fullmatch(url):
                return url
            raise refuse(
                "this is not a URL that apprise knows",
                hint="write for example json://host:port/path, or ${ALERT_URL}",
            )
        scheme, rest = found.group(1).lower(), found.group(2)
        bare = VARIABLE.sub("", rest)
        if scheme not in _OPEN and bare == rest:
            raise refuse(
                f"a {scheme}:// URL is a secret, which everybody who reads this file can see",
                code="TG410",
                hint=_SECRET_HINT,
            )
        user, at, _ = rest.split("/")[0].rpartition("@")
        password = user.partition(":")[2]
        if at and password and not VARIABLE.search(password):
            raise refuse(
                "everybody who reads this file can see this password", code="TG410", hint=_SECRET_HINT
            )
        if re.search(r"[?&](?:[\w.+-]*(?:pass|token|key|secret|auth)[\w.-]*)=(?!\$\{)", rest, re.IGNORECASE):
            raise refuse("everybody who reads this file can see this secret", code="TG410", hint=_SECRET_HINT)
        return url

    def expanded(self, environ: Mapping[str, str] | None = None) -> str:
        """The URL with its secrets. Raises TG606 for a variable that is not set."""
        return expand(self.url, environ, secret=True)

    @property
    def service(self) -> str:
        """What may be shown of it: the scheme, or that it is in the environment."""
        found = _SCHEME.fullmatch(self.url)
        return found.group(1).lower() if found else "(of the environment)"


class Quiet(StrictModel):
    """Hours in which a route holds back: what still is when they end is told then, and what came and went, too."""

    since: str = Field(alias="from")
    """When they begin, as `22:00`."""

    until: str
    """When they end, as `07:00`; earlier than `from`: the next day. The same as `from`: the whole day."""

    timezone: ZoneName = "UTC"
    """Time zone of both, such as `Europe/Berlin`."""

    days: list[Day] = Field(default_factory=lambda: list(DAYS))
    """On which days they begin (mon, tue, …); every day if left out."""

    lets_through: Literal["error", "none"] = "error"
    """`error`: errors are still sent; `none`: nothing is sent."""

    @field_validator("since", "until")
    @classmethod
    def _is_time(cls, text: str) -> str:
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
            raise refuse("this must be a time of day", hint='write it in quotes, as "22:00"')
        return text

    def at(self, now: datetime) -> bool:
        """Whether they are on at this instant (with a time zone)."""
        local = now.astimezone(ZoneInfo(self.timezone))
        begin, end = time.fromisoformat(self.since), time.fromisoformat(self.until)
        clock = local.time()
        today, yesterday = DAYS[local.weekday()], DAYS[(local - timedelta(days=1)).weekday()]
        if begin < end:
            return begin <= clock < end and today in self.days
        return (clock >= begin and today in self.days) or (clock < end and yesterday in self.days)


class Route(StrictModel):
    """Which findings go where. A finding goes down every route that takes it."""

    to: list[str]
    """Names of targets."""

    severity: Severity = "warning"
    """The least severity: info, warning or error."""

    kinds: list[str] | Literal["*"] = "*"
    """Causes (`tidegate why --json` shows their names; `run_failed` for runs), or `*`."""

    assets: list[str] | Literal["*"] = "*"
    """Names of sources, tables and views, or `*`. Failed runs have those that they were to bring up to date."""

    repeat_after: Seconds | None = None
    """Time after which an alert is sent again while its cause still exists; without it, an alert is sent once."""

    settle: Seconds = 300
    """How long a cause must be absent before it has ended: a cause that comes and goes is then reported once."""

    recovery: bool = True
    """Whether a message is sent when a cause has ended."""

    quiet: Quiet | None = None
    """Hours in which this route sends nothing."""

    @field_validator("kinds")
    @classmethod
    def _kinds(cls, kinds: list[str] | str) -> list[str] | str:
        return known_kinds(kinds) if isinstance(kinds, list) else kinds

    @field_validator("to")
    @classmethod
    def _somewhere(cls, to: list[str]) -> list[str]:
        if not to:
            raise refuse("has no targets", hint="add the names of targets")
        return to

    def describe(self) -> str:
        """In one line."""
        parts = [f"{self.severity} and worse"]
        parts += [] if self.kinds == "*" else [f"of {', '.join(self.kinds)}"]
        parts += [] if self.assets == "*" else [f"about {', '.join(self.assets)}"]
        if self.repeat_after is not None:
            parts.append(f"again after {format_duration(self.repeat_after)}")
        if self.quiet is not None:
            parts.append(f"quiet {self.quiet.since}–{self.quiet.until} {self.quiet.timezone}")
        return ", ".join(parts)


class Alerts(StrictModel):
    """Targets and routes. One file of `jobs/` may have it."""

    targets: list[Target] = Field(default_factory=list)
    """Where messages can go."""

    routes: list[Route] = Field(default_factory=list)
    """Which causes are sent to which targets."""

    give_up_after: Seconds = 86_400
    """How long a message is tried again while its target is down; then it is dropped, and a later message says so."""

    dry_run: bool = False
    """`true`: messages are not sent, but written into the log of the sensor."""

    ui: str | None = None
    """Address of Dagster's UI, such as `https://dagster.example.com`: messages about runs link to it."""

    @model_validator(mode="after")
    def _unique(self) -> Alerts:
        names = [t.name for t in self.targets]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice:
            raise refuse(f'target "{twice}" is given twice', hint="give it another name")
        return self

    def target(self, name: str) -> Target | None:
        """The target of this name."""
        return next((t for t in self.targets if t.name == name), None)

    def reach(self, file: YamlFile, environ: Listed) -> None:
        """Raise TG614 for a target that uses a variable that is not listed (X1): its address could bring any secret of
        the process to anybody."""
        for i, target in enumerate(self.targets):
            for name in variables(target.url):
                place = file.locate(("alerts", "targets", i, "url"))
                if (refused := environ.refused(name, place, of_alerts=True)) is not None:
                    raise refused

    def check(self, assets: list[str], file: YamlFile) -> None:
        """Raise TG609 for a route to a target, or about an asset, that is not there."""
        targets = [t.name for t in self.targets]
        for i, route in enumerate(self.routes):
            for field, names, known, what in (
                ("to", route.to, targets, "target"),
                ("assets", route.assets, assets, "asset"),
            ):
                for j, name in enumerate(names if names != "*" else []):
                    if name not in known:
                        hint = did_you_mean(name, known) or f"known: {', '.join(sorted(known)) or 'none'}"
                        place = ("alerts", "routes", i, field, j)
                        raise TidegateError(
                            "TG609", f'no {what} "{name}"', hint=hint, location=file.locate(place)
                        )


def is_target_url(path: Path_) -> bool:
    """Whether the value at this place of a file is a target's URL: its variables are expanded when a message is sent,
    so that nobody else needs them."""
    return len(path) == 4 and path[:2] == ("alerts", "targets") and path[3] == "url"
