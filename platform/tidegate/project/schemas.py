"""Schema files of a project: what AVRO and PROTOBUF sources name by `schema.location`. `check` reads them, too."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import TidegateError, did_you_mean
from tidegate.project.disk import temporary_space
from tidegate.sql.options.formats import LOCATION, MESSAGE, Format, SchemaReader

if TYPE_CHECKING:
    from tidegate.sql.catalog.objects import Relation


def schema_reader(root: Path) -> SchemaReader:
    """How `sql` looks at the schema files of the project in `root` (see `tidegate.sql.options.formats`)."""

    def read(form: Format) -> Sequence[str] | None:
        if not (root / form.options[LOCATION]).is_file():
            # It may be made later; a run says so.
            return None
        return _avro_fields(root, form) if form.encode == "avro" else _protobuf_fields(root, form)

    return read


def avro_text(root: Path, form: Format) -> str:
    """The text of an Avro schema file. Raises TG611 if it is not there, or is no JSON."""
    location = form.options[LOCATION]
    text = _bytes(root, location).decode("utf-8", errors="replace")
    try:
        json.loads(text)
    except RecursionError:
        raise _unreadable(location, "is nested too deeply", "use a schema with fewer levels") from None
    except ValueError as error:
        raise _unreadable(
            location, f"is not JSON: {error}", "use an Avro schema, in the format of .avsc files"
        ) from None
    return text


def protobuf_files(root: Path, form: Format) -> bytes:
    """A serialized FileDescriptorSet: the file itself, or what a `.proto` compiles to. Raises TG611."""
    location = form.options[LOCATION]
    content = _bytes(root, location)
    return _compiled(root, location) if location.endswith(".proto") else content


def unfitting(relation: Relation, problem: str) -> TidegateError:
    """TG611 for a schema file whose fields the declared columns can't hold."""
    assert relation.format is not None
    location = relation.format.options[LOCATION]
    hint = "declare the column with the type of the field (docs/language.md: formats)"
    message = f'source "{relation.name}" does not fit {location}: {problem}'
    return TidegateError("TG611", message, hint=hint, location=relation.location)


def _avro_fields(root: Path, form: Format) -> list[str]:
    schema: Any = json.loads(avro_text(root, form))
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise _unreadable(
            form.options[LOCATION], "is not the schema of a record", '{"type": "record", "fields": […]}'
        )
    return [str(field["name"]) for field in schema["fields"] if isinstance(field, dict) and "name" in field]


def _protobuf_fields(root: Path, form: Format) -> list[str]:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    location, wanted = form.options[LOCATION], form.options[MESSAGE]
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(protobuf_files(root, form))
    except DecodeError:
        raise _unreadable(location, "is not a set of descriptors", _protoc(location)) from None
    found: dict[str, list[str]] = {}

    def collect(before: str, message: Any) -> None:
        name = f"{before}.{message.name}".lstrip(".")
        found[name] = [field.name for field in message.field]
        for nested in message.nested_type:
            collect(name, nested)

    for file in files.file:
        for message in file.message_type:
            collect(file.package, message)
    if wanted not in found:
        hint = did_you_mean(wanted, found) or f"its messages are {', '.join(list(found)[:10]) or 'none'}"
        raise TidegateError("TG611", f'{location} has no message "{wanted}"', hint=hint)
    return found[wanted]


def _compiled(root: Path, location: str) -> bytes:
    try:
        from grpc_tools import protoc
    except ImportError:
        problem = (
            "is the source text of a schema, but the compiler that reads it (grpcio-tools) is not installed"
        )
        raise _unreadable(location, problem, _protoc(location)) from None
    well_known = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory(prefix="tidegate-proto-", dir=temporary_space()) as folder:
        target = Path(folder) / "schema.desc"
        paths = [f"-I{root}", f"-I{(root / location).parent}", f"-I{well_known}"]
        done = protoc.main(
            ["protoc", *paths, "--include_imports", f"--descriptor_set_out={target}", str(root / location)]
        )
        if done != 0 or not target.is_file():
            raise _unreadable(location, "does not compile", _protoc(location))
        return target.read_bytes()


def _protoc(location: str) -> str:
    stem = location.rpartition(".")[0] or location
    return (
        f"run protoc --include_imports --descriptor_set_out={stem}.desc {stem}.proto, then "
        f"set {LOCATION} = '{stem}.desc'"
    )


def _bytes(root: Path, location: str) -> bytes:
    try:
        return (root / location).read_bytes()
    except OSError as error:
        hint = f"{LOCATION} must be a path inside the project's folder"
        raise _unreadable(location, f"can't be read ({error.strerror})", hint) from None


def _unreadable(location: str, problem: str, hint: str) -> TidegateError:
    return TidegateError("TG611", f"the schema {location} {problem}", hint=hint)
