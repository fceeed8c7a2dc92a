"""A person's terminal: a progress bar per source while batches commit, a line per finished thing."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from tidegate.console.drawing import draw
from tidegate.console.lines import counts, describe_event, rate
from tidegate.console.port import Shape, Table
from tidegate.errors import TidegateError
from tidegate.plan import events
from tidegate.plan.events import Event


class TerminalConsole:
    """Answers and tables on `out`, at its width; progress, notes and errors on `err`.

    Rows and watermark of a bar are those of the last commit: what is shown survives a kill.
    """

    def __init__(
        self, out: TextIO | None = None, err: TextIO | None = None, width: int | None = None
    ) -> None:
        self._out = out or sys.stdout
        self._rich = RichConsole(file=err or sys.stderr, width=width, highlight=False, force_terminal=True)
        self._width = width or self._rich.width
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._seconds: dict[str, float] = {}
        self._rows: dict[str, int] = {}

    @property
    def shape(self) -> Shape:
        return Shape(width=self._width)

    def event(self, event: Event) -> None:
        match event:
            case events.RunStarted():
                self._start()
            case events.SourceStarted():
                self._bar(event.source, event.pending_rows)
            case events.DefinitionChanged():
                self._line(" ", "dim", describe_event(event))
            case events.BatchCommitted():
                self._advance(event)
            case events.SourceFinished():
                self._finish(event.source)
                self._line("✓", "green", describe_event(event))
            case events.SliceCommitted():
                self._line(" ", "dim", describe_event(event))
            case events.ViewFinished():
                self._line("✓", "green", describe_event(event))
            case events.RowsDelivered():
                self._plain(describe_event(event))
            case events.SinkDelivered():
                self._line("✓", "green", describe_event(event))
            case events.StepFailed():
                self._finish(event.name)
                self._line("✗", "red", describe_event(event))
            case events.StepSkipped():
                self._line("–", "yellow", describe_event(event))
            case events.RunFinished():
                self.close()
                self._line(" ", "dim", f"{event.seconds:.1f} s")

    def table(self, table: Table) -> None:
        self._plain(draw(table, self._width))

    def written(self, text: str) -> None:
        self._plain(text)

    def document(self, data: Any, text: str) -> None:
        self._plain(text)

    def note(self, text: str) -> None:
        self._rich.print(Text(text, style="dim"), soft_wrap=True)

    def error(self, error: TidegateError | str) -> None:
        self.close()
        first, _, rest = str(error).partition("\n")
        self._rich.print(Text(first, style="bold red"), soft_wrap=True)
        if rest:
            self._rich.print(Text(rest), soft_wrap=True)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._tasks.clear()

    def _start(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[facts]}", markup=False),
                console=self._rich,
                transient=True,
            )
            self._progress.start()
        return self._progress

    def _bar(self, source: str, pending: int | None) -> TaskID:
        progress = self._start()
        if source not in self._tasks:
            self._tasks[source] = progress.add_task(source, total=pending, facts="starting")
            self._seconds[source] = 0.0
            self._rows[source] = 0
        return self._tasks[source]

    def _advance(self, event: events.BatchCommitted) -> None:
        task = self._bar(event.source, None)
        self._rows[event.source] += event.rows
        self._seconds[event.source] += event.seconds
        rows, seconds = self._rows[event.source], self._seconds[event.source]
        judged = counts(event.on_time, event.late, event.rejected)
        facts = f"{rows:,} rows  {rate(rows, seconds)}  watermark {event.watermark}  (last batch: {judged})"
        # At once, not at the next tick: a commit that was seen here is a commit that happened.
        self._start().update(task, advance=event.rows, facts=facts, refresh=True)

    def _finish(self, source: str) -> None:
        task = self._tasks.pop(source, None)
        if self._progress is not None and task is not None:
            self._progress.remove_task(task)

    def _line(self, mark: str, style: str, text: str) -> None:
        self._rich.print(Text.assemble((mark, style), " ", text), soft_wrap=True)

    def _plain(self, text: str) -> None:
        self.close()
        # Not through rich: data must not be read as markup, nor wrapped.
        self._out.write(text + "\n")
        self._out.flush()
