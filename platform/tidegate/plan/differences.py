"""Where tidegate decides otherwise than RisingWave 3.2, on purpose, by the node that it shows at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """One difference: the rule of semantics.md that decides, what RisingWave does, and what happens here."""

    rule: str
    theirs: str
    here: str

    @property
    def is_granularity(self) -> bool:
        """Whether it is gone where `watermark_granularity` is 'batch'."""
        return self in _GRANULARITY


GATE = (
    Difference(
        "W1",
        "compares with the watermark from before the chunk (an INSERT, up to 256 rows from a connector)",
        "row by row, so batch sizes change no decision",
    ),
    Difference(
        "W1",
        "one watermark per actor, several partitions may share one",
        "one per partition: a slow partition's rows are not late by a fast one's clock",
    ),
    Difference("W2", "late rows still raise the maximum", "they do not"),
    Difference(
        "W5",
        "a NULL event time is kept until there is a watermark, then dropped",
        "rejected, with the reason, in a table",
    ),
    Difference(
        "W7, R3",
        "an idle or rescaled actor adopts the global maximum",
        "idle partitions leave the minimum; new ones start at G",
    ),
)

GATE_OF_A_TABLE = (
    Difference(
        "W1",
        "compares with the watermark from before the INSERT",
        "row by row, in the order of the INSERT's rows",
    ),
    *GATE[2:4],
)

_GRANULARITY = (GATE[0], GATE_OF_A_TABLE[0])

TTL = (
    Difference(
        "T1",
        "its code keeps a change exactly at the watermark, its documentation calls it expired",
        "expired",
    ),
)

LOG = (Difference("W5", "late rows are dropped", "late and rejected rows are kept, each in its table"),)

LATE_IN_WINDOWS = Difference(
    "W5",
    "a dropped row leaves no trace in the window that it missed",
    "audit shows it there: raw = counted + filtered + late + rejected (A1)",
)
