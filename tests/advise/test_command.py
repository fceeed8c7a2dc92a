"""`tidegate advise` and its report: what is asked wrongly, and what a reader gets."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import shop as shop  # the fixtures
from tests.cli.conftest import tidegate as tidegate
from tidegate.advise.facts import History
from tidegate.advise.measure import waits
from tidegate.advise.operator import EpochHistory
from tidegate.cli.commands.questions.advise import read_share
from tidegate.errors import TidegateError
from tidegate.watermark import UNDEFINED

Call = Callable[..., Any]


def drawn(png: bytes) -> np.ndarray:
    """The pixels of a PNG; what is blank has one colour."""
    from matplotlib.image import imread

    pixels = imread(io.BytesIO(png), format="png")
    assert len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)) > 50
    return pixels


@pytest.mark.parametrize(
    ("text", "share"), [("99%", 0.99), ("99.9 %", 0.999), ("0.95", 0.95), ("100%", 1.0), ("1", 1.0)]
)
def test_a_completeness_is_percent_or_a_share(text: str, share: float) -> None:
    assert read_share(text) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("text", ["99", "0", "-1%", "101%", "much", "nan"])
def test_TG711_what_is_no_share(text: str) -> None:
    with pytest.raises(TidegateError) as caught:
        read_share(text)
    assert (caught.value.code, caught.value.hint) == ("TG711", "write 99.9%, or 0.999")


def test_a_view_is_answered_before_a_jvm_starts(tidegate: Call) -> None:
    result = tidegate("advise", "orders_hourly")
    assert (result.exit_code, "TG701" in result.stderr, "tidegate advise orders" in result.stderr) == (
        2, True, True,
    )  # fmt: skip
    assert tidegate("advise", "nothing").exit_code == 2
    assert "TG711: the sample 2 is not possible" in tidegate("advise", "orders", "--sample", "2").stderr


def test_TG512_and_TG711_what_has_no_answer_is_refused_before_a_jvm_starts(
    tidegate: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.cli.invocation.Invocation.session", None)
    Path("assets/more.sql").write_text(
        "CREATE TABLE plain (id INT) APPEND ONLY;\n"
        "CREATE TABLE stock (id INT PRIMARY KEY, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 day' WITH TTL);\n"
    )
    for name, code, hint in (
        ("plain", "TG512", "add WATERMARK FOR"),
        ("stock", "TG711", "append-only table"),
        ("orders", "TG512", "tidegate run orders"),
    ):
        result = tidegate("advise", name)
        assert (result.exit_code, code in result.stderr, hint in result.stderr) == (2, True, True), name


def test_help_has_an_example(tidegate: Call) -> None:
    text = tidegate("advise", "--help").stdout
    assert "Example: tidegate advise flights" in text
    for option in ("--completeness", "--sample", "--plot", "--html", "--json"):
        assert option in text


def test_waits_are_from_the_end_of_a_window_to_the_batch_that_closes_it() -> None:
    # A batch every second; its newest event is as old as the clock says: a window waits for its delay and a batch.
    second = 1_000_000
    at = np.arange(1000, 1400, dtype=np.float64)
    mark = (at * second).astype(np.int64)
    empty = np.full(len(at), UNDEFINED, dtype=np.int64)
    facts = EpochHistory(np.arange(len(at)), mark, empty, empty, np.zeros(len(at), dtype=np.int64))
    history = History(facts, at, mark, True, 0, 0)
    for delay in (0, 10, 60):
        median, late = waits(history, delay * second) or (0.0, 0.0)
        assert delay <= median <= delay + 1
        assert median <= late <= delay + 1
    assert waits(history, 10_000 * second) is None, "nothing has closed"
    assert waits(History(facts, at, empty, True, 0, 0), 0) is None


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.long_run
def test_from_run_to_report(tidegate: Call, tmp_path: Path) -> None:
    first = tidegate("advise", "orders")
    assert (first.exit_code, "TG512" in first.stderr) == (2, True)
    tidegate("run")
    result = tidegate("advise", "orders", "--json", "--plot", "plots", "--html", "out/report.html")
    answer = json.loads(result.stdout.splitlines()[-1])
    assert (answer["rows"], answer["recorded_late"], answer["exact"]) == (13, 1, True)
    declared = next(c for c in answer["choices"] if "declared" in c["why"])
    assert (declared["late"], declared["completeness"]) == (1, pytest.approx(12 / 13))
    assert re.fullmatch(r"WATERMARK FOR \w+ AS .*", answer["recommended"]["clause"])
    assert [p["partition"] for p in answer["partitions"]] == ["berlin", "paris"]

    plots = sorted(p.name for p in Path("plots").iterdir())
    assert plots == [
        "orders_completeness.png",
        "orders_lag.png",
        "orders_lateness.png",
        "orders_source_watermark.png",
        "orders_watermarks.png",
        "orders_windows_orders_hourly.png",
    ]
    for name in plots:
        drawn((Path("plots") / name).read_bytes())
    page = Path("out/report.html").read_text(encoding="utf-8")
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(pictures) == len(plots)
    for picture in pictures:
        drawn(base64.b64decode(picture))
    assert answer["recommended"]["clause"].replace("'", "&#x27;") in page
    assert not re.search(r'(src|href)="(?!data:)', page), "it loads nothing from anywhere"

    shown = tidegate("advise", "orders", "--completeness", "100%")
    assert shown.exit_code == 0
    assert "keeps 100.000 % of the rows on time: 0 of 13 would be late" in shown.stdout
    blocked = tmp_path / "file"
    blocked.write_text("")
    refused = tidegate("advise", "orders", "--html", str(blocked / "report.html"))
    assert (refused.exit_code, "TG712" in refused.stderr, "reading" in refused.stderr) == (2, True, False)
