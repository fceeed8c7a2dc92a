"""What becomes of a log when the definition of its source or table is another one (E1): changed in place, or refused,
with what to do. It depends on the two definitions, and on who reads the rows; no table here, and no Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate.iceberg.layout import relation_identity
from tidegate.plan.columns.changes import CHANGES, ColumnChange, ColumnStep, described, holds
from tidegate.plan.columns.gates import GATE, as_stored, come_to, gate_columns, kept_back, to_follow
from tidegate.plan.columns.taken_in import TAKEN_IN, TakenIn, adopted, taken_in
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.catalog.objects import CatalogColumn, Relation, reads
from tidegate.sql.dialect.attempts import without_attempts
from tidegate.sql.dialect.system_names import ROWTIME
from tidegate.sql.dialect.types import display
from tidegate.sql.options.connectors import ReplayOptions
from tidegate.sql.resolve.gate_names import first_name, over_columns
from tidegate.sql.statements.stored_definition import stored_relation
from tidegate.watermark import Expression

#: An option of which a new value may say more than the old one (R3).
_PARTITIONS = "partitions"


@dataclass(frozen=True)
class Evolution:
    """How a log becomes one of the new definition. `changes`: of its columns, in the order in which they are made;
    `options`: other changes that are made in place, in words. `refused`: why it can't; empty where it can. `adopted`:
    columns that are added and that the log has taken in before, by their names in the definition. `followed`: of an
    implicit gate, the steps of the log below that come to these changes."""

    changes: tuple[ColumnChange, ...] = ()
    options: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    adopted: Mapping[str, TakenIn] = field(default_factory=dict)
    followed: tuple[tuple[ColumnChange, ...], ...] = ()

    @property
    def text(self) -> str:
        """What is changed in place, for people."""
        return "; ".join([*([described(self.changes)] if self.changes else []), *self.options])

    def steps(self, epoch: int, before: str, after: str) -> list[ColumnStep]:
        """What the log will say of it. `before`, `after`: see `ColumnStep`."""
        return [ColumnStep(epoch, before, after, changes) for changes in self.followed or (self.changes,)]


#: The table properties of what is stored under a name; None if nothing is.
Stored = Callable[[str], Mapping[str, str] | None]


def evolution(
    old: Relation, new: Relation, catalog: Catalog, stored: Stored, taken: tuple[TakenIn, ...] = ()
) -> Evolution:
    """From one definition of a source or table to the other. `catalog`: all definitions, with the new one; `stored`: of
    the implicit gates that judge its rows again. `taken`: the columns that the log has taken in by itself."""
    new = _as_stored(old, new)
    changes, refused = _of_columns(old, new, taken)
    names = {change.column for change in changes if change.kind == "add"}
    known, problems = adopted(taken, [c for c in new.columns if c.name in names])
    refused += problems
    options, others = _of_options(old, new)
    options += [
        f'"{name}" was taken in as batch {one.epoch}, and keeps its values' for name, one in known.items()
    ]
    refused += [*others, *_of_gate(old, new, changes), *_of_readers(old, new, changes, catalog, stored)]
    return Evolution(changes, tuple(options), tuple(refused), known)


def pending(
    relation: Relation, properties: Mapping[str, str], catalog: Catalog, stored: Stored
) -> tuple[Relation, Evolution] | None:
    """The definition of a log with these table properties, and how it becomes the one of now. None if nothing is to be
    done, or if the stored definition can't be read, so that nobody knows what was changed. `stored`: as of
    `evolution`."""
    if relation.kind == "gate":
        return _of_gate_log(relation, properties, catalog, stored)
    identity = properties.get("tidegate.identity")
    same = identity == relation_identity(relation)
    if identity is None or (same and all(c.renamed_from is None for c in relation.columns)):
        return None
    old = stored_relation(properties.get("tidegate.definition") or "")
    if old is None or relation_identity(old) != identity:
        return None
    if same and not any(_of_taken_names(old, _as_stored(old, relation))):
        return None
    return old, evolution(old, relation, catalog, stored, taken_in(properties.get(TAKEN_IN)))


def _of_gate_log(
    gate: Relation, properties: Mapping[str, str], catalog: Catalog, stored: Stored
) -> tuple[Relation, Evolution] | None:
    """As `pending`, of an implicit gate: its columns follow those of the log that it reads, once that has them."""
    known, below = gate_columns(properties.get(GATE)), catalog.get(reads(gate)[0])
    said = stored(below.name) or {}
    if known is None or not isinstance(below, Relation):
        return None
    if said.get("tidegate.identity") != relation_identity(below):
        return None
    left = to_follow(known, said.get(CHANGES))
    changes = come_to(known, left)
    if not changes or (gate.made_of is not None and kept_back(gate, changes) is None):
        return None
    old = as_stored(gate, known)
    if (why := kept_back(gate, changes)) is not None:
        return old, Evolution(changes, refused=(why,))
    if relation_identity(old) != properties.get("tidegate.identity"):
        return None
    return old, Evolution(changes, refused=tuple(_of_gate(old, gate, changes)), followed=left)


def _as_stored(old: Relation, new: Relation) -> Relation:
    """The names after RENAMED FROM as they are stored, in whatever case of their letters they are written."""
    names = {c.name.casefold(): c.name for c in old.columns}
    columns = tuple(
        replace(c, renamed_from=names.get(c.renamed_from.casefold(), c.renamed_from)) if c.renamed_from else c
        for c in new.columns
    )
    return replace(new, columns=columns)


# -- columns ---------------------------------------------------------------------------------------------------


def _of_columns(
    old: Relation, new: Relation, taken: tuple[TakenIn, ...]
) -> tuple[tuple[ColumnChange, ...], list[str]]:
    before = {c.name: c for c in old.columns}
    renamed = {
        c.name: c.renamed_from
        for c in new.columns
        if c.renamed_from is not None and c.name not in before and c.renamed_from in before
    }
    refused = [
        f'"{name}" is the earlier name of several columns'
        for name in dict.fromkeys(renamed.values())
        if list(renamed.values()).count(name) > 1
    ]
    refused += _of_taken_names(old, new)
    # The column of the stored table that each new one is; None: it is another one, whatever its name (E2).
    same = {
        c.name: before.get(renamed.get(c.name, c.name)) if _keeps(c, renamed) else None for c in new.columns
    }
    kept = {c.name for c in same.values() if c is not None}
    dropped = [c for c in old.columns if c.name not in kept]
    added = [c for c in new.columns if same[c.name] is None]
    there = {one.column.casefold() for one in taken}
    refused += _ambiguous(dropped, [c for c in added if c.name.casefold() not in there])
    refused += [
        f'"{name}" can\'t be renamed to "{to}": a column of this name was taken in from the input'
        for to, name in renamed.items()
        if to.casefold() in there
    ]
    refused += [
        f'column "{c.name}" is added as NOT NULL, but the rows that are stored have no value of it: leave out NOT NULL'
        for c in added
        if not c.nullable
    ]
    if not any(_is_variant(c) for c in old.columns):
        refused += [
            f'column "{c.name}" is of type VARIANT, which only a table can have that was made with such a column'
            for c in added
            if _is_variant(c)
        ]
    pairs = [(was, c) for c in new.columns if (was := same[c.name]) is not None]
    refused += [text for was, c in pairs for text in _not_in_place(was, c)]
    changes = [ColumnChange("drop", c.name) for c in dropped]
    changes += [ColumnChange("rename", was.name, c.name) for was, c in pairs if was.name != c.name]
    changes += [ColumnChange("widen", c.name, c.type, was.type) for was, c in pairs if was.type != c.type]
    changes += [ColumnChange("relax", c.name) for was, c in pairs if c.nullable and not was.nullable]
    changes += [ColumnChange("add", c.name, c.type) for c in added]
    names = [c.name for was, c in pairs]
    if names != [c.name for was in old.columns for w, c in pairs if w is was]:
        orders = [", ".join(c.name for c in one.columns) for one in (old, new)]
        changes.append(ColumnChange("reorder", orders[1], was=orders[0]))
    return tuple(changes), refused


def _is_variant(column: CatalogColumn) -> bool:
    """Whether values are of the type that tables have only in Iceberg's third format."""
    return re.search(r"\bvariant\b", column.type) is not None


