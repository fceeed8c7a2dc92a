"""What the messages of a source have beside its columns: by the schemas of a registry, or, of JSON without one, by a
look at some of them. Driver side."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.ingest.sources.file_batches import merged
from tidegate.ingest.sources.new_fields import new_fields
from tidegate.plan.columns.taken_in import takes_in
from tidegate.plan.columns.undeclared import FoundColumn, Telling
from tidegate.sql.options.formats import REGISTRY
from tidegate.tasks.decode.text.json_members import FEWEST, JsonNames, Members, both_kinds
from tidegate.tasks.reading import LOOKED

if TYPE_CHECKING:
    from tidegate.plan.columns.undeclared import Undeclared
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

#: A registry that a source can be read without: as many times as long as its answer took it is not asked again, and for
#: so many seconds at least if there was none.
_PART, _SILENT = 20, 5.0


class MessageFields:
    """Of one source, batch by batch. `looks`: whether only its messages say what is in them. What small batches show is
    put together until there is enough to say something of it; it is not on record until then."""

    def __init__(self, relation: Relation, project: Project) -> None:
        self._relation, self._project = relation, project
        form = relation.format
        self._is_json = form is not None and form.encode == "json"
        self.looks = self._is_json and form is not None and REGISTRY not in form.options
        #: When the registry is asked again for what is only reported.
        self._asks_at = 0.0
        self._few = Members()

    def becomes(self, relation: Relation) -> None:
        """With other columns from here on."""
        self._relation = relation

    def planned(self, before: Undeclared | None) -> Mapping[str, FoundColumn]:
        """What can be taken in before a batch that is planned now. `before`: what the log's commits say, which is all
        that is known of messages without a schema. Raises TG555, TG606, TG614."""
        if not self.looks:
            return new_fields(self._relation, self._project)
        if before is None:
            return {}
        return {name: FoundColumn(where, before.types.get(name)) for name, where in before.columns.items()}

    def reported(self) -> Mapping[str, FoundColumn]:
        """What schemas say, once the batch has a decoder: for one of AVRO or PROTOBUF, and for a source that takes
        columns in, the registry was asked just now."""
        if not self._is_json or takes_in(self._relation):
            return new_fields(self._relation, self._project, asks=False)
        # JSON can be read without it, so one that is slow, or does not answer, takes a small part of the time.
        begun, least = time.monotonic(), 0.0
        asks = begun >= self._asks_at
        try:
            return new_fields(self._relation, self._project, asks)
        except TidegateError:
            least = _SILENT
            return {}
        finally:
            if asks:
                ended = time.monotonic()
                self._asks_at = ended + max(_PART * (ended - begun), least)

    def seen(
        self, before: Undeclared | None, where: str, reports: Iterable[Mapping[str, Any]]
    ) -> Mapping[str, FoundColumn]:
        """What a batch's tasks have `LOOKED` at shows. A field has the type that holds what the commits `before` say of
        it, too. `where`: the batch, for people."""
        known, enough = JsonNames.of(self._relation), []
        for report in reports:
            found = _members(report.get(LOOKED, ()))
            if found.rows < FEWEST:
                found, self._few = self._few.both(found), Members()
            if found.rows < FEWEST:
                self._few = found
            else:
                enough.append(found.undeclared(known))
        telling = Telling()
        told = [(where, telling.of([*types], [*types.values()].__getitem__)) for types in enough]
        return {name: _with_earlier(name, one, before) for name, one in merged(told, self._relation).items()}


def _members(texts: Sequence[str]) -> Members:
    return reduce(Members.both, map(Members.from_text, texts), Members())


def _with_earlier(name: str, one: FoundColumn, before: Undeclared | None) -> FoundColumn:
    if before is None or name not in before.columns:
        return one
    return one._replace(type=both_kinds(before.types.get(name), one.type))
