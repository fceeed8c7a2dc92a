"""`tidegate advise`: which delay a source should declare, by what its rows say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.cli.failures import conclude, steps_for, told
from tidegate.cli.invocation import Invocation, guarded
from tidegate.cli.selection import judged_relation
from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.advise.advice import Advice
    from tidegate.console import Console
    from tidegate.page import Section
    from tidegate.project import Project
    from tidegate.runtime.steps import Steps
    from tidegate.session.session import Session
    from tidegate.sql.catalog.catalog import Catalog
    from tidegate.sql.catalog.objects import Relation, View

#: Partitions of the table; JSON has them all.
_SHOWN = 20
#: Views whose windows are drawn: each is recounted from the log.
_DRAWN_VIEWS = 3


@guarded
def advise(
    call: Invocation,
    source: Annotated[str, typer.Argument(help="A source or table with a watermark.", show_default=False)],
    completeness: Annotated[
        str,
        typer.Option(
            help=("Share of rows that should be on time; the shortest delay that reaches it is recommended.")
        ),
    ] = "99%",
    sample: Annotated[
        float,
        typer.Option(
            help=(
                "Measure only this fraction of the log, in blocks of rows; the same blocks are "
                "measured each time."
            )
        ),
    ] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(help="Folder to write the plots to, as PNG files.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="File to write a report to, with all plots in it.", show_default=False)
    ] = None,
) -> int:
    """Measure how late rows arrive and what every delay would keep and cost, and recommend a WATERMARK clause.

    The predicted completeness is exact: it is what the clause gives over the same rows. Nothing is changed.

    Example: tidegate advise flights --completeness 99.5% --html flights.html
    """
    from tidegate.advise.advice import advise as measured
    from tidegate.advise.measure import require_fraction

    target = read_share(completeness)
    require_fraction(sample)
    project = call.project()
    catalog = project.catalog()
    relation = _relation(project, catalog, source)
    # Before the log is read: minutes later is a bad time to say that there is no place for the result.
    for folder in ([plot] if plot else []) + ([html.parent] if html else []):
        with _writing():
            folder.mkdir(parents=True, exist_ok=True)
    pictures: dict[str, bytes] = {}
    steps = steps_for(None)
    with call.session(project) as session:
        rows = "a sample of its rows" if sample < 1 else "all its rows"
        call.console.note(f"{relation.name}: reading the log, {rows}")
        advice = measured(session, relation.name, target, sample)
        if plot is not None or html is not None:
            pictures = _pictures(call.console, session, project, relation, advice, steps)
    written = _write(plot, html, advice, pictures)
    if call.json:
        files = {"files": [str(p) for p in written]}
        call.console.document(advice.to_dict() | files | told(steps), "")
    else:
        show(call.console, advice)
        for path in written:
            call.console.note(f"wrote {path}")
    return conclude(call, steps.failures)


def read_share(text: str) -> float:
    """`99.9%` or `0.999` as a share of 1. Raises TG711."""
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise TidegateError("TG711", f"{text!r} is not a possible completeness", hint="write 99.9%, or 0.999")
    return share


def _relation(project: Project, catalog: Catalog, name: str) -> Relation:
    """What is asked about; what has no answer is refused before a JVM starts. Raises TG201, TG512, TG701, TG711."""
    from tidegate.advise.measure import no_rows, require_advisable
    from tidegate.store import load_table

    found = judged_relation(catalog, name, "advise")
    require_advisable(found)
    if load_table(project.storage, found.name) is None:
        raise no_rows(found)
    return found


def _pictures(
    console: Console, session: Session, project: Project, relation: Relation, advice: Advice, steps: Steps
) -> dict[str, bytes]:
    """PNG bytes by name, in the order of the report. `steps`: takes down which views' windows can't be drawn."""
    from tidegate.advise.windows import newest_windows
    from tidegate.plots import pictures
    from tidegate.store.metadata import load_properties

    readers = [view for view in project.catalog().views if relation.name in view.reads]
    found = pictures.of_advice(advice)
    found |= pictures.of_history(project, relation, [view.name for view in readers])
    counted = [v for v in readers if v.accounts is not None and load_properties(project.storage, v.name)]

    def draw(view: View) -> None:
        console.note(f"{view.name}: counting its windows again")
        windows = newest_windows(session, view)
        if windows:
            found[f"windows_{view.name}"] = pictures.of_windows(view.name, windows)

    for view in counted[:_DRAWN_VIEWS]:
        steps.do(view, partial(draw, view))
    return found


def _write(
    folder: Path | None, report: Path | None, advice: Advice, pictures: dict[str, bytes]
) -> list[Path]:
    written = []
    with _writing():
        if folder is not None:
            for name, picture in pictures.items():
                path = folder / f"{advice.source}_{name}.png"
                path.write_bytes(picture)
                written.append(path)
        if report is not None:
            report.write_text(_report(advice, pictures), encoding="utf-8")
            written.append(report)
    return written


@contextmanager
def _writing() -> Iterator[None]:
    """TG712 for what the disk refuses."""
    try:
        yield
    except OSError as error:
        raise TidegateError(
            "TG712",
            f"can't write {error.filename}: {error.strerror}",
            hint="choose another file for --plot or --html",
        ) from None


# -- tables, for the terminal and the report ------------------------------------------------------------------------


def headline(advice: Advice) -> str:
    """The answer in two lines: a clause to paste, and what it would have done."""
    choice = advice.choice
    verb = "keeps" if advice.exact else "keeps an estimated"
    late = f"{choice.late:,} of {advice.rows:,} would be late"
    text = f"{advice.clause}\n{verb} {100 * choice.share:.3f} % of the rows on time: {late}"
    if advice.declared_delay is not None:
        more = advice.recommended - advice.declared_delay
        if more:
            word = "later" if more > 0 else "earlier"
            text += f"; windows close {advice.text(abs(more))} {word} than now"
    return text


def choice_table(advice: Advice) -> tuple[list[str], list[list[object]], int]:
    """(columns, rows, index of the recommended row) of the delays that are worth a look."""
    waits = any(c.waits is not None for c in advice.choices)
    columns = ["delay", "on time %", "late", *(["window closes after (median, p95)"] if waits else []), ""]
    rows: list[list[object]] = []
    for c in advice.choices:
        cells: list[object] = [advice.text(c.delay), f"{100 * c.share:.3f}", c.late]
        if waits:
            cells.append("" if c.waits is None else f"{_seconds(c.waits[0])}, {_seconds(c.waits[1])}")
        rows.append([*cells, c.why])
    return columns, rows, [c.delay for c in advice.choices].index(advice.recommended)


def partition_table(advice: Advice) -> tuple[list[str], list[list[object]]]:
    """Quantiles of out-of-orderness: of all rows, then of the partitions with the most rows."""
    from tidegate.advise.operator import QUANTILES

    columns = [
        "partition",
        "rows",
        "late now",
        *(f"p{100 * q:g}" for q in QUANTILES),
        "SOURCE_WATERMARK() late %",
    ]
    most = sorted(advice.partitions, key=lambda p: (-p.rows, p.partition))[:_SHOWN]
    rows: list[list[object]] = [
        [
            "all",
            advice.rows,
            advice.recorded_late,
            *map(advice.text, advice.out_of_orderness),
            _percent(advice.learned_late),
        ]
    ]
    for p in most:
        rows.append(
            [p.partition, p.rows, p.late, *map(advice.text, p.out_of_orderness), _percent(p.learned_late)]
        )
    return columns, rows


def lag_table(advice: Advice) -> tuple[list[str], list[list[object]]] | None:
    """Quantiles of arrival - event time; None where the clock has nothing to say."""
    from tidegate.advise.operator import QUANTILES

    if advice.lag is None:
        return None
    columns = ["partition", *(f"p{100 * q:g}" for q in QUANTILES), "ahead of the clock"]
    most = sorted(advice.partitions, key=lambda p: (-p.rows, p.partition))[:_SHOWN]
    rows: list[list[object]] = [["all", *map(advice.text, advice.lag), advice.ahead]]
    rows += [[p.partition, *map(advice.text, p.lag), p.ahead] for p in most]
    return columns, rows


def together_table(advice: Advice) -> tuple[list[str], list[list[object]]]:
    """What one watermark for all partitions would drop."""
    columns = ["delay", "late, a watermark for each partition", "late, one for all", "lost more"]
    return columns, [[advice.text(t.delay), t.own, t.together, t.together - t.own] for t in advice.together]


def learned_table(advice: Advice) -> tuple[list[str], list[list[object]]]:
    """The delays that SOURCE_WATERMARK() would have had: at the beginning, in between, at the end."""
    rows: list[list[object]] = []
    for partition, points in advice.delays_over_time.items():
        delays = sorted(d for _, _, d in points)
        middle = delays[len(delays) // 2]
        rows.append(
            [partition, *map(advice.text, (points[0][2], delays[0], middle, delays[-1], points[-1][2]))]
        )
    return ["partition", "first", "shortest", "median", "longest", "last"], rows


def show(console: Console, advice: Advice) -> None:
    """The choices, the distributions, the alternatives, and last the clause."""
    from tidegate.console.port import Table

    columns, rows, _ = choice_table(advice)
    console.table(Table(columns, rows, title=f"{advice.source}: declared {advice.declared}", unit=None))
    columns, rows = partition_table(advice)
    console.table(Table(columns, rows, title="\nhow far rows are behind their partition", unit=None))
    clock = lag_table(advice)
    if clock is not None:
        console.table(Table(*clock, title="\narrival - event time", unit=None))
    if len(advice.partitions) > 1:
        console.table(
            Table(
                *together_table(advice), title="\na watermark for each partition, or one for all", unit=None
            )
        )
    if advice.delays_over_time:
        console.table(Table(*learned_table(advice), title="\nthe delay of SOURCE_WATERMARK()", unit=None))
    for note in advice.notes:
        console.note(f"note: {note}")
    console.document(None, f"\n{headline(advice)}")


_TITLES = {
    "completeness": "Completeness against delay",
    "lateness": "How far rows are behind",
    "source_watermark": "The delay of SOURCE_WATERMARK() over time",
    "watermarks": "Watermarks over time",
    "lag": "How far the watermark trails",
}


def _report(advice: Advice, pictures: dict[str, bytes]) -> str:
    from tidegate.page import Section, page

    columns, rows, best = choice_table(advice)
    clause, said = headline(advice).split("\n", 1)
    sections = [
        Section("Recommended", text=(said,), code=clause),
        Section("Choices", columns=columns, rows=rows, best=best),
        *_drawn(pictures, "completeness", "lateness"),
        Section(
            "How far rows are behind, by partition",
            columns=partition_table(advice)[0],
            rows=partition_table(advice)[1],
        ),
    ]
    clock = lag_table(advice)
    if clock is not None:
        sections.append(Section("Arrival - event time", columns=clock[0], rows=clock[1]))
    if len(advice.partitions) > 1:
        together = together_table(advice)
        sections.append(
            Section("A watermark for each partition, or one for all", columns=together[0], rows=together[1])
        )
    sections += _drawn(pictures, "source_watermark", "watermarks", "lag")
    windows = [name for name in pictures if name.startswith("windows_")]
    sections += _drawn(pictures, *windows)
    if advice.notes:
        sections.append(Section("Limits of these numbers", text=advice.notes))
    subtitle = f"{advice.rows:,} rows measured, declared: {advice.declared}"
    return page(f"{advice.source}: which delay?", subtitle, sections)


def _drawn(pictures: dict[str, bytes], *names: str) -> Sequence[Section]:
    from tidegate.page import Section

    found = []
    for name in names:
        if name in pictures:
            title = _TITLES.get(name) or f"Raw and windowed: {name.removeprefix('windows_')}"
            found.append(Section(title, picture=pictures[name], alt=title))
    return found


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _seconds(seconds: float) -> str:
    from tidegate.project.reading.durations import format_duration

    return f"{seconds:.1f} seconds" if abs(seconds) < 60 else format_duration(seconds)
