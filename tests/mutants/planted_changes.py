"""Faults that the simulator has to find: where definitions change between runs (E, R4)."""

from __future__ import annotations

from tests.mutants.guard import Planted

_APPLY, _BUILD = "evolve/apply.py", "views/versions/build.py"

PLANTED = (
    Planted(
        "planted-column-names",
        "E2",
        "A task finds a column in a file by its id, and not by its name.",
        "tasks/panes.py",
        "return {name: found.get(self.schema.field(name).metadata[_ID]) for name in names}",
        "return {name: name if name in stored.names else None for name in names}",
        "column read under another name",
        first=87,
    ),
    Planted(
        "planted-renamed",
        "E2",
        "A column that is renamed keeps its values.",
        "iceberg/table_change.py",
        "        return cls(dropped, renamed, tuple(widened), tuple(added), tuple(order), properties)",
        "        gone = (*dropped, *(old for old, _ in renamed))\n"
        '        came = tuple(((new,), "INT") for _, new in renamed)\n'
        "        return cls(gone, (), tuple(widened), (*added, *came), tuple(order), properties)",
        "rename that is a drop",
    ),
    Planted(
        "planted-outdated",
        "E7",
        "A process that has read an earlier definition does not change the log back to it.",
        _APPLY,
        "    require_current(context, _edited(context, relation))\n    # The name as it is",
        "    # The name as it is",
        "definition that is taken back",
    ),
    Planted(
        "planted-generation",
        "R4",
        "Results that replace others are the next version of them.",
        _BUILD,
        "facts = {GENERATION: str(self.mark.number), HIGHEST: str(self.mark.number), **more}",
        "facts = {GENERATION: str(current_version(before)), HIGHEST: str(self.mark.number), **more}",
        "results of two definitions",
    ),
)
