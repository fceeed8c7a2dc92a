"""`make demo`: a year of real departures through gate, log and windows, and what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import tidegate
from tidegate.advise.advice import advise
from tidegate.audit.source import audit_source
from tidegate.audit.view import audit_view
from tidegate.console import Console, Table, choose_console
from tidegate.plots import pictures
from tidegate.project.java import require_java
from tidegate.session.session import Session

ROOT = Path(__file__).resolve().parent.parent
VIEWS = ("departures_hourly", "departures_rolling", "departures_daily")


def main() -> int:
    started = time.monotonic()
    console = choose_console()
    try:
        require_java()
        console.note("336,776 flights from New York in 2013; starting Spark …")
        with tidegate.connect(project=ROOT) as session:
            session.run(on_event=console.event)
            well = report(session, console)
    except tidegate.TidegateError as error:
        console.error(error)
        return 2
    console.note(f"\nDone in {time.monotonic() - started:.0f} s. Next: make ui, or")
    console.note("  .venv/bin/tidegate status                    the watermarks, without starting Spark")
    console.note("  .venv/bin/tidegate late flights              who was late, and for which watermark")
    console.note(
        '  .venv/bin/tidegate sql -c "SELECT carrier, sum(departures) FROM departures_hourly GROUP BY 1"'
    )
    return 0 if well else 1


def report(session: Session, console: Console) -> bool:
    """Show what is in the log and in the views, and whether it adds up; draw the completeness curve."""
    sound = show_source(session, console)
    show_first_windows(session, console)
    sound &= show_views(session, console)
    draw(session, console)
    return sound


def show_source(session: Session, console: Console) -> bool:
    """The rows of each airport by outcome; whether they add up."""
    source = audit_source(session, "flights")
    totals = [sum(getattr(p, o) for p in source.partitions) for o in ("on_time", "late", "rejected")]
    log = session.log(session.relation("flights"))
    rows = []
    for p in source.partitions:
        share = f"{100 * p.late / p.raw:.2f} %" if p.raw else ""
        watermark = log.format(log.progress.states[p.partition].watermark)
        rows.append((p.partition, p.raw, p.on_time, p.late, share, p.rejected, watermark))
    head = ("origin", "rows", "on time", "late", "late share", "rejected", "watermark")
    console.table(
        Table(head, rows, title="\nflights, each row judged once against its airport's watermark", unit=None)
    )
    on_time, late, rejected = totals
    console.document(
        {},
        f"{source.raw:,} rows = {on_time:,} on time + {late:,} late + {rejected:,} rejected: "
        f"{'all counts agree' if source.ok and source.raw == sum(totals) else 'THE COUNTS DO NOT AGREE'}",
    )
    return source.ok


def show_first_windows(session: Session, console: Console) -> None:
    first = session.table("departures_hourly").orderBy("window_start", "origin", "carrier").limit(5)
    types = [field.dataType.simpleString() for field in first.schema.fields]
    title = "\ndepartures_hourly, the first closed windows"
    console.table(
        Table(first.columns, [tuple(r) for r in first.collect()], types=types, title=title, unit=None)
    )


def show_views(session: Session, console: Console) -> bool:
    """What became of the rows in the windows of each view; whether they add up."""
    columns = (
        "view",
        "closed_windows",
        "raw",
        "counted",
        "filtered",
        "late",
        "rejected",
        "remainder",
        "still_open",
    )
    audits = [audit_view(session, view) for view in VIEWS]
    rows = [tuple(getattr(audit, column) for column in columns) for audit in audits]
    title = "\nraw = counted + filtered + late + rejected, window by window"
    head = [column.replace("_", " ") for column in columns]
    console.table(Table(head, rows, title=title, unit=None))
    return all(audit.ok for audit in audits)


def draw(session: Session, console: Console) -> None:
    """The completeness curve, and the shares of late rows under some delays."""
    advice = advise(session, "flights")
    plot = ROOT / ".tidegate" / "demo" / "completeness.png"
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.write_bytes(pictures.of_advice(advice)["completeness"])
    shares = ", ".join(
        f"{minutes} min {100 - 100 * advice.curve.at(minutes * 60_000_000):.2f} %"
        for minutes in (0, 15, 30, 60, 120, 180)
    )
    console.document(
        {}, f"\nLate under another delay: {shares}\nCompleteness curve: {plot.relative_to(ROOT)}"
    )


if __name__ == "__main__":
    sys.exit(main())
