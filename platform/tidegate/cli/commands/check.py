"""`tidegate check`: everything that can be found wrong before anything runs."""

from __future__ import annotations

from tidegate.cli.invocation import Invocation, guarded


@guarded
def check(call: Invocation) -> int:
    """Check environment, SQL and schedules of the project. Nothing is started, nothing is written.

    Example: tidegate check --env cluster
    """
    from tidegate.project.live import check_live
    from tidegate.project.maintenance import load_maintenance
    from tidegate.sql.lineage import computed

    project = call.project()
    catalog = project.catalog()
    jobs = project.jobs()
    watermarked = [r.name for r in catalog.relations if r.watermark is not None]
    keyed = [r.name for r in catalog.relations if r.primary_key]
    jobs.check([o.name for o in computed(catalog)], watermarked, keyed)
    check_live(jobs, catalog)
    load_maintenance(project.root).check(catalog)
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
        "schedules": [s.name for s in jobs.schedules],
        "cleanups": [c.name for c in jobs.cleanups],
        "live": [r.name for r in jobs.live],
        "thresholds": [t.source for t in jobs.thresholds],
    }
    lines = [
        f"{project.name}, environment {project.env_name}: {files} SQL {_plural(files, 'file')}, all good"
    ]
    for label in ("sources", "tables", "views", "sinks", "schedules", "cleanups", "live"):
        if data[label]:
            lines.append(f"  {label:<10}{', '.join(data[label])}")
    lines.append(f"  {'warehouse':<10}{project.storage.warehouse}")
    if not catalog.names():
        lines.append("  there are no definitions yet: put CREATE SOURCE … into assets/NAME.sql")
    call.console.document(data, "\n".join(lines))
    return 0


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
