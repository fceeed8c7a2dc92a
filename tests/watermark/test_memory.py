"""What strategies remember: the same numbers through text, pickle and back (R1)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.watermark import GateState
from tidegate.watermark.memory import StrategyMemory


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_R1_numbers_survive_text_and_pickle(numbers: list[int]) -> None:
    memory = StrategyMemory(np.array(numbers, dtype=np.int64))
    again = StrategyMemory(text=memory.text)
    assert again.numbers.tolist() == numbers
    assert again == memory == pickle.loads(pickle.dumps(again))
    assert hash(again) == hash(memory)
    state = GateState(watermark=3, memory=memory)
    assert GateState.from_dict(state.to_dict()) == state


def test_another_strategys_memory_is_none() -> None:
    memory = StrategyMemory(np.array([17, 4, 5], dtype=np.int64))
    found = memory.of(17)
    assert found is not None
    assert found.tolist() == [4, 5]
    assert memory.of(18) is None
    assert StrategyMemory(np.empty(0, dtype=np.int64)).of(17) is None


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_R1_a_memory_that_is_in_a_file_keeps_its_head(numbers: list[int]) -> None:
    memory = StrategyMemory(np.array(numbers, dtype=np.int64))
    away = memory.put_into("memory-1.parquet")
    again = pickle.loads(pickle.dumps(StrategyMemory(text=away.text)))
    assert (again.stored, memory.stored) == ("memory-1.parquet", None)
    assert again.head == memory.head == tuple(numbers[:2])
    assert (again == away, again == memory) == (True, False)
    with pytest.raises(AssertionError, match=r"the numbers are in memory-1\.parquet"):
        again.of(1)
