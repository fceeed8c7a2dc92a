"""Faults that the simulator has to find: in how topics are read and delivered into (W6, W7, R2, R3)."""

from __future__ import annotations

from tests.mutants.guard import Planted

_KAFKA, _SINK, _PROGRESS = "ingest/sources/kafka.py", "sinks/kafka.py", "iceberg/progress.py"

PLANTED = (
    Planted(
        "planted-idle",
        "W4",
        "What a plan has decided about idle partitions is what its batch does.",
        "iceberg/partitions.py",
        "known[name] = tuple(known.get(name, ()))",
        "known[name] = ()",
        "lost idle decision",
    ),
    Planted(
        "planted-idle-bound",
        "W7",
        "A partition is idle as soon as nothing has come for its timeout.",
        _KAFKA,
        "at - seen.quiet_since >= timeout * 1e6",
        "at - seen.quiet_since > timeout * 1e6",
        "< for <=",
    ),
    Planted(
        "planted-waking",
        "W7",
        "A partition that wakes up starts at the later of its watermark and G.",
        _PROGRESS,
        "mark = self.published if state.watermark is None else max(state.watermark, self.published)",
        "mark = self.published if state.watermark is None else state.watermark",
        "G goes back",
    ),
    Planted(
        "planted-grown",
        "R3",
        "A partition that is added to a topic starts at G.",
        _PROGRESS,
        "GateState(watermark=start_watermark(self.published), next_offset=offset)",
        "GateState(watermark=None, next_offset=offset)",
        "new partition below G",
    ),
    Planted(
        "planted-loss",
        "R2",
        "What a topic has removed before it was read is said.",
        _KAFKA,
        'if lost and self._options.on_data_loss == "fail":',
        "if False:",
        "lost without a word",
    ),
    Planted(
        "planted-arrived",
        "R2",
        "Messages that arrived although the answer was lost are not sent again.",
        _SINK,
        "arrived = self._arrived(state, offsets) if resumed else None",
        "arrived = None",
        "lost answer taken for not stored",
    ),
    Planted(
        "planted-sent",
        "R2",
        "A sink's position moves with what it has sent.",
        _SINK,
        'done = state | reached | {"pending": None}',
        'done = state | {"pending": None}',
        "sink position not committed",
    ),
    Planted(
        "planted-sending",
        "R2",
        "A delivery is recorded before its first message.",
        _SINK,
        "            self._state.write(state)\n            state, more",
        "            state, more",
        "sink position not committed",
    ),
)
