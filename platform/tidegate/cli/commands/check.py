"""`tidegate check`: everything that can be found wrong before anything runs."""

from __future__ import annotations

from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import ExcludeOption, SelectOption, chosen


@guarded
def check(call: Invocation, select: SelectOption = None, exclude: ExcludeOption = None) -> int:
    """Check environment, SQL and schedules of the project. Nothing is started, nothing is written.

    Everything is checked, always; --select lists what a selection means.

    Example: tidegate check --env cluster
    Example: tidegate check --select +departures_hourly
    """
    from tidegate.project.amendments import load_amendments
    from tidegate.project.expectations import load_quality
    from tidegate.project.jobs import schedules_of
    from tidegate.project.live import check_live
    from tidegate.project.maintenance import load_maintenance
    from tidegate.sql.lineage import computed

    project = call.project()
    catalog = project.catalog()
    jobs = project.jobs()
    watermarked = [r.name for r in catalog.relations if r.watermark is not None]
    keyed = [r.name for r in catalog.relations if r.primary_key]
    jobs.check([o.name for o in computed(catalog)], watermarked, keyed)
    schedules = schedules_of(jobs, catalog)
    check_live(jobs, catalog)
    load_maintenance(project.root).check(catalog)
    amendments = load_amendments(project.root)
    amendments.check(catalog, {s.name: "another file of jobs/" for s in (*schedules, *jobs.cleanups)})
    quality = load_quality(project.root, catalog)
    selected = chosen(catalog, None, select, exclude)
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
        "amendments": [a.name for a in amendments.content.amendments],
        "cleanups": [c.name for c in jobs.cleanups],
        "live": [r.name for r in jobs.live],
        "thresholds": [t.source for t in jobs.thresholds],
        "quality": quality.names,
    }
    if selected is not None:
        data["selected"] = selected
    lines = [
        f"{project.name}, environment {project.env_name}: {files} SQL {_plural(files, 'file')}, all good"
    ]
    said = data | {"amended": data["amendments"]}
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
        lines.append("  there are no definitions yet: put CREATE SOURCE … into assets/NAME.sql")
    call.console.document(data, "\n".join(lines))
    return 0


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
