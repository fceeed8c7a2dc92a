"""Warnings about a project as a whole, from its files alone: what is allowed, and hardly meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.errors import Location, Problems, TidegateWarning
from tidegate.project.reading.cron import never_fires
from tidegate.project.storage import Storage
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation, View
from tidegate.sql.dialect.text import Text
from tidegate.sql.dialect.warnings import warning
from tidegate.sql.options.connectors import FilesystemOptions, ReplayOptions
from tidegate.sql.options.formats import LOCATION

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.project.jobs.amendments import Amendments
    from tidegate.project.jobs.jobs import Jobs, Times
    from tidegate.project.jobs.maintenance import Maintenance
    from tidegate.project.reading.yamlfile import YamlFile

_EMIT = "EMIT ON WINDOW CLOSE"
#: A comment that says nothing else: somebody took it out to try something.
_COMMENTED = re.compile(r"(?:--+|/\*)[ \t]*emit\s+on\s+window\s+close[ \t;]*(?:\n|$|\*/)", re.IGNORECASE)
#: What a comment has in it that speaks of it.
_NAMED = re.compile(r"\bEMIT\b", re.IGNORECASE)
_COMMENTS = re.compile(r"(?:(?!\n\s*\n)\s|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WILDCARDS = re.compile(r"[*?\[]")


def lint(project: Project, catalog: Catalog, whole: bool = True) -> Iterator[TidegateWarning]:
    """TG901, TG902, TG904 and TG906: about what `assets/` defines. `whole`: nothing of it is missing from the catalog;
    else nobody knows what is not read."""
    texts = {file: Text(content, file) for file, content in project.assets(Problems())}
    yield from _forgotten_emit(catalog, texts)
    for relation in catalog.relations:
        yield from _missing_path(project, relation, texts)
        yield from _missing_schema(project, relation, texts)
    for sink in catalog.sinks:
        view = catalog.find(sink.upstream) if sink.view is None else sink.view
        if isinstance(view, View) and not view.emit_on_window_close and not sink.connector.upserts:
            what = f'"{view.name}"' if sink.view is None else "its query"
            yield warning(
                "TG904",
                f'sink "{sink.name}" only adds rows, but {what} also shows open windows, which can '
                "change: the sink delivers them when they are final",
                sink.location,
                f"write {_EMIT} at the end of the query: then both show the same rows",
            )
    delivered = {sink.upstream.casefold() for sink in catalog.sinks}
    for relation in catalog.relations if whole else ():
        if (
            relation.kind == "source"
            and not catalog.readers(relation.name)
            and relation.name.casefold() not in delivered
        ):
            yield warning(
                "TG906",
                f'no view and no sink reads source "{relation.name}", but every run reads its rows',
                relation.location,
                "remove the source, or create a view or sink that reads it",
            )


def lint_times(
    catalog: Catalog, jobs: Jobs, amendments: Amendments, maintenance: Maintenance
) -> Iterator[TidegateWarning]:
    """TG905: about every schedule of `jobs/` and of front matter."""
    for file, content in jobs.files:
        for section in ("schedules", "cleanups"):
            for i, schedule in enumerate(getattr(content, section)):
                yield from _cron(schedule, file, (section, i, "cron"))
        if content.quality is not None:
            yield from _cron(content.quality, file, ("quality", "cron"))
    if amendments.file is not None:
        for i, amendment in enumerate(amendments.content.amendments):
            yield from _cron(amendment, amendments.file, ("amendments", i, "cron"))
    if maintenance.file is not None:
        for name in ("schedule", "runs"):
            if (times := getattr(maintenance.content, name)) is not None:
                yield from _cron(times, maintenance.file, (name, "cron"))
    for item in (*catalog.relations, *catalog.views, *catalog.sinks):
        cron = catalog.annotations_of(item.name).cron
        if cron is not None and never_fires(cron):
            yield _never(cron, item.location)


def _cron(times: Times, file: YamlFile, path: tuple[str | int, ...]) -> Iterator[TidegateWarning]:
    if never_fires(times.cron):
        yield _never(times.cron, file.locate(path))


def _never(cron: str, location: Location | None) -> TidegateWarning:
    hint = "the third field is the day of the month, the fourth the month"
    return warning("TG905", f'"{cron}" never fires: none of its months has such a day', location, hint)


def _forgotten_emit(catalog: Catalog, texts: Mapping[str, Text]) -> Iterator[TidegateWarning]:
    """Open windows are what a view without EMIT is for. It is plainly forgotten where it stands in a comment, where a
    view that emits reads this one, and where all other views of windows, two at least, have it or say in a comment why
    not, unless the view's own comment speaks of it."""
    windowed = [view for view in catalog.views if view.clock is not None and _is_windowed(view)]
    for view in windowed:
        if view.emit_on_window_close:
            continue
        readers = [reader.name for reader in catalog.readers(view.name) if reader.emit_on_window_close]
        if _COMMENTED.search(_with_comments(view, texts)):
            why = "a comment contains it"
        elif readers:
            why = f'"{readers[0]}", which reads the view, has it'
        elif _speaks_of_emit(view, texts):
            continue
        elif (others := _others_have_it([v for v in windowed if v is not view], texts)) is not None:
            why = others
        else:
            continue
        yield warning(
            "TG901",
            (
                f'"{view.name}" has no {_EMIT}, although {why}: it also shows open windows, whose '
                "rows can change"
            ),
            view.location,
            f"write {_EMIT} at the end of the statement; if open windows are intended, say so in a comment "
            f"above it that names {_EMIT}",
        )


