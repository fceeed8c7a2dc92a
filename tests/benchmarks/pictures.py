"""The plot of a curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.plots.canvas import COLORS, figure, png, title

if TYPE_CHECKING:
    from tests.benchmarks.suites.suite import Suite


def curve(suite: Suite, document: dict[str, Any], path: Path) -> None:
    """A line for each engine and number, through medians; every run is a dot."""
    made, (axes,) = figure(7.5, 3.4)
    title(axes, suite.title)
    engines = dict.fromkeys(point["engine"] for point in document["points"])
    lines = [(engine, name) for engine in engines for name in suite.y]
    for color, (engine, name) in zip(COLORS, lines, strict=False):
        points = sorted((p for p in document["points"] if p["engine"] == engine), key=lambda p: p["at"])
        points = [p for p in points if name in p["median"]]
        label = engine if len(suite.y) == 1 else name.removesuffix("_s")
        axes.plot([p["at"] for p in points], [p["median"][name] for p in points], color=color, label=label)
        dots = [(p["at"], run[name]) for p in points for run in p["runs"] if name in run]
        axes.scatter(*zip(*dots, strict=True), color=color, s=14)
    places = sorted({point["at"] for point in document["points"]})
    if suite.log_x:
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(places, [f"{place:,g}" for place in places])
    axes.set_xlabel(suite.x, fontsize=9)
    axes.set_ylabel(suite.y_label, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(made))
