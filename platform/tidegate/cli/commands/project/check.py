"""`tidegate check`: everything that can be found wrong before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, chosen
from tidegate.errors import TidegateError
from tidegate.wording import counted

if TYPE_CHECKING:
    from tidegate.errors import Problems, TidegateWarning
    from tidegate.project.jobs.jobs import Schedule

#: Errors about a name that is not there.
_ABOUT_NAMES = ("TG201", "TG609", "TG613", "TG617")


@guarded
def check(
    call: Invocation,
    select: SelectOption = None,
    exclude: ExcludeOption = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat warnings as failures: exit code 1.")
    ] = False,
) -> int:
    """Check the environment, SQL and schedules of the project. It starts nothing and writes nothing.

    Everything is always checked, and all errors of all files are shown; --select lists what a selection contains.
    Warnings report what is allowed but probably not intended, and definitions that differ from the stored ones.

    Exit code 2: there are errors. Exit code 1: there are warnings, and --strict is given.

    Example: tidegate check --env cluster

    Example: tidegate check --select +departures_hourly
    """
    from tidegate.errors import Problems

    problems = Problems()
    found = _Project(call, problems)
    warnings = _warnings(call, found, problems)
    if problems.errors:
        return _refused(call, warnings, problems)
    return _accepted(call, found, warnings, chosen(found.catalog, None, select, exclude), strict)


class _Project:
    """Everything that the files of a project say. What can't be read is in `problems`, and the rest is read all the
    same. `placed`: the environment could be read, so it is known where tables are; `whole`: every definition could."""

    def __init__(self, call: Invocation, problems: Problems) -> None:
        from tidegate.project import Project
        from tidegate.project.expectations import load_quality
        from tidegate.project.jobs.amendments import Amendments, load_amendments
        from tidegate.project.jobs.jobs import schedules_of
        from tidegate.project.jobs.live_selection import check_live
        from tidegate.project.jobs.maintenance import Maintenance, load_maintenance
        from tidegate.sql.catalog.lineage import computed
        from tidegate.sql.dialect.warnings import collecting

        self.placed = True
        try:
            self.project = call.project()
        except TidegateError as error:
            if error.code == "TG601":
                raise
            problems.errors += [error, *error.others]
            self.project, self.placed = Project(call.root.absolute()), False
        before = len(problems.errors)
        with collecting() as self.warnings:
            self.catalog = catalog = self.project.catalog(problems)
        self.whole = len(problems.errors) == before
        self.jobs = jobs = self.project.jobs(problems)
        watermarked = [r.name for r in catalog.relations if r.watermark is not None]
        keyed = [r.name for r in catalog.relations if r.primary_key]
        jobs.check([o.name for o in computed(catalog)], watermarked, keyed, problems)
        self.schedules: tuple[Schedule, ...] = ()
        self.maintenance, self.amendments = Maintenance(), Amendments()
        self.quality: list[str] = []
        with problems.caught():
            self.schedules = schedules_of(jobs, catalog)
        with problems.caught():
            check_live(jobs, catalog)
        with problems.caught():
            self.maintenance = load_maintenance(self.project.root, self.project.variables)
            self.maintenance.check(catalog)
        with problems.caught():
            self.amendments = load_amendments(self.project.root, self.project.variables)
            taken = {s.name: "another file in jobs/" for s in (*self.schedules, *jobs.cleanups)}
            self.amendments.check(catalog, taken)
        with problems.caught():
            self.quality = load_quality(self.project.root, catalog, self.project.variables).names


def _refused(call: Invocation, warnings: list[TidegateWarning], problems: Problems) -> int:
    errors = _told_once(problems)
    if call.json:
        first = errors[0].to_dict()
        call.console.document(
            {
                "error": first,
                "errors": [e.to_dict() for e in errors],
                "warnings": [w.to_dict() for w in warnings],
            },
            "",
        )
        return 2
    for one in [*warnings, *errors]:
        call.console.error(one)
        call.console.note("")
    call.console.note(f"{counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}")
    return 2


def _told_once(problems: Problems) -> list[TidegateError]:
    """By place. What is said about a name that could not be read follows from that, and two readers of one name say the
    same."""
    follow = [f'"{name}"' for name in problems.broken]
    errors: list[TidegateError] = []
    for error in sorted(problems.errors, key=_place):
        if str(error) in map(str, errors):
            continue
        if error.code in _ABOUT_NAMES:
            said = any(one.code in _ABOUT_NAMES and _place(one) == _place(error) for one in errors)
            if said or any(name in error.message.casefold() for name in follow):
                continue
        errors.append(error)
    return errors


def _warnings(call: Invocation, found: _Project, problems: Problems) -> list[TidegateWarning]:
    """What can be known, where there are errors, too: about all that could be read."""
    from tidegate.project.lint import lint, lint_times
    from tidegate.session.deployed import changed_definitions

    warnings = list(found.warnings)
    with problems.caught():
        warnings += lint(found.project, found.catalog, found.whole)
    warnings += lint_times(found.catalog, found.jobs, found.amendments, found.maintenance)
    if found.placed:
        try:
            warnings += changed_definitions(found.project, found.catalog).values()
        except TidegateError as error:
            call.console.note(f"not compared with the stored definitions: {error.message}")
    return sorted(warnings, key=_place)


def _place(error: TidegateError) -> tuple[str, int, int]:
    where = error.location
    return ("", 0, 0) if where is None else (where.file, where.line, where.column)


def _accepted(
    call: Invocation,
    found: _Project,
    warnings: list[TidegateWarning],
    selected: list[str] | None,
    strict: bool,
) -> int:
    project, catalog, jobs, schedules = found.project, found.catalog, found.jobs, found.schedules
    files = len(project.assets())
    data = {
        "project": project.name,
        "environment": project.env_name,
        "warehouse": project.storage.warehouse,
        "files": files,
        "sources": [r.name for r in catalog.relations if r.kind == "source"],
        "tables": [r.name for r in catalog.relations if r.kind == "table"],
        "views": [v.name for v in catalog.views],
        "sinks": [s.name for s in catalog.sinks],
        "schedules": [s.name for s in schedules],
        "amendments": [a.name for a in found.amendments.content.amendments],
        "cleanups": [c.name for c in jobs.cleanups],
        "live": [r.name for r in jobs.live],
        "thresholds": [t.source for t in jobs.thresholds],
        "quality": found.quality,
        "warnings": [w.to_dict() for w in warnings],
    }
    if selected is not None:
        data["selected"] = selected
    lines = [
        f"{project.name}, environment {project.env_name}: {counted(files, 'SQL file')}, "
        + (counted(len(warnings), "warning") if warnings else "no problems found")
    ]
    said: dict[str, Any] = data | {"amended": data["amendments"]}
    labels = (
        "sources",
        "tables",
        "views",
        "sinks",
        "schedules",
        "cleanups",
        "amended",
        "live",
        "quality",
        "selected",
    )
    for label in labels:
        if said.get(label):
            lines.append(f"  {label:<10}{', '.join(said[label])}")
    lines.append(f"  {'warehouse':<10}{project.storage.warehouse}")
    if not catalog.names():
        lines.append("  there are no definitions yet: write CREATE SOURCE … into assets/NAME.sql")
    if not call.json:
        for warning in warnings:
            call.console.error(warning)
            call.console.note("")
    call.console.document(data, "\n".join(lines))
    return int(bool(warnings) and strict)
