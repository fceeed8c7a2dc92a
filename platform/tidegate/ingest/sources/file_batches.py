"""Which files are a batch: in their reading order, cut where any cut is clean (W4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.ingest.connector import BatchPlan
from tidegate.ingest.sources.files import InputFile
from tidegate.plan.columns.merging import both_texts
from tidegate.plan.columns.undeclared import FoundColumn
from tidegate.plan.crashes import spared
from tidegate.sql.catalog.objects import Relation
from tidegate.tasks.decode.columns import exact_names
from tidegate.tasks.decode.text.json_members import both_kinds, fits

#: Per file, and per source partition in it, its lowest and its highest offset.
Ranges = Mapping[str, Mapping[str, tuple[int, int]]]


@dataclass
class Survey:
    """What a first look at the waiting files found: per file its rows, and per partition its offset range."""

    rows: dict[str, int]
    ranges: dict[str, dict[str, tuple[int, int]]]

    def add(self, other: Survey) -> Survey:
        """With what was found in other files."""
        self.rows.update(other.rows)
        self.ranges.update(other.ranges)
        return self


def files_of(plan: BatchPlan) -> list[InputFile]:
    """What a plan reads."""
    return [InputFile(u["path"], u["uri"], u["size"], u["modified"]) for u in plan.units]


def undeclared_in(plan: BatchPlan, relation: Relation) -> dict[str, FoundColumn]:
    """By name, the columns that the files of a plan have and the relation does not, and those that were taken in and
    can't be read of a file. One that files have as several types, whatever the case of its name, has the type that
    holds all of them, if one of them does."""
    found = merged(((unit["path"], unit.get("undeclared") or {}) for unit in plan.units), relation)
    aside = spared(plan.crashed)
    for unit in plan.units:
        if unit.get("uri") in aside:
            found |= {c.name: FoundColumn(unit["path"]) for c in relation.columns if c.taken_in}
    return found


def merged(
    places: Iterable[tuple[str, Mapping[str, str | None] | Sequence[str]]], relation: Relation
) -> dict[str, FoundColumn]:
    """By name, what a part of the input (a file) has beside the columns of a relation, and what columns that were taken
    in do not hold. `places`: where, and by name the type of its values. (A plan of an earlier release has the names
    alone.)"""
    columns = {c.name.casefold(): c for c in relation.columns}
    exact, json = exact_names(relation), relation.format is not None and relation.format.encode == "json"
    both = both_kinds if json else both_texts
    found: dict[str, tuple[str, FoundColumn]] = {}
    for where, types in places:
        for name in types:
            kind, folded = types[name] if isinstance(types, Mapping) else None, name.casefold()
            column = columns.get(folded)
            if column is None:
                first, before = found.get(folded, (name, FoundColumn("", kind)))
                kind = None if exact and first != name else both(before.type, kind)
                found[folded] = first, FoundColumn(where, kind)
            elif column.taken_in:
                same = fits(column.type, kind) if json else both_texts(column.type, kind) == column.type
                if not same or (exact and name != column.name):
                    # What does not fit into it is NULL, and is not silent.
                    found[folded] = name, FoundColumn(where)
    return dict(found.values())


def overlapping_together(files: list[InputFile], all_ranges: Ranges) -> list[list[InputFile]]:
    """Files in the order of their offsets; those whose offset ranges overlap are one group."""

    def first(file: InputFile) -> tuple[int, str]:
        lows = [low for low, high in all_ranges[file.path].values() if high >= low]
        return (min(lows, default=0), file.path)

    groups: list[list[InputFile]] = []
    reach: dict[str, tuple[int, int]] = {}  # partition -> (highest offset so far, its group)
    for file in sorted(files, key=first):
        ranges = {p: r for p, r in all_ranges[file.path].items() if r[1] >= r[0]}
        # Everything from the earliest group that this file overlaps becomes one group.
        joins = [reach[p][1] for p, (low, _) in ranges.items() if p in reach and low <= reach[p][0]]
        if joins:
            start = min(joins)
            groups[start:] = [[f for group in groups[start:] for f in group] + [file]]
            reach = {p: (high, min(g, start)) for p, (high, g) in reach.items()}
        else:
            groups.append([file])
        at = len(groups) - 1
        for partition, (_, high) in ranges.items():
            reach[partition] = (max(high, reach.get(partition, (high, at))[0]), at)
    return groups


def taken(queue: list[list[InputFile]], most_files: int, most_bytes: int) -> list[InputFile]:
    """The next groups of the queue within the limits, which are not in it any more; at least one."""
    batch: list[InputFile] = []
    size = count = 0
    for group in queue:
        size += sum(f.size for f in group)
        if batch and (len(batch) + len(group) > most_files or size > most_bytes):
            break
        batch += group
        count += 1
    del queue[:count]
    return batch
