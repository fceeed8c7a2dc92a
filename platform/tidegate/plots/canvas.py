"""What all plots share: a figure, a palette that colour-blind people can tell apart, units that read well, PNG out."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from tidegate.project.reading.durations import format_duration

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Okabe and Ito's palette: lines of partitions.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6d31", "#666666")
BLUE, RED, GREEN, GREY, ORANGE = "#1f6f8b", "#c8354a", "#1b7f4d", "#7a7a7a", "#e69f00"

_UNITS = (
    (86_400.0, "days"),
    (3_600.0, "hours"),
    (60.0, "minutes"),
    (1.0, "seconds"),
    (0.001, "milliseconds"),
)


def figure(width: float, height: float, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty figure of so many inches, and its axes from top to bottom, which share their x axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    for one in axes:
        one.grid(alpha=0.25)
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
        one.tick_params(labelsize=8)
    return made, list(axes)


def title(axes: Axes, text: str) -> None:
    """The headline, above the left edge."""
    axes.set_title(text, loc="left", fontsize=10)


def png(made: Figure) -> bytes:
    """The figure as PNG. Texts are shown as they are: between two $ in a name there is no formula."""
    from matplotlib.text import Text

    # All but the powers of ten of a logarithmic axis.
    axes = [axis for one in made.axes for axis in (one.xaxis, one.yaxis) if axis.get_scale() == "log"]
    powers = {id(label) for axis in axes for label in axis.get_ticklabels(which="both")}
    for text in made.findobj(Text):
        text.set_parse_math(id(text) in powers)
    out = BytesIO()
    made.savefig(out, format="png")
    return out.getvalue()


def unit(seconds: float) -> tuple[float, str]:
    """(seconds in it, its name) of the unit in which a length of about so many seconds reads well."""
    return next((u for u in _UNITS if seconds >= 2 * u[0]), _UNITS[-1] if seconds > 0 else _UNITS[3])


def spoken(seconds: float, in_seconds: bool = True) -> str:
    """`2 hours 45 minutes`, `0.05 seconds`; an integer without a unit as it is."""
    if not in_seconds or seconds < 10:
        name = " second" if seconds == 1 else " seconds"
        return f"{seconds:.4g}{name if in_seconds else ''}"
    return format_duration(seconds)


def instants(seconds: Sequence[float | None]) -> list[np.datetime64]:
    """Seconds since 1970 as matplotlib takes times, in UTC; None becomes a gap."""
    import numpy as np

    micros = [None if s is None else round(s * 1_000_000) for s in seconds]
    return [np.datetime64("NaT") if m is None else np.datetime64(m, "us") for m in micros]


def dated(axis: Axis) -> None:
    """Ticks of an axis of times that repeat no date."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


def empty(axes: Axes, text: str) -> None:
    """Say so where there is nothing to draw."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color=GREY)
