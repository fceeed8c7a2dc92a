"""W11: what a row says the watermark could be."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.watermark import Column, Delay, Expression, Strategy, TimeKind

LOWEST, HIGHEST = -(2**63), 2**63 - 1


def int64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_W11_the_column_itself() -> None:
    times = int64(3, 1, 2)
    assert Column().values(times).tolist() == [3, 1, 2]


def test_W11_the_column_minus_an_interval() -> None:
    times = int64(30, 10)
    assert Delay(10).values(times).tolist() == [20, 0]
    assert times.tolist() == [30, 10]


def test_W11_a_negative_delay_runs_ahead() -> None:
    assert Delay(-5).values(int64(30, 10)).tolist() == [35, 15]


@pytest.mark.parametrize("ticks", [1, HIGHEST - 1, HIGHEST])
def test_W11_a_delay_stops_at_the_ends_of_int64_instead_of_wrapping(ticks: int) -> None:
    times = [LOWEST, LOWEST + 1, -1, 0, 1, HIGHEST - 1, HIGHEST]
    assert Delay(ticks).values(int64(*times)).tolist() == [max(t - ticks, LOWEST) for t in times]
    assert Delay(-ticks).values(int64(*times)).tolist() == [min(t + ticks, HIGHEST) for t in times]


@pytest.mark.parametrize("ticks", [2**63, -(2**63)])
def test_W11_a_delay_beyond_64_bits_is_refused(ticks: int) -> None:
    with pytest.raises(ValueError):
        Delay(ticks)


@pytest.mark.parametrize(
    ("strategy", "kind", "sql"),
    [
        (Column(), TimeKind.TIMESTAMP, "ts"),
        (Delay(0), TimeKind.TIMESTAMP, "ts"),
        (Delay(10_000_000), TimeKind.TIMESTAMP, "ts - INTERVAL '10 seconds'"),
        (Delay(-5_000_000), TimeKind.TIMESTAMPTZ, "ts + INTERVAL '5 seconds'"),
        (Delay(2), TimeKind.DATE, "ts - INTERVAL '2 days'"),
        (Delay(5), TimeKind.EPOCH, "ts - 5"),
        (Expression("CASE WHEN ok THEN ts END"), TimeKind.TIMESTAMP, "CASE WHEN ok THEN ts END"),
    ],
)
def test_W11_a_strategy_is_described_as_sql(strategy: Strategy, kind: TimeKind, sql: str) -> None:
    assert strategy.describe("ts", kind) == sql


def test_strategies_are_frozen_configuration() -> None:
    assert {Delay(5), Delay(5), Column(), Column()} == {Delay(5), Column()}
