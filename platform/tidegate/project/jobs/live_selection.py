"""What live runs select, held against the catalog: every name exists, and every table has one writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.jobs.live import live_families
from tidegate.sql.catalog.lineage import computed

if TYPE_CHECKING:
    from tidegate.project.jobs.jobs import Jobs
    from tidegate.project.reading.yamlfile import YamlFile
    from tidegate.sql.catalog.catalog import Catalog


def check_live(jobs: Jobs, catalog: Catalog) -> None:
    """Raise TG609 for a live run named twice, for a name that is not there, for two values of one group, and where two
    live runs would write the same tables."""
    names = [o.name for o in computed(catalog)]
    seen: dict[str, str] = {}
    owners: dict[str, str] = {}
    for file, content in jobs.files:
        for i, run in enumerate(content.live):
            place = file.locate(("live", i, "name"))
            if run.name in seen:
                raise TidegateError(
                    "TG609",
                    f'live run "{run.name}" is also defined in {seen[run.name]}',
                    hint="give it another name",
                    location=place,
                )
            seen[run.name] = file.name
            selected = [(("select", j), n) for j, n in enumerate(run.select if run.select != "*" else [])]
            families = live_families(catalog, run)
            group_of = {name: family[0] for family in families for name in family}
            special: list[tuple[tuple[str | int, ...], str]]
            special = [(("isolate", j), name) for j, name in enumerate(run.isolate)]
            special += [(("intervals", name), name) for name in run.intervals]
            special += [(("priorities", name), name) for name in run.priorities]
            for path, name in (*selected, *special):
                if name not in names:
                    raise TidegateError(
                        "TG609",
                        f'there is no asset "{name}"',
                        hint=did_you_mean(name, names) or f"known: {', '.join(sorted(names)) or 'none'}",
                        location=file.locate(("live", i, *path)),
                    )
                if name not in group_of:
                    raise TidegateError(
                        "TG609",
                        f'"{name}" is not among what the live run "{run.name}" selects',
                        hint="select it, or remove it here",
                        location=file.locate(("live", i, *path)),
                    )
            for key in ("intervals", "priorities"):
                _require_one_value(group_of, getattr(run, key), file, ("live", i, key))
            for family in families:
                other = owners.setdefault(family[0], run.name)
                if other != run.name:
                    raise TidegateError(
                        "TG609",
                        f'live runs "{other}" and "{run.name}" both write {_listed(family)}',
                        hint=(
                            "rows flow between them, so one process must update them all: select them in only "
                            "one of the two"
                        ),
                        location=file.locate(("live", i, "select")) or place,
                    )


def _require_one_value(
    group_of: Mapping[str, str], names: Iterable[str], file: YamlFile, place: tuple[str | int, ...]
) -> None:
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(group_of[name], name)
        if other != name:
            raise TidegateError(
                "TG609",
                f'{place[-1]}: the group "{group_of[name]}" has two values, by the names "{other}" and "{name}"',
                hint="give one for each group, by the name of one of its members",
                location=file.locate((*place, name), key=True),
            )


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
