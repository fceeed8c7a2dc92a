"""Faults that the simulator has to find: in views over rows around a row (C5) and over two sources (D2), and in sinks
that follow amendments (B2)."""

from __future__ import annotations

from tests.mutants.guard import Planted

_VIEW, _FRAMES = "views/view_table.py", "views/over_frames.py"
_SENT, _UPSTREAM = "sinks/kafka.py", "sinks/upstream.py"
_INPUTS, _DERIVE = "views/inputs.py", "watermark/derive.py"

PLANTED = (
    Planted(
        "planted-carried",
        "R1",
        "What OVER windows of later rows need of earlier ones is committed with the frontier.",
        _VIEW,
        "        if done.carried is not None:\n",
        "        if False:\n",
        "carried rows forgotten",
    ),
    Planted(
        "planted-carried-once",
        "R2",
        "What a tick carries takes the place of what the tick before has carried.",
        _VIEW,
        "return [] if self.view.over is None or self._is_revised() else [None]",
        "return []",
        "carried rows kept twice",
        first=1786,
    ),
    Planted(
        "planted-frame",
        "C5",
        "A frame that reaches ahead in time is complete when the watermark has passed its end.",
        _FRAMES,
        'end = f"try_add({TIME}, {ahead + 1}L)"',
        'end = f"try_add({TIME}, {ahead}L)"',
        "< for <=",
        first=367,
    ),
    Planted(
        "planted-lead",
        "C5",
        "A row that waits for its next row is carried with the rows that its frames reach back to.",
        _FRAMES,
        'reached = f"lead(IF({BELOW}, 1, NULL), {min(back + ahead, _INT)}) {self._window()}"',
        'reached = f"lead(IF({BELOW}, 1, NULL), {min(ahead, _INT)}) {self._window()}"',
        "carried rows forgotten",
    ),
    Planted(
        "planted-both",
        "D2",
        "A join has no watermark until both of its inputs have one.",
        _DERIVE,
        "return None if None in values else min(v for v in values if v is not None)",
        "return min((v for v in values if v is not None), default=None)",
        "G too early",
    ),
    Planted(
        "planted-partner",
        "D2",
        "A tick of a join reads the rows of the other input as far as the interval reaches.",
        _INPUTS,
        "clock + self.input.high",
        "clock",
        "join that reads too little",
        first=467,
    ),
    Planted(
        "planted-partner-before",
        "D2",
        "A tick of a join reads the rows of the other input that lie before its own ones, too.",
        _INPUTS,
        "low = None if base is None or self.input.low is None else base + self.input.low",
        "low = None if base is None or self.input.low is None else base",
        "join that reads too little",
    ),
    Planted(
        "planted-gone",
        "B2",
        "A key that an amended window does not have any more gets a message without a value.",
        "sinks/kafka_messages.py",
        "return came.unionByName(went).withColumn(_COMMIT, commit)",
        "return came.withColumn(_COMMIT, commit)",
        "replaced row left at its target",
    ),
    Planted(
        "planted-amended-position",
        "B2",
        "A sink's position says which amendments it has followed.",
        _SENT,
        '"amendments": upto if upstream.upserts else after.amendments',
        '"amendments": after.amendments',
        "sink position not committed",
        first=96,
    ),
    Planted(
        "planted-amended-news",
        "B2",
        "A sink that upserts delivers an amendment although no new window has closed.",
        _UPSTREAM,
        "return self.newest.tick > delivered.tick or amended",
        "return self.newest.tick > delivered.tick",
        "replaced row left at its target",
        first=96,
    ),
)
