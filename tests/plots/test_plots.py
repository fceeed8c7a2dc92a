"""Every plot is a picture of what it is given: decoded, never blank, and other data give another one."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from tidegate import plots
from tidegate.page import Section, page
from tidegate.plots.canvas import spoken, unit

RANDOM = Random(2)
HOUR = 3600.0
AT = [1.7e9 + 60 * i for i in range(40)]
MARKS = [a - 300 - RANDOM.random() * 100 for a in AT]
LOWER = [m - 200 for m in MARKS]
DELAYS = [60.0 * i for i in range(100)]
SHARES = [1 - 0.4 * 0.95**i for i in range(100)]
WINDOWS = [1.7e9 + HOUR * i for i in range(30)]
RAW = [100 + RANDOM.randrange(20) for _ in WINDOWS]
LATE = [RANDOM.randrange(9) for _ in WINDOWS]
COUNTED = [r - n for r, n in zip(RAW, LATE, strict=True)]
NONE = [0] * 30
IDLE = [(m, "idle" if 10 < i < 30 else "active") for i, m in enumerate(MARKS)]

#: Two calls of each that must not look the same.
PAIRS: dict[str, tuple[Callable[[], bytes], Callable[[], bytes]]] = {
    "completeness": (
        lambda: plots.completeness(
            "s", DELAYS, SHARES, 10, {"declared": (600.0, 0.76), "knee": (600.0, 0.76)}
        ),
        lambda: plots.completeness("s", DELAYS, SHARES, 10, {"recommended": (1200.0, 0.85)}),
    ),
    "lateness": (
        lambda: plots.lateness("s", {0.0: 50, **{d: 100 - i for i, d in enumerate(DELAYS[1:])}}, 600.0),
        lambda: plots.lateness("s", {0.0: 50, 5.0: 3}, None, in_seconds=False),
    ),
    "watermark_timeline": (
        lambda: plots.watermark_timeline("s", AT, LOWER, {"a": [(m, "active") for m in MARKS]}),
        lambda: plots.watermark_timeline("s", AT, LOWER, {"a": IDLE}, {"v": [(AT[9], MARKS[8])]}),
    ),
    "lag": (
        lambda: plots.lag("s", AT, [400.0] * 40, [None] * 40),
        lambda: plots.lag("s", AT, [None, *[400.0 + i for i in range(39)]], [30.0] * 40),
    ),
    "delays": (
        lambda: plots.delays("s", {"a": [(250.0 * i, 60.0 + i) for i in range(9)]}),
        lambda: plots.delays("s", {"a": [(250.0 * i, 604_800.0 if i < 2 else 1.0) for i in range(9)]}, 60.0),
    ),
    "reconciliation": (
        lambda: plots.reconciliation("v", WINDOWS, RAW, COUNTED, LATE, NONE, NONE),
        lambda: plots.reconciliation("v", WINDOWS, RAW, [COUNTED[0] - 5, *COUNTED[1:]], LATE, NONE, NONE),
    ),
}
NOTHING = {
    "completeness": lambda: plots.completeness("s", [0.0], [1.0], 1),
    "lateness": lambda: plots.lateness("s", {0.0: 5}),
    "watermark_timeline": lambda: plots.watermark_timeline("s", AT[:1], [None], {"a": [(None, "warming")]}),
    "lag": lambda: plots.lag("s", [], [], []),
    "delays": lambda: plots.delays("s", {}),
    "reconciliation": lambda: plots.reconciliation("v", [], [], [], [], [], []),
}


def pixels(png: bytes) -> np.ndarray:
    from matplotlib.image import imread

    return imread(io.BytesIO(png), format="png")


@pytest.mark.medium
@pytest.mark.parametrize("name", list(PAIRS))
def test_a_plot_is_drawn_and_shows_its_data(name: str) -> None:
    files = [make() for make in PAIRS[name]]
    assert max(map(len, files)) < 80_000, "small enough for metadata"
    first, second = map(pixels, files)
    assert first.shape[0] > 200
    assert first.shape[1] > 500
    for picture in (first, second):
        # Frame, grid and text are grey; what is drawn from the data has a colour.
        coloured = np.ptp(picture[..., :3], axis=-1) > 0.2
        assert np.count_nonzero(coloured) > 300
    assert first.shape != second.shape or np.abs(first - second).sum() > 100


@pytest.mark.medium
@pytest.mark.parametrize("name", list(NOTHING))
def test_nothing_to_draw_is_said_and_never_fails(name: str) -> None:
    assert name in plots.__all__
    assert len(np.unique(pixels(NOTHING[name]()))) > 3


def test_lengths_are_told_in_units_that_read_well() -> None:
    assert [spoken(s) for s in (0.05, 1, 90, 3660, 9900)] == [
        "0.05 seconds", "1 second", "1 minute 30 seconds", "1 hour 1 minute", "2 hours 45 minutes",
    ]  # fmt: skip
    assert spoken(250, in_seconds=False) == "250"
    assert [unit(s)[1] for s in (0.01, 3, 200, 9000, 400_000)] == [
        "milliseconds", "seconds", "minutes", "hours", "days",
    ]  # fmt: skip


def test_a_report_is_one_file_in_which_text_stays_text() -> None:
    text = page(
        "<s>: which delay?",
        "3 rows",
        [
            Section(
                "Choices",
                ("a & b",),
                code="ts - INTERVAL '1'",
                columns=["d", "n"],
                rows=[["<1>", 1000]],
                best=0,
            ),
            Section("Curve", picture=b"\x89PNG", alt='"quoted"'),
        ],
    )
    for found in ("&lt;s&gt;", "a &amp; b", "&lt;1&gt;", '<td class="n">1,000</td>', '<tr class="best">'):
        assert found in text
    assert 'src="data:image/png;base64,iVBORw=="' in text
    assert 'alt="&quot;quoted&quot;"' in text
    assert "<s>" not in text
