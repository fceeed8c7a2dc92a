"""The definitions of a large project as they were analysed last, in the user's cache: while no file changes, a command
takes them from there. To read 300 definitions takes half a second, and to load them a tenth of that.

What is kept is loaded only if it is of the same texts, and of the same version of the code that has analysed them. It
never replaces a check that depends on more than the texts: what connectors may reach is checked again. To load a pickle
is to run what it says: it must be one that only this user could have written, in a folder of which the same is true.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pydantic

from tidegate.errors import Location
from tidegate.project.disk import forget_unused, private_folder, user_cache, write_whole
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.dialect.dialect import LIBRARY
from tidegate.sql.dialect.warnings import collecting, warn
from tidegate.sql.options.connectors import Guard
from tidegate.sql.options.formats import Format, SchemaReader

#: Fewer definitions are read in less than a tenth of a second.
_FEW = 50
#: What analyses the texts: these folders and files of the package.
_ANALYSING = ("sql", "watermark", "errors.py", "confidential.py", "masking.py")
#: No link, and nothing that waits for a writer.
_AS_IT_IS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS, _OTHERS_WRITE = 0o077, 0o022
#: What `warn` takes.
_Warning = tuple[str, str, Location | None, str]


def analysed(
    owner: tuple[Path, str] | None,
    files: Sequence[tuple[str, str]],
    schemas: SchemaReader,
    guard: Guard,
    gate_names: Mapping[str, str] | None = None,
) -> Catalog:
    """What `load_catalog` makes of the files, from the cache if it is there. `owner`: the project's folder and the
    environment: the definitions of now take the place of theirs before; None: nothing is kept. Raises what
    `load_catalog` raises."""
    names = gate_names or {}
    place = None if owner is None or _most(files) < _FEW else _place(*owner, names)
    if place is None:
        return _read(files, schemas, guard, names)[0]
    key = _key(files, names)
    kept = _kept(place, key)
    if kept is not None and _is_allowed(kept[0], guard):
        catalog, warnings = kept
        _warn_again(warnings)
    else:
        asked: list[Format] = []
        catalog, warnings = _read(files, _noting(schemas, asked), guard, names)
        # (What files of schemas say is not in the key. There are few such projects.)
        if not asked:
            _keep(place, key, catalog, warnings)
    catalog.schemas, catalog.guard = schemas, guard
    return catalog


def _most(files: Sequence[tuple[str, str]]) -> int:
    """How many definitions there are at most."""
    return sum(text.lower().count("create") for _, text in files)


def _read(
    files: Sequence[tuple[str, str]], schemas: SchemaReader, guard: Guard, gate_names: Mapping[str, str]
) -> tuple[Catalog, list[_Warning]]:
    from tidegate.sql.statements.analysis import load_catalog

    warnings: list[_Warning] = []
    try:
        with collecting() as found:
            return load_catalog(files, schemas, guard=guard, gate_names=gate_names), warnings
    finally:
        warnings += [(one.code, one.message, one.location, one.hint or "") for one in found]
        _warn_again(warnings)


def _noting(schemas: SchemaReader, asked: list[Format]) -> SchemaReader:
    """A reader that says in `asked` what it was asked for."""

    def read(form: Format) -> Sequence[str] | None:
        asked.append(form)
        return schemas(form)

    return read


def _warn_again(warnings: Sequence[_Warning]) -> None:
    for one in warnings:
        warn(*one)


def _is_allowed(catalog: Catalog, guard: Guard) -> bool:
    """A folder may have become a link since, and the environment may allow less."""
    reaching = [*catalog.relations, *catalog.sinks]
    return not any(
        problem for one in reaching if one.connector for problem in guard(one.connector, one.format)
    )


def _place(project: Path, env: str, gate_names: Mapping[str, str]) -> Path | None:
    """None where nothing is kept. (Names of gates are found by the definitions without them: a project that has some
    reads both.)"""
    folder = user_cache("definitions")
    is_off = os.environ.get("TIDEGATE_DEFINITIONS_CACHE", "").lower() == "off"
    if folder is None or is_off or _code() is None or not _is_ours_alone(folder, project):
        return None
    name = hashlib.sha256(os.fsencode(f"{project}\n{env}\n{bool(gate_names)}")).hexdigest()[:32]
    return folder / f"{name}.pickle"


def _is_ours_alone(folder: Path, project: Path) -> bool:
    """Whether neither another user but root nor an author of the project can put a file or a link there, or a folder
    above it in the place of another. One that is not there yet is made so."""
    real, owners = Path(os.path.realpath(folder)), (os.getuid(), 0)
    if real.is_relative_to(os.path.realpath(project)):
        return False
    for one in (real, *real.parents):
        try:
            found = one.stat()
        except FileNotFoundError:
            continue
        except OSError:
            return False
        # (Where everybody makes files, as in /tmp, none moves those of others.)
        refused = _OTHERS if one == real else 0 if found.st_mode & stat.S_ISVTX else _OTHERS_WRITE
        if found.st_uid not in owners or found.st_mode & refused:
            return False
    return True


def _key(files: Sequence[tuple[str, str]], gate_names: Mapping[str, str]) -> bytes:
    return hashlib.sha256(repr((_code(), [*files], sorted(gate_names.items()))).encode()).digest()


@cache
def _code() -> bytes | None:
    """Other for another version of what analyses, and for the same one that was edited. None if its sources are not
    there, so that nobody knows."""
    package, found = Path(__file__).parents[1], hashlib.sha256()
    for name in _ANALYSING:
        # (What is compiled is of the sources.)
        files = [file for file in sorted([package / name, *(package / name).rglob("*.*")]) if file.is_file()]
        sources = [file for file in files if file.suffix != ".pyc"]
        if not sources:
            return None
        for file in sources:
            found.update(file.read_bytes())
    found.update(repr((sys.version, LIBRARY, pydantic.VERSION)).encode())
    return found.digest()


def _kept(place: Path, key: bytes) -> tuple[Catalog, list[_Warning]] | None:
    """What is there of this key, as it was written."""
    try:
        with os.fdopen(os.open(place, _AS_IT_IS), "rb") as file:
            found = os.fstat(file.fileno())
            is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
            if not is_ours or found.st_mode & _OTHERS or file.read(len(key)) != key:
                return None
            digest, content = file.read(len(key)), file.read()
        if hashlib.sha256(content).digest() != digest:
            return None
        catalog, warnings = pickle.loads(content)
    except Exception:  # whatever a file of another state makes of it: the texts are read then
        return None
    with suppress(OSError):
        os.utime(place)
    return catalog, warnings


def _keep(place: Path, key: bytes, catalog: Catalog, warnings: Sequence[_Warning]) -> None:
    bare = catalog.copied()
    bare.schemas = bare.guard = None
    # A home folder may be missing, full or read-only, and an expression may be nested too deeply for pickle: nothing
    # depends on what is kept.
    with suppress(Exception):
        private_folder(place.parent)
        forget_unused(place.parent, "*")
        content = pickle.dumps((bare, [*warnings]), protocol=5)
        write_whole(place, key + hashlib.sha256(content).digest() + content, private=True)
