"""Schema registries (Confluent's API): the schemas that messages were written with, by the id that each message names.

The driver lists the versions of a subject after each batch is planned: a schema is registered before the first message
that names it is sent, so all that a batch can name is known by then, and goes along with its tasks. An id of another
subject, which a topic of several kinds of records has, is looked up by the task that meets it. Schemas never change
under their id, so what is known stays known. But messages can name any id: one that the registry does not have, or does
not answer for, is asked for once in an interval by each process, and it asks for so many and for so long only (X2).
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.project import kafka
from tidegate.project.reach import Endpoints
from tidegate.project.reading.variables import expand
from tidegate.sql.options.formats import PASSWORD, REGISTRY, SUBJECT, USERNAME
from tidegate.tasks.decode.binary.registry_http import (
    Elsewhere,
    NoAnswer,
    TooLarge,
    is_same_server,
    read_json,
)

if TYPE_CHECKING:
    from tidegate.project import Project
    from tidegate.sql.catalog.objects import Relation

_MAGIC = 0
_TRIES, _PAUSE = 3, 0.2
#: Seconds after which an id that the registry does not have, and one that it did not answer for, is asked for again.
_ABSENT, _SILENT, _FOR_EVER = 60.0, 5.0, float("inf")
_NOWHERE = Endpoints()
#: In an interval, a process asks for so many ids that the registry does not have, and for so many seconds.
_MOST_ABSENT, _LONGEST_ABSENT = 1000, 10.0
#: What a process remembers: random bytes name other ids for ever.
_MOST_ANSWERS, _MOST_BYTES = 10_000, 64 << 20
#: What a schema may import, with all that its imports import, and how deep.
_MOST_IMPORTS, _DEEPEST = 1000, 20


@dataclass(frozen=True)
class Schema:
    """`text`: as the registry has it (for Protobuf a FileDescriptorProto in base64, if it can); `references`: the
    (name, Schema) of what it imports."""

    text: str
    references: tuple[tuple[str, Schema], ...] = ()


#: For one that is larger or imports more than any that people write: no message can be read by it.
_UNREADABLE = Schema("")


@dataclass(frozen=True)
class _RegistryAnswer:
    """`found` as JSON, None if there is none; or the `problem` instead, or the address `elsewhere` that the registry
    sends on to. Good `until` this time."""

    found: Any
    size: int = 0
    problem: str | None = None
    elsewhere: str | None = None
    until: float = 0.0


@dataclass
class _Absences:
    """What was asked for since `begun`, and is not there: how often, and how long it took."""

    begun: float = float("-inf")
    ids: int = 0
    seconds: float = 0.0

    def are_enough(self) -> bool:
        """Whether no more ids are asked for now."""
        if time.monotonic() >= self.begun + _ABSENT:
            self.begun, self.ids, self.seconds = time.monotonic(), 0, 0.0
        return self.ids >= _MOST_ABSENT or self.seconds >= _LONGEST_ABSENT

    def count(self, seconds: float) -> None:
        """One more."""
        self.ids += 1
        self.seconds += seconds


@dataclass(frozen=True)
class Registry:
    """Where a registry is and how to log in, and where it may send on to. Its repr shows no secret."""

    url: str
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    #: Protobuf: "serialized", for those who have no compiler.
    form: str | None = None
    endpoints: Endpoints = _NOWHERE

    def schema(self, number: int) -> Schema | None:
        """The schema of an id; None if the registry has none of it, or if messages have named too many of those in this
        interval: of random bytes, nearly each one is another id. Raises TG555, TG614."""
        path, absences = f"schemas/ids/{number}", _ABSENCES.setdefault(self, _Absences())
        if not self._knows(path) and absences.are_enough():
            return None
        begun, asks = time.monotonic(), not self._knows(path)
        try:
            found = self._remembered(path)
        except TooLarge:
            return _UNREADABLE
        if found is None and asks:
            absences.count(time.monotonic() - begun)
        return self._schema(found)

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, deleted ones included: their messages may still be there. Raises TG555."""
        # Never from memory: what was registered a moment ago may be in this batch.
        answer = self._ask(f"subjects/{_quoted(subject)}/versions", deleted="true")
        found = [] if answer.found is None else answer.found
        self._check(answer)
        if not isinstance(found, list) or not all(type(version) is int for version in found):
            raise _error("answers with something other than a list of versions")
        return found

    def version(self, subject: str, version: int) -> tuple[int, Schema] | None:
        """(id, schema) of one version; None for one that can't be had, whose id a task may ask for. Raises TG555."""
        try:
            found = self._version(subject, version)
        except TooLarge:
            return None
        schema = self._schema(found)
        if schema is None:
            return None
        if type(found.get("id")) is not int:
            raise _error("answers with something other than a version of a subject")
        return found["id"], schema

    def _version(self, subject: str, version: int) -> Any:
        return self._remembered(f"subjects/{_quoted(subject)}/versions/{version}", deleted="true")

    def _schema(self, found: Any) -> Schema | None:
        try:
            return self._with_imports(found, [_MOST_IMPORTS], 0)
        except (TooLarge, RecursionError):
            return _UNREADABLE
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
            raise _error("answers with something other than a schema") from None

    def _with_imports(self, found: Any, left: list[int], depth: int) -> Schema | None:
        if found is None:
            return None
        left[0] -= 1
        if left[0] < 0 or depth > _DEEPEST:
            raise TooLarge
        references = []
        for reference in found.get("references") or ():
            entry = self._version(str(reference["subject"]), int(reference["version"]))
            schema = self._with_imports(entry, left, depth + 1)
            if schema is not None:
                references.append((str(reference["name"]), schema))
        if not isinstance(found["schema"], str):
            raise TypeError
        return Schema(found["schema"], tuple(references))

    def _knows(self, path: str) -> bool:
        answer = _ANSWERS.get((self, path))
        return answer is not None and answer.until > time.monotonic()

    def _remembered(self, path: str, **query: str) -> Any:
        """The answer about what never changes once it is there. Raises TG555, TG614, TooLarge."""
        if self._knows(path):
            answer = _ANSWERS[self, path]
        else:
            answer = _ANSWERS[self, path] = self._ask(path, **query)
            while len(_ANSWERS) > _MOST_ANSWERS or sum(a.size for a in _ANSWERS.values()) > _MOST_BYTES:
                _ANSWERS.pop(next(iter(_ANSWERS)))
        self._check(answer)
        if answer.found is _TOO_LARGE:
            raise TooLarge
        return answer.found

    def _check(self, answer: _RegistryAnswer) -> None:
        if answer.elsewhere is not None:
            message = f"the schema registry sends on to {answer.elsewhere}, an address that SQL may not use"
            raise TidegateError("TG614", message, hint=self.endpoints.hint(answer.elsewhere))
        if answer.problem is not None:
            raise _error(answer.problem)

    def _follows(self, url: str) -> bool:
        """Whether a redirect is followed: to what the operator lists, or to the same server, if the address is not
        listed since it came from a variable."""
        if self.endpoints.covers(url):
            return True
        return not self.endpoints.covers(self.url) and is_same_server(self.url, url)

    def _ask(self, path: str, **query: str) -> _RegistryAnswer:
        if self.form is not None:
            query["format"] = self.form
        url = f"{self.url.rstrip('/')}/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        login = None if self.username is None else (self.username, self.password or "")
        problem = ""
        for attempt in range(_TRIES):
            try:
                found, size = read_json(url, login, self._follows)
                return _RegistryAnswer(found, size, until=_in(_ABSENT) if found is None else _FOR_EVER)
            except TooLarge:
                return _RegistryAnswer(_TOO_LARGE, until=_in(_ABSENT))
            except Elsewhere as error:
                return _RegistryAnswer(None, elsewhere=error.address, until=_in(_SILENT))
            except NoAnswer as error:
                problem = error.problem
                if not error.again:
                    break
            time.sleep(_PAUSE * (attempt + 1))
        return _RegistryAnswer(None, problem=problem, until=_in(_SILENT))


