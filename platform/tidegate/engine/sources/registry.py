"""Schema registries (Confluent's API): the schemas that messages were written with, by the id that each message names.

The driver lists the versions of a subject after each batch is planned: a schema is registered before the first message
that names it is sent, so all that a batch can name is known by then, and goes along with its tasks. An id of another
subject, which a topic of several kinds of records has, is looked up by the task that meets it. Schemas never change
under their id, so what is known stays known.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError
from tidegate.project import kafka
from tidegate.project.variables import expand
from tidegate.sql.formats import PASSWORD, REGISTRY, SUBJECT, USERNAME

if TYPE_CHECKING:
    from tidegate.sql.catalog import Relation

_MAGIC = 0
_TRIES, _PAUSE, _TIMEOUT = 3, 0.2, 10.0


@dataclass(frozen=True)
class Schema:
    """`text`: as the registry has it (for Protobuf a FileDescriptorProto in base64, if it can); `references`: the
    (name, Schema) of what it imports."""

    text: str
    references: tuple[tuple[str, Schema], ...] = ()


@dataclass(frozen=True)
class Registry:
    """Where a registry is and how to log in. Its repr shows no secret."""

    url: str
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    #: Protobuf: "serialized", for those who have no compiler.
    form: str | None = None

    def schema(self, number: int) -> Schema | None:
        """The schema of an id; None if the registry has none of it. Raises TG555."""
        return self._schema(self.get(f"schemas/ids/{number}"))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, deleted ones included: their messages may still be there. Raises TG555."""
        found = self.get(f"subjects/{_quoted(subject)}/versions", deleted="true")
        return [int(version) for version in found or ()]

    def version(self, subject: str, version: int) -> tuple[int, Schema] | None:
        """(id, schema) of one version. Raises TG555."""
        found = self.get(f"subjects/{_quoted(subject)}/versions/{version}", deleted="true")
        schema = self._schema(found)
        return (int(found["id"]), schema) if found is not None and schema is not None else None

    def _schema(self, found: Any) -> Schema | None:
        if found is None:
            return None
        references = []
        for reference in found.get("references") or ():
            entry = self.version(reference["subject"], reference["version"])
            if entry is not None:
                references.append((str(reference["name"]), entry[1]))
        return Schema(found["schema"], tuple(references))

    def get(self, path: str, **query: str) -> Any:
        """The answer as JSON, None for 404. Raises TG555 if there is none, or the login is refused."""
        if self.form is not None:
            query["format"] = self.form
        url = f"{self.url.rstrip('/')}/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        request = urllib.request.Request(url, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self.username is not None:
            login = f"{self.username}:{self.password or ''}".encode()
            request.add_header("Authorization", "Basic " + base64.b64encode(login).decode("ascii"))
        problem = ""
        for attempt in range(_TRIES):
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                problem = f"answers {error.code} {error.reason}"
                if error.code < 500:
                    break
            except (OSError, ValueError) as error:
                # Not `error` itself: it may quote the address, and that may hold a login.
                problem = f"does not answer ({type(getattr(error, 'reason', error)).__name__})"
            time.sleep(_PAUSE * (attempt + 1))
        raise TidegateError(
            "TG555",
            f"the schema registry {problem}",
            hint=f"check {REGISTRY}, {USERNAME} and {PASSWORD}; no row of this batch was kept, run again",
        )


#: What this process has read, by registry and subject: version -> (id, schema).
_KNOWN: dict[tuple[Registry, str], dict[int, tuple[int, Schema]]] = {}


def registry_of(
    relation: Relation, environ: Mapping[str, str] | None, form: str | None = None
) -> tuple[Registry, dict[int, Schema]] | None:
    """The registry of a relation's format and all schemas of its subject by id; None if it has none. Raises TG555,
    TG606."""
    assert relation.format is not None
    options = relation.format.options
    if REGISTRY not in options:
        return None
    given = {
        name: str(expand(options[name], environ, secret=name == PASSWORD))
        for name in (REGISTRY, USERNAME, PASSWORD)
        if name in options
    }
    registry = Registry(given[REGISTRY], given.get(USERNAME), given.get(PASSWORD), form)
    topic = kafka.topic(relation.connector, environ)  # type: ignore[arg-type]
    subject = options.get(SUBJECT) or f"{topic}-value"
    known = _KNOWN.setdefault((registry, subject), {})
    for version in registry.versions(subject):
        if version not in known:
            entry = registry.version(subject, version)
            if entry is not None:
                known[version] = entry
    return registry, dict(known.values())


def unframed(value: bytes) -> tuple[int, bytes] | None:
    """(schema id, the rest) of a message as registries' clients write it; None for any other."""
    if len(value) < 5 or value[0] != _MAGIC:
        return None
    return int.from_bytes(value[1:5], "big"), value[5:]


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
