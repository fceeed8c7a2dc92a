"""Plots as PNG. matplotlib is imported when one is drawn, never before."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.audit.completeness import Completeness

_MINUTE = 60_000_000


def completeness_png(curve: Completeness, width: float = 7.0, height: float = 3.6) -> bytes:
    """The completeness curve of a source with a TIMESTAMP or TIMESTAMPTZ event time: delay in minutes against the
    share of rows on time, and the declared delay marked. Inches in, PNG bytes out.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    minutes = [d / _MINUTE for d in curve.delays]
    axes.step(minutes, [100 * s for s in curve.shares], where="post", color="#1f6f8b", linewidth=2)
    # The long tail of stragglers would squeeze the part that a choice is made in.
    reach = next(
        (m for m, s in zip(minutes, curve.shares, strict=True) if s >= 0.999), minutes[-1] if minutes else 1
    )
    axes.set_xlim(0, max(reach, 1.0))
    axes.set_ylim(min([100 * curve.shares[0], 60.0]) if curve.shares else 0, 100.5)
    if curve.delay is not None:
        at, share = curve.delay / _MINUTE, 100 * curve.on_time
        axes.axvline(at, color="#d1495b", linestyle="--", linewidth=1)
        axes.plot([at], [share], "o", color="#d1495b")
        axes.annotate(
            f"declared: {at:g} min\n{share:.2f} % on time",
            (at, share),
            xytext=(8, -30),
            textcoords="offset points",
            color="#d1495b",
        )
    axes.set_xlabel("watermark delay (minutes behind the newest row of the partition)")
    axes.set_ylabel("rows on time (%)")
    axes.set_title(
        f"{curve.source}: completeness against delay, {curve.rows:,} rows", loc="left", fontsize=10
    )
    axes.grid(alpha=0.25)
    out = BytesIO()
    canvas.print_png(out)
    return out.getvalue()
