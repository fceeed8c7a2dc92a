"""What moves with the clock: watermarks, lag, delays that were learned; and what each window holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.plots import canvas

#: States (W8) in which a partition takes no part in the watermark.
_ASLEEP = ("idle", "empty", "gone")


def watermark_timeline(
    source: str,
    at: Sequence[float],
    published: Sequence[float | None],
    partitions: Mapping[str, Sequence[tuple[float | None, str | None]]],
    closes: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    width: float = 8.0,
    height: float = 4.2,
) -> bytes:
    """Watermarks over the clock. `at`: the clock of each batch, ascending; `published`: the source's watermark after
    it; `partitions`: (watermark, state) of each partition after it, those that are idle drawn dotted; `closes`: of each
    view (when, frontier) of the ticks that closed windows. All times seconds since 1970, UTC; None: none yet. PNG
    bytes out.
    """
    made, (axes,) = canvas.figure(width, height)
    clock = canvas.instants(at)
    canvas.title(axes, f"{source}: watermarks, {len(at):,} commits")
    # Below the others: it is always as low as the lowest of them.
    axes.step(
        clock,
        canvas.instants(published),
        where="post",
        color="#b9c2c9",
        linewidth=5,
        label="published (G)",
        zorder=1.5,
    )
    for number, (name, series) in enumerate(partitions.items()):
        color = canvas.COLORS[number % len(canvas.COLORS)]
        marks = canvas.instants([mark for mark, _ in series])
        axes.step(clock, marks, where="post", color=color, linewidth=1.3, label=name, alpha=0.9)
        asleep = [mark if state in _ASLEEP else None for mark, state in series]
        if any(mark is not None for mark in asleep):
            axes.plot(clock, canvas.instants(asleep), ":", color=color, linewidth=3.5, label=f"{name}: idle")
    for number, (view, ticks) in enumerate((closes or {}).items()):
        inside = [
            (when, frontier) for when, frontier in ticks if at and at[0] - 3600 <= when <= at[-1] + 3600
        ]
        if inside:
            axes.plot(
                canvas.instants([when for when, _ in inside]),
                canvas.instants([frontier for _, frontier in inside]),
                linestyle="none",
                marker="^v<>sD"[number % 6],
                markersize=4,
                color="black",
                markerfacecolor="white",
                label=f"{view} closes",
            )
    if not at or all(mark is None for mark in published):
        canvas.empty(axes, "no watermark yet")
    if at:
        canvas.dated(axes.xaxis)
        axes.legend(fontsize=7, loc="best", framealpha=0.85)
    if any(mark is not None for mark in published):
        canvas.dated(axes.yaxis)
    axes.set_xlabel("clock (UTC)", fontsize=9)
    axes.set_ylabel("event time", fontsize=9)
    return canvas.png(made)


def lag(
    source: str,
    at: Sequence[float],
    behind_clock: Sequence[float | None],
    behind_newest: Sequence[float | None],
    width: float = 8.0,
    height: float = 3.2,
) -> bytes:
    """How far the published watermark trailed after each batch, in seconds: the clock, and the newest event time. `at`:
    seconds since 1970, UTC; None: no watermark yet. PNG bytes out.
    """
    made, (axes,) = canvas.figure(width, height)
    canvas.title(axes, f"{source}: how far the watermark trails")
    known = [v for v in (*behind_clock, *behind_newest) if v is not None]
    if not known:
        canvas.empty(axes, "no watermark yet")
        return canvas.png(made)
    scale, name = canvas.unit(max(known))
    clock = canvas.instants(at)
    for values, label, color in (
        (behind_clock, "behind the clock", canvas.RED),
        (behind_newest, "behind the newest event", canvas.BLUE),
    ):
        if any(v is not None for v in values):
            drawn = [float("nan") if v is None else v / scale for v in values]
            axes.step(clock, drawn, where="post", color=color, linewidth=1.5, label=label)
    axes.set_ylim(bottom=min(0.0, min(known) / scale))
    axes.set_ylabel(name, fontsize=9)
    axes.set_xlabel("clock (UTC)", fontsize=9)
    axes.legend(fontsize=8, loc="best")
    canvas.dated(axes.xaxis)
    return canvas.png(made)


def delays(
    source: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    declared: float | None = None,
    width: float = 7.0,
    height: float = 3.2,
) -> bytes:
    """What SOURCE_WATERMARK() would have chosen: of each partition (offset, delay in seconds), and the declared delay.
    PNG bytes out.
    """
    made, (axes,) = canvas.figure(width, height)
    canvas.title(axes, f"{source}: the delay that SOURCE_WATERMARK() would have had")
    longest = max((d for points in series.values() for _, d in points), default=0.0)
    scale, name = canvas.unit(declared or longest)
    for number, (partition, points) in enumerate(series.items()):
        axes.step(
            [offset for offset, _ in points],
            [max(delay / scale, 1e-9) for _, delay in points],
            where="post",
            color=canvas.COLORS[number % len(canvas.COLORS)],
            linewidth=1.2,
            label=partition,
        )
    if not longest:
        canvas.empty(axes, "too few rows")
        return canvas.png(made)
    if declared:
        axes.axhline(declared / scale, color=canvas.RED, linestyle="--", linewidth=1, label="declared")
    shortest = min(d for points in series.values() for _, d in points)
    if longest > 50 * max(shortest, 1e-9):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("offset", fontsize=9)
    axes.set_ylabel(name, fontsize=9)
    axes.legend(fontsize=8, loc="best")
    return canvas.png(made)


def reconciliation(
    view: str,
    ends: Sequence[float],
    raw: Sequence[int],
    counted: Sequence[int],
    late: Sequence[int],
    filtered: Sequence[int],
    rejected: Sequence[int],
    width: float = 8.0,
    height: float = 4.0,
) -> bytes:
    """Per window that is closed: the rows of the source in it and what became of them (A1), and below what is missing
    (raw - counted - filtered - late - rejected), which must be 0. `ends`: of the windows, seconds since 1970,
    ascending. PNG bytes out.
    """
    made, (top, low) = canvas.figure(width, height, rows=2)
    canvas.title(top, f"{view}: raw and windowed, {len(ends):,} closed windows")
    places = range(len(ends))
    missing = [
        a - b - c - d - e for a, b, c, d, e in zip(raw, counted, late, filtered, rejected, strict=True)
    ]
    base = [0] * len(ends)
    for values, label, color in (
        (counted, "counted", canvas.BLUE),
        (filtered, "filtered", canvas.GREY),
        (late, "late", canvas.ORANGE),
        (rejected, "rejected", canvas.RED),
    ):
        if any(values):
            top.bar(places, values, bottom=base, width=1.0, color=color, label=label, linewidth=0)
            base = [a + b for a, b in zip(base, values, strict=True)]
    top.step(places, raw, where="mid", color="black", linewidth=1, label="raw")
    top.legend(fontsize=7, loc="best", ncols=5, framealpha=0.85)
    top.set_ylabel("rows", fontsize=9)
    low.bar(places, missing, width=1.0, color=canvas.RED, linewidth=0)
    low.axhline(0, color="black", linewidth=0.8)
    bound = max([1, *(abs(m) for m in missing)])
    low.set_ylim(-1.1 * bound, 1.1 * bound)
    wrong = sum(1 for m in missing if m)
    low.set_ylabel("not accounted for", fontsize=8)
    low.set_xlabel(
        f"windows whose counts differ: {wrong:,}"
        if wrong
        else "window_end (UTC): the counts of all windows agree",
        fontsize=9,
        color=canvas.RED if wrong else "black",
    )
    if ends:
        named = sorted({round(k * (len(ends) - 1) / 5) for k in range(6)})
        low.set_xticks(named, [str(canvas.instants([ends[k]])[0])[:16].replace("T", "\n") for k in named])
        low.set_xlim(-0.6, len(ends) - 0.4)
    else:
        canvas.empty(top, "no window is closed yet")
    return canvas.png(made)