def _others_have_it(others: list[View], texts: Mapping[str, Text]) -> str | None:
    """Why a view without EMIT stands out among the others; None if it does not: if one of them leaves out EMIT without
    a word too, or if there are too few to tell."""
    emitting = [view for view in others if view.emit_on_window_close]
    meant = [view for view in others if not view.emit_on_window_close and _speaks_of_emit(view, texts)]
    if not emitting or len(others) < 2 or len(emitting) + len(meant) < len(others):
        return None
    if not meant:
        return f"all {len(emitting)} other views of windows have it"
    return "every other view of windows has it, or a comment that names it"


def _with_comments(view: View, texts: Mapping[str, Text]) -> str:
    """A view's statement with the comments right behind it."""
    text = texts[view.location.file].sql if view.location is not None else view.definition
    end = text.find(view.definition) + len(view.definition)
    behind = _COMMENTS.match(text, end)
    return view.definition + (behind.group() if behind is not None else "")


def _speaks_of_emit(view: View, texts: Mapping[str, Text]) -> bool:
    """Whether the lines of comment right above a view's statement say something about EMIT."""
    if view.location is None:
        return False
    text = texts[view.location.file].sql
    lines = text[: text.find(view.definition)].splitlines()
    return any(_NAMED.search(line) for line in takewhile(_is_comment, reversed(lines)))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("--")


def _is_windowed(view: View) -> bool:
    return any(column.casefold() in ("window_start", "window_end") for column in view.group_columns)


def _missing_path(
    project: Project, relation: Relation, texts: Mapping[str, Text]
) -> Iterator[TidegateWarning]:
    options = relation.connector
    if not isinstance(options, FilesystemOptions | ReplayOptions) or options.path.startswith("s3:"):
        return
    path, hint = options.path, "create it, or change the option path; otherwise, a run fails (TG503)"
    if path.startswith("dataset:"):
        name = path.removeprefix("dataset:").partition("/")[0]
        there = (project.root / "assets" / f"{name}.py").is_file()
        missing, hint = (
            f"assets/{name}.py",
            "write this script, with a function fetch(target: Path) that creates the data set",
        )
    else:
        # What stands before the first wildcard has to be there.
        local = Path(Storage(project.root).uri(path).removeprefix("file://"))
        end = next((i for i, part in enumerate(local.parts) if _WILDCARDS.search(part)), len(local.parts))
        there, missing = Path(*local.parts[:end]).exists(), path
    if not there:
        where = _literal(relation, path, texts) or relation.location
        yield warning(
            "TG902", f'source "{relation.name}" reads {path}: {missing} does not exist', where, hint
        )


def _missing_schema(
    project: Project, relation: Relation, texts: Mapping[str, Text]
) -> Iterator[TidegateWarning]:
    path = relation.format.options.get(LOCATION) if relation.format is not None else None
    if path is not None and not (project.root / path).is_file():
        yield warning(
            "TG902",
            f'source "{relation.name}" reads messages by the schema {path}, which does not exist',
            _literal(relation, path, texts) or relation.location,
            f"create it, or change the option {LOCATION}; otherwise, a run fails (TG611)",
        )


def _literal(relation: Relation, value: str, texts: Mapping[str, Text]) -> Location | None:
    """Where an option's value stands in the file."""
    text = texts.get(relation.location.file) if relation.location is not None else None
    start = text.sql.find(relation.definition) if text is not None else -1
    at = relation.definition.find(f"'{value}'")
    if text is None or start < 0 or at < 0:
        return None
    return text.at((start + at, start + at + len(value) + 1))