def _keeps(column: CatalogColumn, renamed: Mapping[str, str]) -> bool:
    """Whether a column is one that is stored: not where another one has been given its former name's place."""
    return column.name in renamed or column.name not in renamed.values()


def _of_taken_names(old: Relation, new: Relation) -> Iterator[str]:
    """E2: RENAMED FROM a stored column, for a name that is another stored column's. Words that the stored definition
    has are of an earlier change, and stay."""
    before = {c.name: c for c in old.columns}
    for c in new.columns:
        was = before.get(c.name)
        if was is None or c.renamed_from not in before or c.renamed_from in (c.name, was.renamed_from):
            continue
        yield (
            f'"{c.renamed_from}" is to be renamed to "{c.name}", but another stored column has this name. Remove or '
            f'rename the stored "{c.name}" and run, then rename "{c.renamed_from}"; or leave out RENAMED FROM'
        )


def _ambiguous(dropped: list[CatalogColumn], added: list[CatalogColumn]) -> Iterator[str]:
    """E2: what could be read as a rename, or as a drop and an addition, is refused until it is said."""
    for gone in dropped:
        for c in added:
            if holds(gone.type, c.type):
                yield (
                    f'"{gone.name}" is gone and "{c.name}" is new. If the column was renamed, write: {c.name} '
                    f"{display(c.type)} RENAMED FROM {gone.name}. If it is another column, remove "
                    f'"{gone.name}" and run, then add "{c.name}"'
                )


