"""What a suite is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.benchmarks.bench import Bench
from tests.benchmarks.results import Result


@dataclass(frozen=True)
class Suite:
    """`measure` does the work. `title` and `about` are what the page says; `minutes` what it takes at full scale on two
    cores, about. `columns`: the numbers that its table shows. A curve has `x`, what `at` means, and `y`: what is drawn
    (names of numbers) with its label."""

    name: str
    title: str
    about: str
    minutes: int
    measure: Callable[[Bench], Result]
    columns: tuple[str, ...] = ("cpu_s_per_mrow", "work_cpu_s_per_mrow", "wall_s", "peak_rss_mb")
    x: str | None = None
    y: tuple[str, ...] = ("work_cpu_s_per_mrow",)
    y_label: str = "CPU seconds per million rows, work only"
    log_x: bool = True
