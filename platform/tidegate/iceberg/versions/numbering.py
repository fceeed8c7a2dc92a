"""The columns of a new version of a table, in Iceberg's JSON. Pure functions.

A version's files become the table's own without being written again. So its columns have the ids that they will have in
the table from the start: a column of the same name and type keeps the table's id, every other one gets an id that no
column of the table has had (E2). Then a table's partitions are those of before, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

#: Ids that a table may give to columns of its own (of an amendment, say) while a version of it is built.
_LEFT_FREE = 1_000
#: Iceberg numbers partition fields from here on.
_FIRST_FIELD = 1_000


def numbered(own: Mapping[str, Any], last: int, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The schema `wanted`, with the ids of a version of a table that has the schema `own` now and has given ids up to
    `last`."""
    following = count(last + _LEFT_FREE + 1)
    known = {field["name"]: field for field in own["fields"]}
    fields = []
    for field in wanted["fields"]:
        before = known.get(field["name"])
        same = before is not None and isinstance(field["type"], str) and before["type"] == field["type"]
        number = before["id"] if same and before is not None else next(following)
        fields.append({**field, "id": number, "type": _numbered(field["type"], lambda: next(following))})
    return {"type": "struct", "schema-id": 0, "fields": fields}


def highest(schema: Mapping[str, Any]) -> int:
    """The greatest id in a schema."""
    return max(_ids(schema), default=0)


def partitioned(
    specs: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], partitions: Sequence[str]
) -> dict[str, Any]:
    """The partition spec of a version with this schema. `specs`: of its table, whose fields it keeps where they are of
    the same column; `partitions`: as in `NewTable`."""
    known = [field for spec in specs for field in spec["fields"]]
    following = count(max([_FIRST_FIELD - 1, *(field["field-id"] for field in known)]) + 1)
    columns = {field["name"]: field["id"] for field in schema["fields"]}
    fields = []
    for part in partitions:
        by_day = part.startswith("days(")
        name = part.removeprefix("days(").removesuffix(")").strip("`").replace("``", "`")
        transform, source = "day" if by_day else "identity", columns[name]
        same = (f for f in known if f["source-id"] == source and f["transform"] == transform)
        found = next(same, None) or {
            "name": _free(f"{name}_day" if by_day else name, [f["name"] for f in known]),
            "transform": transform,
            "source-id": source,
            "field-id": next(following),
        }
        fields.append(dict(found))
    return {"spec-id": 0, "fields": fields}


def _free(name: str, taken: Sequence[str]) -> str:
    return next(one for n in count(1) if (one := name if n == 1 else f"{name}_{n}") not in taken)


def _numbered(kind: Any, following: Callable[[], int]) -> Any:
    """A type, with new ids for what it contains."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = [{**f, "id": following(), "type": _numbered(f["type"], following)} for f in kind["fields"]]
        return {**kind, "fields": fields}
    if kind["type"] == "list":
        return {**kind, "element-id": following(), "element": _numbered(kind["element"], following)}
    inner = {part: _numbered(kind[part], following) for part in ("key", "value")}
    return {**kind, **inner, "key-id": following(), "value-id": following()}


def _ids(kind: Any) -> Iterator[int]:
    if isinstance(kind, str):
        return
    for name in ("id", "element-id", "key-id", "value-id"):
        if name in kind:
            yield kind[name]
    for inner in [
        *kind.get("fields", ()),
        *(kind[k] for k in ("element", "key", "value", "type") if k in kind),
    ]:
        if not isinstance(inner, str):
            yield from _ids(inner)
