"""What a run of `make soak` leaves: a plot, a table of trends, and the figures of docs/soak.md."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.soak.sample import Series
from tests.soak.trend import Trend

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
Sample = Mapping[str, float]


def write_csv(path: Path, names: Sequence[str], samples: Sequence[Sample]) -> None:
    """One line for each sample; what was not to be had is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["seconds", *names], restval="")
        writer.writeheader()
        for sample in samples:
            writer.writerow({name: f"{sample[name]:.6g}" for name in ("seconds", *names) if name in sample})


def read_csv(path: Path) -> list[dict[str, float]]:
    """The samples that `write_csv` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: float(text) for name, text in line.items() if text} for line in csv.DictReader(file)]


def plot(
    path: Path,
    series: Mapping[str, Series],
    samples: Sequence[Sample],
    warm_up: float,
    trends: Mapping[str, Trend],
) -> None:
    """A small plot for each series; the warm-up is shaded, what grows is red."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [name for name in series if any(name in sample for sample in samples)]
    columns = 4
    lines = -(-len(shown) // columns)
    figure, axes = pyplot.subplots(lines, columns, figsize=(4.2 * columns, 2.1 * lines), squeeze=False)
    for axis in axes.flat[len(shown) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, shown, strict=False):
        points = [(sample["seconds"] / 60, sample[name]) for sample in samples if name in sample]
        found = trends.get(name)
        color = "tab:red" if found is not None and found.growing else "tab:blue"
        axis.plot(*zip(*points, strict=True), color=color, linewidth=1)
        axis.axvspan(0, warm_up / 60, color="0.92")
        unit = f" ({series[name].unit})" if series[name].unit else ""
        axis.set_title(name + unit, fontsize=8)
        axis.set_ylim(0, 1.1 * max(value for _, value in points) or 1)
        axis.tick_params(labelsize=7)
    figure.supxlabel("minutes", fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the time of day: the same samples give the same file.
    figure.savefig(path, dpi=80, metadata={"Software": None})
    pyplot.close(figure)


def table(trends: Sequence[Trend]) -> str:
    """The trends in Markdown."""
    lines = ["| series | level | highest | change per hour | verdict |", "|---|---:|---:|---:|---|"]
    for t in trends:
        unit = f" {t.unit}" if t.unit else ""
        verdict = "**growing**" if t.growing else t.verdict
        lines.append(
            f"| {t.name} | {number(t.level)}{unit} | {number(t.highest)}{unit} | {t.per_hour:+,.3g}{unit} | {verdict} |"
        )
    return "\n".join(lines)


def number(value: float) -> str:
    """Three digits are enough to read."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def figures(trends: Sequence[Trend], facts: Mapping[str, str], image: str) -> str:
    """The part of docs/soak.md that a run writes."""
    said = "\n".join(f"* {name}: {value}" for name, value in facts.items())
    return f"{said}\n\n{table(trends)}\n\n![every series over the time of the run]({image})"


def write_docs(page: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Put the figures between the marks of the page. Raises ValueError if it has none."""
    old = page.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    if not pattern.search(old):
        raise ValueError(f"{page} has no place for figures ({begin} … {end})")
    page.write_text(pattern.sub(lambda _: f"{begin}\n{text}\n{end}", old), encoding="utf-8")
