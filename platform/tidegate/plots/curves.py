"""Completeness against delay, and how late rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.plots import canvas

_MARKS = {
    "knee": (canvas.ORANGE, "knee"),
    "declared": (canvas.RED, "declared"),
    "recommended": (canvas.GREEN, "recommended"),
}


def completeness(
    source: str,
    delays: Sequence[float],
    shares: Sequence[float],
    rows: int,
    marks: Mapping[str, tuple[float, float]] | None = None,
    in_seconds: bool = True,
    width: float = 7.0,
    height: float = 3.6,
) -> bytes:
    """The completeness curve: share of rows on time (0 to 1) for each delay (ascending; seconds, or integers without a
    unit), and what is to be marked on it: `knee`, `declared`, `recommended`, each (delay, share). Inches in, PNG out.
    """
    made, (axes,) = canvas.figure(width, height)
    marks = dict(marks or {})
    # The long tail of stragglers would squeeze the part that a choice is made in.
    best = shares[-1] if shares else 1.0
    reach = next((d for d, s in zip(delays, shares, strict=True) if s >= 0.995 * best), 0.0)
    reach = max([reach, *(1.15 * d for d, _ in marks.values())]) or 1.0
    scale, name = canvas.unit(reach) if in_seconds else (1.0, "of the column's own units")
    axes.step(
        [d / scale for d in delays], [100 * s for s in shares], where="post", color=canvas.BLUE, linewidth=2
    )
    axes.set_xlim(-0.01 * reach / scale, reach / scale)
    low = 100 * min([shares[0] if shares else 1.0, 0.9])
    axes.set_ylim(low - 0.06 * (100 - low), 100 + 0.04 * (100 - low))
    together: dict[tuple[float, float], list[str]] = {}
    for kind, at in marks.items():
        together.setdefault(at, []).append(kind)
    for number, (at, kinds) in enumerate(sorted(together.items())):
        color = _MARKS[kinds[-1]][0]
        axes.axvline(at[0] / scale, color=color, linestyle="--", linewidth=1)
        axes.plot([at[0] / scale], [100 * at[1]], "o", color=color)
        words = " = ".join(_MARKS[k][1] for k in kinds)
        right = at[0] > 0.75 * reach
        axes.annotate(
            f"{words}: {canvas.spoken(at[0], in_seconds)}\n{100 * at[1]:.2f} % on time",
            (at[0] / scale, low + (100 - low) * (0.08 + 0.17 * (number % 4)) if not right else 100 * at[1]),
            xytext=(-6 if right else 6, -34 if right else 0),
            ha="right" if right else "left",
            textcoords="offset points",
            color=color,
            fontsize=8,
        )
    axes.set_xlabel(f"delay behind the newest row of the partition ({name})", fontsize=9)
    axes.set_ylabel("rows on time (%)", fontsize=9)
    canvas.title(axes, f"{source}: completeness against delay, {rows:,} rows")
    return canvas.png(made)


def lateness(
    source: str,
    needed: Mapping[float, int],
    declared: float | None = None,
    in_seconds: bool = True,
    bins: int = 60,
    width: float = 7.0,
    height: float = 3.2,
) -> bytes:
    """Histogram of out-of-orderness: rows by how far they are behind the newest row of their partition before them
    (seconds, or integers without a unit), those in order left out and named. `declared`: a delay; rows beyond it are
    late and drawn so. The count is on a logarithmic scale. PNG bytes out.
    """
    import numpy as np

    made, (axes,) = canvas.figure(width, height)
    in_order, behind = needed.get(0, 0), sorted((d, n) for d, n in needed.items() if d > 0)
    total = in_order + sum(n for _, n in behind)
    canvas.title(axes, f"{source}: how far rows are behind, {_share(in_order, total)} are not")
    axes.set_ylabel("rows", fontsize=9)
    if not behind:
        canvas.empty(axes, "every row came in order")
        return canvas.png(made)
    values, counts = np.array([d for d, _ in behind]), np.array([n for _, n in behind], dtype=np.int64)
    # The last rows of a thousand stretch the axis, and are told in words.
    edge = values[min(int(np.searchsorted(np.cumsum(counts), 0.998 * counts.sum())), len(values) - 1)]
    scale, name = canvas.unit(float(edge)) if in_seconds else (1.0, "of the column's own units")
    edges = np.linspace(0, float(edge) / scale, bins + 1)
    heights, _ = np.histogram(values / scale, bins=edges, weights=counts)
    colors = [canvas.BLUE] * bins
    if declared is not None:
        colors = [canvas.RED if left >= declared / scale else canvas.BLUE for left in edges[:-1]]
        axes.axvline(declared / scale, color=canvas.RED, linestyle="--", linewidth=1)
        late = int(counts[values > declared].sum())
        axes.annotate(
            f" declared: {canvas.spoken(declared, in_seconds)}\n {late:,} rows behind it are late",
            (declared / scale, 0.86),
            xycoords=("data", "axes fraction"),
            color=canvas.RED,
            fontsize=8,
        )
    axes.bar(edges[:-1], heights, width=np.diff(edges), align="edge", color=colors, linewidth=0)
    axes.set_yscale("log")
    axes.set_ylim(0.7, None)
    beyond = int(counts[values > edge].sum())
    more = f"; {beyond:,} more rows up to {values[-1] / scale:.4g}" if beyond else ""
    axes.set_xlabel(f"behind the newest row of the partition ({name}{more})", fontsize=9)
    return canvas.png(made)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"
