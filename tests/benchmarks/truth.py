"""What is right, by numpy alone and from the rules of semantics.md: row by row, no batches, no engine.

Times and lengths are microseconds. Results are columns of integers by name; `differing` compares them as sets of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.benchmarks.load import Events

Columns = dict[str, np.ndarray]
#: No row before or after: NULL in results.
NOTHING = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Judged:
    """A log after the gate (W1, W6): the rows on time, how many are late, and the published watermark."""

    on_time: Events
    late: int
    watermark: int


def judge(log: Events, delay: int) -> Judged:
    """W1, W2 with the strategy `ts - delay`. G (W6) is never above the watermark of a partition that it is the minimum
    of, so here it decides nothing."""
    keep = np.ones(len(log), bool)
    marks = []
    starts = np.flatnonzero(np.diff(log.part, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(log)], strict=True):
        ts = log.ts[start:end]
        newest = np.maximum.accumulate(ts)
        keep[start + 1 : end] = ts[1:] >= newest[:-1] - delay
        marks.append(int(newest[-1]) - delay)
    return Judged(log.where(keep), int((~keep).sum()), min(marks))


def windows(log: Events, size: int, slide: int, watermark: int) -> Columns:
    """C1, C2: window_start, key, cnt, total of all windows that are closed."""
    first = log.ts // slide * slide
    starts = np.concatenate([first - step * slide for step in range(size // slide)])
    closed = starts + size <= watermark
    key = np.tile(log.key, size // slide)[closed]
    amount = np.tile(log.amount, size // slide)[closed]
    return _grouped(starts[closed], key, amount)


def _grouped(starts: np.ndarray, key: np.ndarray, amount: np.ndarray) -> Columns:
    order = np.lexsort((key, starts))
    starts, key, amount = starts[order], key[order], amount[order]
    new = np.flatnonzero((np.diff(starts, prepend=NOTHING) != 0) | (np.diff(key, prepend=-1) != 0))
    return {
        "window_start": starts[new],
        "key": key[new],
        "cnt": np.diff(new, append=len(key)),
        "total": np.add.reduceat(amount, new) if len(new) else amount,
    }


def sessions(log: Events, gap: int, watermark: int) -> Columns:
    """C3: window_start, window_end, key, cnt, total of all sessions that are closed."""
    order = np.lexsort((log.ts, log.key))
    ts, key, amount = log.ts[order], log.key[order], log.amount[order]
    begins = np.ones(len(ts), bool)
    begins[1:] = (key[1:] != key[:-1]) | (ts[1:] - ts[:-1] >= gap)
    new = np.flatnonzero(begins)
    last = np.append(new[1:], len(ts)) - 1
    found = {
        "window_start": ts[new],
        "window_end": ts[last] + gap,
        "key": key[new],
        "cnt": np.diff(new, append=len(ts)),
        "total": np.add.reduceat(amount, new) if len(new) else amount,
    }
    closed = found["window_end"] <= watermark
    return {name: column[closed] for name, column in found.items()}


def neighbours(log: Events, watermark: int) -> Columns:
    """C4, C5: of every row whose next row of the same key is below the watermark: part, off, and the amounts before and
    after it in the order of (event time, partition, offset); NOTHING where there is no row before."""
    log = log.where(log.ts < watermark)
    order = np.lexsort((log.off, log.part, log.ts, log.key))
    log = log.where(order)
    same = log.key[1:] == log.key[:-1]
    before = np.full(len(log), NOTHING)
    before[1:] = np.where(same, log.amount[:-1], NOTHING)
    after = np.append(log.amount[1:], NOTHING)
    released = np.append(same, False)
    return {
        "part": log.part[released].astype(np.int64),
        "off": log.off[released],
        "before": before[released],
        "after": after[released],
    }


def latest(log: Events, delay: int) -> tuple[Columns, int]:
    """T1, T2 for upserts by `key`, each key in one partition: key, ts, amount of the rows that live, and how many
    changes are late. A change at the watermark is expired (T1); so is a row at the published one (T2)."""
    keep = np.ones(len(log), bool)
    marks = []
    starts = np.flatnonzero(np.diff(log.part, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(log)], strict=True):
        ts = log.ts[start:end]
        newest = np.maximum.accumulate(ts)
        keep[start + 1 : end] = ts[1:] > newest[:-1] - delay
        marks.append(int(newest[-1]) - delay)
    changes = log.where(keep)
    order = np.lexsort((changes.off, changes.part, changes.key))
    changes = changes.where(order)
    last = np.append(changes.key[1:] != changes.key[:-1], True)
    rows = changes.where(last)
    rows = rows.where(rows.ts > min(marks))
    return {"key": rows.key, "ts": rows.ts, "amount": rows.amount}, int((~keep).sum())


def differing(expected: Columns, found: Columns, keys: tuple[str, ...]) -> dict[str, int]:
    """How two results differ: rows in each, rows that only one of them has by `keys`, rows with other values, and rows
    that are there more than once. All zero but the first two iff they are the same."""
    codes = _codes(expected, found, keys)
    orders = [np.argsort(code, kind="stable") for code in codes]
    ones, twos = (code[order] for code, order in zip(codes, orders, strict=True))
    first = np.flatnonzero(np.diff(twos, prepend=-1) != 0)
    twice = len(twos) - len(first)
    place = np.searchsorted(ones, twos[first])
    hit = place < len(ones)
    hit[hit] = ones[place[hit]] == twos[first][hit]
    other = np.zeros(int(hit.sum()), bool)
    for name in (name for name in expected if name not in keys):
        other |= expected[name][orders[0][place[hit]]] != found[name][orders[1][first[hit]]]
    return {
        "expected": len(ones),
        "found": len(twos),
        "missing": len(ones) - len(other),
        "extra": len(first) - len(other),
        "differing": int(other.sum()),
        "twice": twice,
    }


def same(differences: dict[str, int]) -> bool:
    """Whether nothing differs."""
    return not any(n for name, n in differences.items() if name not in ("expected", "found"))


def _codes(one: Columns, two: Columns, keys: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """One integer, not negative, for each row's keys; the same for the same keys."""
    sides = [np.zeros(len(columns[keys[0]]), np.int64) for columns in (one, two)]
    widest = 1
    for key in keys:
        values = [columns[key].astype(np.int64) for columns in (one, two)]
        low = min((int(v.min()) for v in values if len(v)), default=0)
        width = max((int(v.max()) for v in values if len(v)), default=0) - low + 1
        widest *= width
        if widest >= 2**63:
            raise OverflowError(f"the keys {', '.join(keys)} have too wide a range")
        sides = [code * width + (v - low) for code, v in zip(sides, values, strict=True)]
    return sides[0], sides[1]
