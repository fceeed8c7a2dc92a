"""`jobs/*.yaml`: when assets are brought up to date, and from which watermark lag on somebody is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator, model_validator

from tidegate.errors import FAIL_FAST, Problems, TidegateError, did_you_mean
from tidegate.project.jobs.alerts import Alerts, is_target_url
from tidegate.project.jobs.live import LiveRun
from tidegate.project.jobs.stalls import Stall
from tidegate.project.reading.cron import check_cron
from tidegate.project.reading.strict import (
    PlainName,
    Seconds,
    Selected,
    StrictModel,
    ZoneName,
    refuse,
    validate,
)
from tidegate.project.reading.variables import Listed
from tidegate.project.reading.yamlfile import YamlFile, read_yaml
from tidegate.project.selection import is_plain, select

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog

#: The files of `jobs/` that have a shape of their own (`project/jobs/maintenance.py`, `project/jobs/amendments.py`).
MAINTENANCE, AMENDMENTS = "maintenance.yaml", "amendments.yaml"


class Times(StrictModel):
    """When something is brought up to date."""

    cron: str
    """Five cron fields (minute, hour, day of month, month, day of week), or an alias such as `@hourly`."""

    timezone: ZoneName = "UTC"
    """Time zone that the cron fields are in, such as `America/New_York`."""

    enabled: bool = True
    """Whether the schedule runs as soon as it is deployed; otherwise it is switched on in Dagster."""

    @field_validator("cron")
    @classmethod
    def _is_cron(cls, cron: str) -> str:
        try:
            check_cron(cron)
        except ValueError as error:
            raise refuse(
                str(error), hint='write for example "7 * * * *", for every hour at minute 7'
            ) from None
        return cron


class Schedule(Times):
    """Brings assets up to date at fixed times."""

    name: PlainName
    """Name of the schedule in Dagster: letters, digits and _."""

    select: Selected = "*"
    """Names of sources, views and sinks, or `*` for all of the project. A source brings its views and sinks up to date
    too. Anything else of the grammar of `--select` (`tag:finance`, `+orders_hourly`) means just what it says there."""


class Cleanup(Schedule):
    """Deletes expired rows of tables WITH TTL at fixed times (T2), and tidies the files of tables with a PRIMARY KEY.

    A run drops whole days by itself; this is for the rest, and for small files.
    """

    select: Selected = "*"
    """Names of tables with a PRIMARY KEY, or `*` for all of them."""


class Threshold(StrictModel):
    """From which lag of a source's watermark on the sensor raises an alarm."""

    source: str
    """Name of a source or table with a watermark, or `*` for all of them."""

    behind_newest: Seconds | None = None
    """Longest the watermark may trail the newest event time seen: a partition that holds the others back."""

    behind_clock: Seconds | None = None
    """Longest the watermark may trail the wall clock (UTC): rows that no longer arrive. Not for old data."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Threshold:
        if self.behind_newest is None and self.behind_clock is None:
            raise refuse("sets no limit", hint="add behind_newest: 2 hours, or behind_clock: 1 day")
        return self


class JobsFile(StrictModel):
    """One file of `jobs/`."""

    schedules: list[Schedule] = Field(default_factory=list)
    """When assets are brought up to date."""

    cleanups: list[Cleanup] = Field(default_factory=list)
    """When tables are cleaned up."""

    thresholds: list[Threshold] = Field(default_factory=list)
    """Limits of the watermark lag."""

    live: list[LiveRun] = Field(default_factory=list)
    """What is kept up to date all the time."""

    stalls: list[Stall] = Field(default_factory=list)
    """Limits from which a cause that keeps windows open is reported."""

    alerts: Alerts | None = None
    """Who receives alerts, and where."""

    quality: Times | None = None
    """When Dagster checks the quality of everything; the checks of an asset run with it in any case."""


@dataclass(frozen=True)
class Jobs:
    """All files of `jobs/` together, in file order. `files` keeps the places for `check`."""

    schedules: tuple[Schedule, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    files: tuple[tuple[YamlFile, JobsFile], ...] = ()
    cleanups: tuple[Cleanup, ...] = ()

    @property
    def stalls(self) -> tuple[Stall, ...]:
        """Limits of causes."""
        return tuple(stall for _, content in self.files for stall in content.stalls)

    @property
    def alerts(self) -> Alerts | None:
        """Targets and routes; None where nobody is to be told."""
        return next((content.alerts for _, content in self.files if content.alerts is not None), None)

    @property
    def quality(self) -> Times | None:
        """When the quality of everything is checked; None: nobody has said."""
        return next((content.quality for _, content in self.files if content.quality is not None), None)

    @property
    def live(self) -> tuple[LiveRun, ...]:
        """All live runs; `project.live_selection.check_live` checks what they select."""
        return tuple(run for _, content in self.files for run in content.live)

    def check(
        self, names: list[str], watermarked: list[str], keyed: list[str], problems: Problems = FAIL_FAST
    ) -> None:
        """Raise TG609 for a name that is not there: `names` of all assets, `watermarked` of relations, `keyed` of
        tables with a PRIMARY KEY. `problems` takes these down instead."""

        def known(*given: Any) -> None:
            with problems.caught():
                _require(*given)

        for file, content in self.files:
            for i, cleanup in enumerate(content.cleanups):
                for j, name in enumerate(cleanup.select if cleanup.select != "*" else []):
                    known(name, keyed, file, ("cleanups", i, "select", j), "table with a PRIMARY KEY")
            for i, schedule in enumerate(content.schedules):
                for j, name in enumerate(schedule.select if schedule.select != "*" else []):
                    if is_plain(name, names):
                        known(name, names, file, ("schedules", i, "select", j), "asset")
            for i, stall in enumerate(content.stalls):
                if stall.asset != "*":
                    known(stall.asset, names, file, ("stalls", i, "asset"), "asset")
            if content.alerts is not None:
                with problems.caught():
                    content.alerts.check(names, file)
            for i, threshold in enumerate(content.thresholds):
                if threshold.source != "*":
                    place = ("thresholds", i, "source")
                    known(threshold.source, watermarked, file, place, "source or table with a watermark")


def schedules_of(jobs: Jobs, catalog: Catalog) -> tuple[Schedule, ...]:
    """The schedules of jobs/*.yaml, then those of front matter, which bring an asset up to date with all that it reads.
    Raises TG613 for a selection that nothing fits, TG609 for a name that is taken."""
    taken: dict[str, str] = {}
    for file, content in jobs.files:
        for i, schedule in enumerate(content.schedules):
            taken[schedule.name] = file.name
            for j, text in enumerate(schedule.select if schedule.select != "*" else []):
                select(catalog, [text], location=file.locate(("schedules", i, "select", j)))
        taken |= {cleanup.name: file.name for cleanup in content.cleanups}
    own = tuple(own_schedules(catalog))
    for schedule in own:
        if schedule.name in taken:
            raise TidegateError(
                "TG609",
                (
                    f'schedule "{schedule.name}" is in {taken[schedule.name]}, but front matter has a '
                    "schedule with the same name"
                ),
                hint="rename the one in jobs/",
            )
        taken[schedule.name] = "front matter"
    return (*jobs.schedules, *own)


def own_schedules(catalog: Catalog) -> Iterator[Schedule]:
    """The schedules of front matter: `<asset>_schedule`, which brings the asset up to date with all that it reads."""
    for obj in (*catalog.relations, *catalog.views, *catalog.sinks):
        said = catalog.annotations_of(obj.name)
        if said.cron is not None:
            name = re.sub(r"\W", "_", f"{obj.name}_schedule", flags=re.ASCII)
            yield Schedule(
                name=f"_{name}" if name[0].isdigit() else name,
                cron=said.cron,
                timezone=said.timezone,
                select=[f"+{obj.name}"],
                enabled=said.enabled,
            )


def load_jobs(root: Path, problems: Problems = FAIL_FAST, environ: Mapping[str, str] | None = None) -> Jobs:
    """Read `jobs/*.yaml` of a project. Raises TG603–TG606 with places; TG609 for a schedule named twice. `problems`
    takes these down instead; a file with errors is left out."""
    files: list[tuple[YamlFile, JobsFile]] = []
    taken = _Taken()
    for path in _paths(root):
        with problems.caught():
            file = read_yaml(path, f"jobs/{path.name}", environ, as_written=is_target_url)
            content = validate(JobsFile, file)
            taken.add(file, content)
            if content.alerts is not None and isinstance(environ, Listed):
                content.alerts.reach(file, environ)
            files.append((file, content))
    return Jobs(
        tuple(s for _, content in files for s in content.schedules),
        tuple(t for _, content in files for t in content.thresholds),
        tuple(files),
        tuple(c for _, content in files for c in content.cleanups),
    )


def load_live(root: Path, environ: Mapping[str, str] | None = None) -> Jobs:
    """Only the live runs of `jobs/*.yaml`, for `tidegate live`: it runs whatever the alerts and schedules beside them
    need, such as variables. Raises TG603–TG606 with places."""
    files = []
    for path in _paths(root):
        file = read_yaml(path, f"jobs/{path.name}", environ, as_written=lambda at: at[:1] != ("live",))
        live = {key: value for key, value in file.data.items() if key == "live"}
        files.append((file, validate(JobsFile, replace(file, data=live))))
    return Jobs(files=tuple(files))


def _paths(root: Path) -> list[Path]:
    """The files of jobs; the other two of the folder have rooms of their own."""
    found = sorted((root / "jobs").glob("*.yaml"))
    return [path for path in found if path.name not in (MAINTENANCE, AMENDMENTS)]


class _Taken:
    """What may be in one file of `jobs/` alone, by the file that has it."""

    def __init__(self) -> None:
        self._sections: dict[str, str] = {}
        self._schedules: dict[str, str] = {}

    def add(self, file: YamlFile, content: JobsFile) -> None:
        """Raise TG609 for what another file has already."""
        if content.alerts is not None:
            self._section("alerts", "alerts are", "keep all targets and routes in one file", file)
        if content.quality is not None:
            self._section("quality", "quality is", "keep one of them", file)
        for section in ("schedules", "cleanups"):
            for i, schedule in enumerate(getattr(content, section)):
                if schedule.name in self._schedules:
                    raise TidegateError(
                        "TG609",
                        f'schedule "{schedule.name}" is also defined in {self._schedules[schedule.name]}',
                        hint="give it another name",
                        location=file.locate((section, i, "name")),
                    )
                self._schedules[schedule.name] = file.name

    def _section(self, name: str, subject: str, hint: str, file: YamlFile) -> None:
        if name in self._sections:
            raise TidegateError(
                "TG609",
                f"{subject} also defined in {self._sections[name]}",
                hint=hint,
                location=file.locate((name,), key=True),
            )
        self._sections[name] = file.name


def _require(name: str, names: list[str], file: YamlFile, place: tuple[str | int, ...], what: str) -> None:
    if name not in names:
        hint = did_you_mean(name, names) or f"known: {', '.join(sorted(names)) or 'none'}"
        raise TidegateError("TG609", f'no {what} "{name}"', hint=hint, location=file.locate(place))
