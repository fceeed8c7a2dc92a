"""What live runs select, held against the catalog: every name exists, and every table has one writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.jobs.live import live_families, live_members
from tidegate.sql.catalog.lineage import computed

if TYPE_CHECKING:
    from tidegate.project.jobs.jobs import Jobs
    from tidegate.sql.catalog.catalog import Catalog


def check_live(jobs: Jobs, catalog: Catalog) -> None:
    """Raise TG609 for a live run named twice, for a name that is not there, and where two live runs would write the
    same tables."""
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
            members = live_members(catalog, run)
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
                if name not in members:
                    raise TidegateError(
                        "TG609",
                        f'"{name}" is not among what the live run "{run.name}" selects',
                        hint="select it, or remove it here",
                        location=file.locate(("live", i, *path)),
                    )
            for family in live_families(catalog, run):
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


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