_TOO_LARGE = object()
#: What this process was told, by registry and path.
_ANSWERS: dict[tuple[Registry, str], _RegistryAnswer] = {}
_ABSENCES: dict[Registry, _Absences] = {}


def _in(seconds: float) -> float:
    return time.monotonic() + seconds


def _error(problem: str) -> TidegateError:
    return TidegateError(
        "TG555",
        f"the schema registry {problem}",
        hint=(
            f"check {REGISTRY}, {USERNAME} and {PASSWORD}; none of the rows of this batch were "
            "stored, run again"
        ),
    )


#: What this process has read, by registry and subject: version -> (id, schema).
_KNOWN: dict[tuple[Registry, str], dict[int, tuple[int, Schema]]] = {}


def registry_of(
    relation: Relation,
    project: Project,
    environ: Mapping[str, str] | None,
    form: str | None = None,
    asks: bool = True,
) -> tuple[Registry, dict[int, Schema]] | None:
    """The registry of a relation's format and all schemas of its subject by id, oldest first; None if it has none.
    `asks`: else those that this process was told before. Raises TG555, TG606, TG614."""
    assert relation.format is not None
    options = relation.format.options
    if REGISTRY not in options:
        return None
    given = {
        name: str(expand(options[name], environ, secret=name == PASSWORD))
        for name in (REGISTRY, USERNAME, PASSWORD)
        if name in options
    }
    if "@" in given[REGISTRY].partition("://")[2].partition("/")[0]:
        raise TidegateError(
            "TG555",
            f"the address of the schema registry, {options[REGISTRY]}, has a login in it",
            hint=f"take the login out of the address, and write it as {USERNAME} and {PASSWORD}",
        )
    endpoints = project.reach.endpoints
    registry = Registry(given[REGISTRY], given.get(USERNAME), given.get(PASSWORD), form, endpoints)
    topic = kafka.topic(relation.connector, environ)  # type: ignore[arg-type]  # TG406: only messages have one
    subject = options.get(SUBJECT) or f"{topic}-value"
    known = _KNOWN.setdefault((registry, subject), {})
    for version in registry.versions(subject) if asks else ():
        if version not in known:
            entry = registry.version(subject, version)
            if entry is not None:
                known[version] = entry
    found: dict[int, Schema] = {}
    for version in sorted(known):
        number, schema = known[version]
        # (One id may be several versions: its place is that of the newest.)
        found.pop(number, None)
        found[number] = schema
    return registry, found


def unframed(value: bytes) -> tuple[int, bytes] | None:
    """(schema id, the rest) of a message as registries' clients write it; None for any other."""
    if len(value) < 5 or value[0] != _MAGIC:
        return None
    return int.from_bytes(value[1:5], "big"), value[5:]


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
