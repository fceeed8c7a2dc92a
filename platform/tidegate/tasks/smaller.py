"""How much a batch reads whose workers have died for want of memory, with no row to blame (X2), or for which other
groups of live mode wait too long. None of it changes a decision (W4): a batch takes less, and one that can't be made
smaller is read by one task at a time, then in little pieces."""

from __future__ import annotations

#: Batches that have to go well before more is tried again.
PATIENCE = 8
#: Rows, and files, of the smallest batches that are made because larger ones took too long.
LEAST_ROWS, LEAST_FILES = 50_000, 8
#: What `BatchPlan.care` says beside 0: one task at a time; and few rows at a time in it.
ONE_TASK, FEW_ROWS = 1, 2
#: Rows that a task has in its hands then, and bytes that it collects before it writes.
ROWS, BYTES = 1_024, 4 << 20


class Size:
    """How much a batch takes at most: less once one was too large for its workers, or took too long; more again when
    some went well. `least`: a batch that takes too long is made no smaller than this, since what each batch costs
    whatever is in it would be most of the time then."""

    def __init__(self, usual: int, least: int) -> None:
        self._usual, self._most, self._well = usual, usual, 0
        self._least, self._planned, self._careful = min(least, usual), 0, False

    @property
    def most(self) -> int:
        """At most so much."""
        return self._most

    def next(self) -> int:
        """`most` of one more batch: those before it went well."""
        self._well += 1
        if self._well > PATIENCE:
            self._most, self._well, self._careful = min(2 * self._most, self._usual), 1, False
        return self._most

    def planned(self, amount: int) -> None:
        """So much is in the batch that was planned last."""
        self._planned = amount

    def took(self, seconds: float, longest: float) -> None:
        """How long the batch took that was planned last; the next ones are to take `longest` seconds at most."""
        planned, self._planned = self._planned, 0
        # (Of one that an earlier run has planned the amount is not known.)
        if planned and seconds > longest:
            self._most, self._well = (
                max(1, min(max(self._least, int(planned * longest / seconds)), self._most)),
                1,
            )
        elif 2 * seconds < longest and planned >= self._most and not self._careful:
            self._most = min(2 * self._most, self._usual)

    def shrink(self, to: int) -> None:
        """What was planned was too large for its workers; this is tried now. (However quick it is: several have to go
        well before more is tried.)"""
        self._most, self._well = max(1, min(to, self._most)), 1
        self._planned, self._careful = 0, True


def tasks_at_once(care: int, tasks: int) -> int:
    """Of so many tasks those that may run at a time: the others wait behind them in the same partition of Spark's."""
    return min(tasks, 1) if care >= ONE_TASK else tasks


def rows_at_once(care: int) -> int | None:
    """Rows that a task reads at a time; None: as many as it likes."""
    return ROWS if care >= FEW_ROWS else None


def sparing(care: int) -> dict[str, str]:
    """Spark's settings meanwhile."""
    found = {"spark.sql.shuffle.partitions": "1"} if care >= ONE_TASK else {}
    if care >= FEW_ROWS:
        found |= {
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS),
            "spark.sql.execution.arrow.maxBytesPerBatch": str(BYTES),
        }
    return found
