"""What the front matter of a `.sql` file may say, and how it gets into the catalog.

`sql/grammar/front_matter.py` finds it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field, field_validator, model_validator

from tidegate.errors import FAIL_FAST, Problems, TidegateError, did_you_mean
from tidegate.project.jobs.jobs import Times
from tidegate.project.reading.strict import Seconds, StrictModel, refuse, validate
from tidegate.project.reading.yamlfile import YamlFile, parse_yaml
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import Relation, Sink, View
from tidegate.sql.grammar.front_matter import Annotations, Block, Partitioning

# What Dagster takes: found here, with a place, and not when its code server starts.
_OWNER = re.compile(r"^(team:[A-Za-z0-9_-]+|[^@\s]+@[^@\s]+\.[^@\s]+)$")
_TAG = re.compile(r"^([A-Za-z0-9_.-]{1,63}/)?[A-Za-z0-9_.-]{1,63}$")
_VALUE = re.compile(r"^[A-Za-z0-9_.-]{0,63}$")
_GROUP = re.compile(r"^[A-Za-z0-9_]+$")


class Freshness(StrictModel):
    """How long ago an asset may have been brought up to date. Short: `freshness: 2 hours`."""

    within: Seconds
    """Older than this, Dagster shows it as failing its freshness policy."""

    warn: Seconds | None = None
    """Older than this, it shows a warning."""

    @model_validator(mode="after")
    def _warns_first(self) -> Freshness:
        if self.warn is not None and self.warn >= self.within:
            raise refuse(
                (
                    "warn must be shorter than within: otherwise it warns only when the check has failed "
                    "already"
                ),
                hint="make warn shorter than within",
            )
        return self


class FrontMatter(StrictModel):
    """Everything that may stand between the two `-- ---` lines above a CREATE. Every key is optional."""

    owners: list[str] = Field(default_factory=list)
    """Who is responsible for it: `team:name`, or an e-mail address."""

    tags: dict[str, str] = Field(default_factory=dict)
    """A list of tags, or names with values; `--select tag:name` finds them."""

    description: str | None = None
    """Description; it replaces the comment above the statement."""

    columns: dict[str, str] = Field(default_factory=dict)
    """Descriptions of columns."""

    group: str | None = None
    """Group in Dagster; by default that of the source which its rows come from."""

    freshness: Freshness | None = None
    """How old it may get: Dagster's freshness policy."""

    partitions: Partitioning | None = None
    """Of a view: Dagster's partitions, by the `day` or `hour` of its windows' ends, or `none`."""

    schedule: Times | None = None
    """When it is brought up to date, with all that it reads. Short: `schedule: "7 * * * *"`."""

    @field_validator("tags", mode="before")
    @classmethod
    def _listed(cls, tags: Any) -> Any:
        if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
            return dict.fromkeys(tags, "")
        if isinstance(tags, dict):
            return {
                k: str(v) if isinstance(v, int | float | bool) else "" if v is None else v
                for k, v in tags.items()
            }
        return tags

    @field_validator("tags")
    @classmethod
    def _tags_of_dagster(cls, tags: dict[str, str]) -> dict[str, str]:
        for name, value in tags.items():
            if not _TAG.match(name) or not _VALUE.match(value):
                text = f"{name}: {value}" if value else name
                raise refuse(
                    f'"{text}" may only have letters, digits and the signs - _ .',
                    hint="write at most 63 such characters",
                )
            if name.split("/")[0] in ("tidegate", "dagster"):
                raise refuse(
                    f'"{name}" has a reserved prefix',
                    hint="tidegate and Dagster set the tags that begin with tidegate/ and dagster/",
                )
        return tags

    @field_validator("owners")
    @classmethod
    def _owners_of_dagster(cls, owners: list[str]) -> list[str]:
        for owner in owners:
            if not _OWNER.match(owner):
                raise refuse(f'"{owner}" is not an owner', hint="write team:NAME, or an e-mail address")
        return owners

    @field_validator("group")
    @classmethod
    def _group_of_dagster(cls, group: str | None) -> str | None:
        if group is not None and not _GROUP.match(group):
            raise refuse(f'"{group}" may only have letters, digits and _')
        return group

    @field_validator("freshness", mode="before")
    @classmethod
    def _short_freshness(cls, given: Any) -> Any:
        return {"within": given} if isinstance(given, str) else given

    @field_validator("schedule", mode="before")
    @classmethod
    def _short_schedule(cls, given: Any) -> Any:
        return {"cron": given} if isinstance(given, str) else given

    def annotations(self) -> Annotations:
        """What does not go into descriptions."""
        fresh, schedule = self.freshness, self.schedule
        return Annotations(
            tuple(self.owners),
            tuple(self.tags.items()),
            self.group,
            fresh.within if fresh else None,
            fresh.warn if fresh else None,
            self.partitions,
            *((schedule.cron, schedule.timezone, schedule.enabled) if schedule else ()),
        )


def annotate(
    catalog: Catalog, problems: Problems = FAIL_FAST, environ: Mapping[str, str] | None = None
) -> None:
    """Read the front matter that `catalog` was loaded with: descriptions go into its objects and their columns, the
    rest into `catalog.annotations`. Raises TG603–TG606 with places, TG612 for what does not fit the statement below;
    `problems` takes these down instead."""
    for block in catalog.blocks:
        with problems.caught():
            _annotate(catalog, block, environ)


def _annotate(catalog: Catalog, block: Block, environ: Mapping[str, str] | None) -> None:
    file = parse_yaml(block.yaml, block.file, environ, block.lines)
    said = validate(FrontMatter, file)
    found = catalog.sinks.find(block.name) or catalog.get(block.name)
    assert isinstance(found, Relation | View | Sink)
    _check(said, found, file)
    catalog.annotations[found.name.casefold()] = said.annotations()
    described = replace(found, description=said.description or found.description)
    if isinstance(described, Sink):
        catalog.sinks.add(described)
        return
    texts = {name.casefold(): text for name, text in said.columns.items()}
    columns = tuple(replace(c, comment=texts.get(c.name.casefold(), c.comment)) for c in described.columns)
    catalog.replace(replace(described, columns=columns))


def _check(said: FrontMatter, found: Relation | View | Sink, file: YamlFile) -> None:
    kind = found.kind if isinstance(found, Relation) else "view" if isinstance(found, View) else "sink"
    if said.partitions not in (None, "none") and kind != "view":
        hint = "only views have partitions: the days or hours in which their windows end"
        raise _unfit(f"a {kind} can't have partitions", file, ("partitions",), hint)
    if said.columns and isinstance(found, Sink):
        raise _unfit(
            "a sink has the columns of the relation that it delivers",
            file,
            ("columns",),
            f"describe the columns at {found.upstream}",
        )
    columns = [] if isinstance(found, Sink) else [c.name for c in found.columns]
    known = {c.casefold() for c in columns}
    for name in said.columns:
        if name.casefold() not in known:
            hint = did_you_mean(name, columns) or f"its columns are {', '.join(columns)}"
            raise _unfit(f'{found.name} has no column "{name}"', file, ("columns", name), hint)


def _unfit(message: str, file: YamlFile, path: tuple[str, ...], hint: str) -> TidegateError:
    return TidegateError("TG612", message, hint=hint, location=file.locate(path, key=True))
