"""Faults that the simulator has to find: where rows are erased (E9)."""

from __future__ import annotations

from tests.mutants.guard import Planted

_ERASE, _FILES, _RECORD = "maintenance/erase.py", "maintenance/erase_files.py", "ingest/erased.py"

PLANTED = (
    Planted(
        "planted-erased-state",
        "E4",
        "The commit that erases rows says of the log's state what the one before it said.",
        _FILES,
        "    said = base.facts | dict(facts or {})\n",
        "    said = dict(facts or {})\n",
        "state not committed with rows",
    ),
    Planted(
        "planted-erased-record",
        "W5",
        "The record of an erasure has the numbers of those before it, too.",
        _RECORD,
        "Erased.of([*erased(table, storage).entries, *entries])",
        "Erased.of(entries)",
        "record that forgets",
        22,
    ),
    Planted(
        "planted-erased-views",
        "E9",
        "Who finishes an erasure whose rows have left the log erases those of the views.",
        _ERASE,
        "            for reached in self._views:\n                self._erase_view(reached)",
        "            for reached in self._views if found.files else ():\n                self._erase_view(reached)",
        "half of an erasure",
        first=56,
    ),
    Planted(
        "planted-erased-progress",
        "R1",
        "What a log's newest commit says of its progress is in a file that stays when all earlier snapshots go.",
        "maintenance/erase_log.py",
        "return {} if set(found) == {name} else found",
        "return {}",
        "upkeep that deletes a live file",
        first=89,
    ),
    Planted(
        "planted-erased-orphans",
        "E9",
        "An erasure removes the files that a killed task has left.",
        _ERASE,
        "        before = EVERYTHING\n",
        "        before = 0\n",
        "rows that stay at rest",
        22,
    ),
)
