"""`jobs/maintenance.yaml`: how long snapshots and rows are kept, and when small files are put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.jobs.jobs import MAINTENANCE, Schedule, Times
from tidegate.project.reading.sizes import Bytes
from tidegate.project.reading.strict import Seconds, StrictModel, validate
from tidegate.project.reading.yamlfile import YamlFile, read_yaml
from tidegate.watermark import TimeKind

if TYPE_CHECKING:
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Relation, View

_DAY = 86_400
#: Younger snapshots are never removed: a tick, an audit or a query may be reading them.
_SHORTEST_KEEP = 600


class Rules(StrictModel):
    """What is set for all tables, or for one; what is left out is as in `Policy`."""

    keep_snapshots: Seconds | None = None
    """How long old snapshots can be read, and until when the files that only they hold stay."""

    most_snapshots: Annotated[int, Field(ge=10)] | None = None
    """Above this number of snapshots, the oldest expire before that time; those of the last 10 minutes are kept."""

    compact_when_files: Annotated[int, Field(ge=2)] | None = None
    """Number of new data files after which small files are compacted."""

    target_file_size: Bytes | None = None
    """How large the files that compaction writes should be."""

    keep_versions: Seconds | None = None
    """How long an earlier version of a view can be read after the swap. None: until it is dropped."""

    settle: Seconds | None = None
    """Rows that arrived less than this time ago are not compacted: the next ticks read them."""

    orphans_after: Seconds | None = None
    """Age at which an orphan file is removed: a batch that is being written has such files, too."""

    def check(self, file: YamlFile, place: tuple[str | int, ...]) -> None:
        """Raise TG605 for what is too short to be safe."""
        for name, least, why in (
            ("keep_snapshots", _SHORTEST_KEEP, "keep at least 10 minutes: a reader may still need them"),
            ("orphans_after", _DAY, "keep at least a day: a batch may still be in progress"),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise TidegateError(
                    "TG605",
                    f"{'.'.join(map(str, (*place, name)))}: {why}",
                    location=file.locate((*place, name)),
                )


class TableRules(Rules):
    """What is set for one source, table or view."""

    retention: Seconds | None = None
    """How long rows are kept, whole days: by event time behind the watermark (a view: by the end of the window behind
    its frontier); rows without event time since they arrived. None: for ever. What a view, gate or sink needs stays."""

    history: Seconds | None = None
    """How long the history of the watermarks is kept (`name$watermarks`), whole days. None: for ever."""


class UpkeepSchedule(Schedule):
    """When Dagster does the upkeep of all tables; live runs do that of their own between two ticks."""

    name: str = "upkeep"
    """Name of the schedule in Dagster."""

    select: Literal["*"] = "*"
    """Always everything."""


class RunRetention(Times):
    """How long Dagster keeps runs with their events and logs. The last run that brought an asset or partition up to
    date stays, however old it is."""

    cron: str = "45 3 * * *"
    """When old ones are deleted; every night if left out."""

    keep: Seconds = 30 * _DAY
    """Runs that ended well, or were cancelled (30 days)."""

    keep_failed: Seconds = 90 * _DAY
    """Runs that failed (90 days)."""


class MaintenanceFile(StrictModel):
    """`jobs/maintenance.yaml`."""

    runs: RunRetention | None = None
    """How long Dagster keeps runs; without it, for ever."""

    schedule: UpkeepSchedule | None = None
    """When Dagster does it; without, it is done by live runs, `tidegate upkeep` and whoever launches the job."""

    defaults: Rules = Field(default_factory=Rules)
    """For every table."""

    tables: dict[str, TableRules] = Field(default_factory=dict)
    """For sources, tables and views by name."""


@dataclass(frozen=True)
class Policy:
    """What holds for one table: times in seconds, sizes in bytes; `retention` and `history` None: for ever."""

    keep_snapshots: float = 6 * 3600
    most_snapshots: int = 1000
    compact_when_files: int = 100
    target_file_size: int = 128 << 20
    settle: float = 600
    orphans_after: float = _DAY
    retention: int | None = None
    history: int | None = None
    keep_versions: float | None = None


@dataclass(frozen=True)
class Maintenance:
    """The file, or what holds without one. `of` gives a table's policy."""

    content: MaintenanceFile = field(default_factory=MaintenanceFile)
    file: YamlFile | None = None

    def of(self, name: str) -> Policy:
        """The policy of a source, table or view, whatever the case of its name."""
        own = {key.casefold(): rules for key, rules in self.content.tables.items()}.get(name.casefold())
        return Policy(**_set(self.content.defaults) | (_set(own) if own is not None else {}))

    def check(self, catalog: Catalog) -> None:
        """Raise TG609 for a name that is not there, TG605 for a retention that the table can't have."""
        if self.file is None:
            return
        self.content.defaults.check(self.file, ("defaults",))
        objects: tuple[Relation | View, ...] = (*catalog.relations, *catalog.views)
        known = {o.name.casefold(): o for o in objects}
        for name, rules in self.content.tables.items():
            rules.check(self.file, ("tables", name))
            found = known.get(name.casefold())
            if found is None:
                names = [o.name for o in known.values()]
                raise TidegateError(
                    "TG609",
                    f'there is no source, table or view "{name}"',
                    hint=did_you_mean(name, names) or f"known: {', '.join(sorted(names)) or 'none'}",
                    location=self.file.locate(("tables", name), key=True),
                )
            for key in ("retention", "history"):
                value = getattr(rules, key)
                if value is not None and value % _DAY:
                    raise self._refuse(
                        name, key, "must be whole days", "write for example 90 days, or 12 weeks"
                    )
            kind = _kind(found)
            if rules.retention is not None and kind is TimeKind.EPOCH:
                raise self._refuse(
                    name,
                    "retention",
                    "needs a date or timestamp: a number has no unit",
                    "use TIMESTAMP or DATE",
                )
            if rules.history is not None and not hasattr(found, "connector"):
                raise self._refuse(
                    name, "history", "applies to a source or table: a view judges no rows", None
                )

    def _refuse(self, name: str, key: str, why: str, hint: str | None) -> TidegateError:
        assert self.file is not None
        location = self.file.locate(("tables", name, key))
        return TidegateError("TG605", f"tables.{name}.{key} {why}", hint=hint, location=location)


def load_maintenance(root: Path, environ: Mapping[str, str] | None = None) -> Maintenance:
    """Read `jobs/maintenance.yaml` of a project, if there is one. Raises TG603–TG606 with places."""
    path = root / "jobs" / MAINTENANCE
    if not path.is_file():
        return Maintenance()
    file = read_yaml(path, f"jobs/{MAINTENANCE}", environ)
    return Maintenance(validate(MaintenanceFile, file), file)


def _set(rules: Rules) -> dict[str, int]:
    return {key: value for key, value in rules if value is not None}


def _kind(found: Relation | View) -> TimeKind | None:
    """What a table's event time counts in; None where it has none."""
    from tidegate.sql.catalog.objects import Relation

    if isinstance(found, Relation):
        return found.watermark.kind if found.watermark is not None else None
    return found.kind