def _not_in_place(was: CatalogColumn, now: CatalogColumn) -> Iterator[str]:
    if not holds(was.type, now.type):
        nested = (
            ": new fields stand behind the others" if "struct" in was.type and "struct" in now.type else ""
        )
        nested = (
            ": the keys of a MAP can't be changed" if "map<" in was.type and "map<" in now.type else nested
        )
        yield (
            f'column "{now.name}" was {display(was.type)} and is {display(now.type)}, which can\'t hold all of '
            f"it{nested}"
        )
    if was.nullable and not now.nullable:
        yield f'column "{now.name}" becomes NOT NULL, but stored rows may have no value of it'
    if (was.generated and without_attempts(was.generated)) != (
        now.generated and without_attempts(now.generated)
    ):
        yield f'column "{now.name}" is computed in another way, but stored rows keep their values'


# -- all else --------------------------------------------------------------------------------------------------


def _of_options(old: Relation, new: Relation) -> tuple[list[str], list[str]]:
    """Options that change in place, and those that are refused."""
    was, now = (r.connector.identity() if r.connector is not None else {} for r in (old, new))
    options, refused = [], []
    for name in dict.fromkeys([*was, *now]):
        one, other = (without_attempts(found.get(name, "")) for found in (was, now))
        if one == other:
            continue
        before, after = (set(getattr(r.connector, name, None) or ()) for r in (old, new))
        if name == _PARTITIONS and before < after:
            options.append(f"partitions are added: {', '.join(sorted(after - before))}")
        elif name == _PARTITIONS and before == after:
            options.append("partitions are named in another way")
        else:
            refused.append(f"{name} is another one, so that the rows are those of another input")
    if (old.format and old.format.identity()) != (new.format and new.format.identity()):
        refused.append("FORMAT says another way to read the rows")
    return options, refused


def _of_gate(old: Relation, new: Relation, changes: tuple[ColumnChange, ...]) -> Iterator[str]:
    """What decides how rows are judged and kept."""
    if (old.kind, old.primary_key, old.ttl) != (new.kind, new.primary_key, new.ttl):
        yield "the kind, the PRIMARY KEY or WITH TTL is another one"
    if (old.watermark and old.watermark.column) != (new.watermark and new.watermark.column):
        yield "the watermark is of another column"
    if isinstance(new.connector, ReplayOptions) and any(
        change.names or change.kind == "reorder" for change in changes
    ):
        yield "a recording is stored with its columns"
    fixed = {"the watermark": [new.watermark.column] if new.watermark is not None else []}
    fixed["the PRIMARY KEY"] = list(new.primary_key)
    columns = ("partition_columns", "order_columns")
    named = [name for key in columns for name in getattr(new.connector, key, ())]
    named += [name] if (name := getattr(new.connector, "order_column", None)) else []
    stored = {c.name.casefold(): c.name for c in (*old.columns, *new.columns)}
    fixed["an option"] = [stored.get(name.casefold(), name) for name in named]
    strategy = new.watermark.strategy if new.watermark is not None else None
    if isinstance(strategy, Expression):
        text = " ".join([strategy.sql, *(window.sql for window in strategy.preceding)])
        fixed["the strategy of the watermark"] = re.findall("`([^`]+)`", text)
    for change in changes:
        for what, names in fixed.items():
            # (A gate may find that both went and came again, while no view had it.)
            if change.kind in ("widen", "rename", "drop") and {change.column, change.to} & set(names):
                yield f"{change.text}, and {what} needs it as it is"


def _of_readers(
    old: Relation, new: Relation, changes: tuple[ColumnChange, ...], catalog: Catalog, stored: Stored
) -> Iterator[str]:
    """Who reads all columns, whatever they are, and has stored or delivered them."""
    if not changes:
        return
    for sink in () if all(change.kind == "relax" for change in changes) else catalog.sinks.of(new.name):
        yield f'sink "{sink.name}" delivers all columns: let it deliver a query that names its columns'
    for gate in catalog.order():
        if isinstance(gate, Relation) and gate.kind == "gate" and new.name in reads(gate):
            readers = [view.name for view in catalog.readers(gate.name)]
            why = _of_gate_over(old, gate, changes, stored, any(stored(name) is not None for name in readers))
            yield from (f"{text} (in {', '.join(readers)})" for text in why)


def _of_gate_over(
    old: Relation, gate: Relation, changes: tuple[ColumnChange, ...], stored: Stored, is_read: bool
) -> Iterator[str]:
    """Why a gate can't follow these changes of what it reads. `is_read`: a view that reads it has results."""
    if gate.made_of is not None:
        # (It has another name by other types, so the one that those results are of may not be found.)
        if (is_read or stored(gate.name) is not None) and (why := kept_back(gate, changes)) is not None:
            yield f"{why}; a gate over {old.name} itself follows such a change"
        return
    own = [c for c in gate.columns if c.name == ROWTIME]
    found = stored(gate.name) or stored(first_name(over_columns(gate, (*old.columns, *own))))
    if found is not None and GATE not in found:
        why = f"the log of {gate.definition} was made by the first release, and keeps its columns"
        yield f"{why}: DROP the views that read it, and create them again"
    elif found is not None:
        yield from (f"{why} in {gate.definition}" for why in _of_gate(gate, gate, changes))
