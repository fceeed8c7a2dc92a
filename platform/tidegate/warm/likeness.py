"""What has to be the same in a command and in the worker that carries it out, so that the answer is the same.

Everything that the command would read before it starts Spark is taken into two digests: `settings` (this release and
its files, the environments), which a worker has for its whole life, and `definitions`, which it can read again; in both
are the values of the variables that the files name. Neither a file nor a value goes over the socket: the command sends
what an HMAC makes of the digest and of a number that the worker has chosen for this connection.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import tidegate
from tidegate.confidential import variables

_SCHEMA = re.compile(rb"schema\.location\s*=\s*'((?:[^']|'')*)'", re.IGNORECASE)
#: Read by libraries, whatever stands in files.
_READ_ANYWAY = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_", "KRB5", "PG", "SPARK_", "PYSPARK_", "TIDEGATE_JARS")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_READ_BY_NAME = frozenset(
    (
        *("HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", *_PROXIES, *map(str.lower, _PROXIES)),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    )
)
#: Larger files are no definitions: their size and time stand for them.
_LARGE = 4 << 20


@dataclass(frozen=True)
class Likeness:
    """Digests. Two that are equal make the same of the same command."""

    settings: bytes
    definitions: bytes

    def proof(self, nonce: str) -> dict[str, str]:
        """What shows to somebody who has the same digests that these are the same, and nobody else anything."""
        return {"settings": _proof(nonce, self.settings), "definitions": _proof(nonce, self.definitions)}

    def differs(self, nonce: str, proof: Mapping[str, object]) -> str | None:
        """Which of both is another one: `settings` or `definitions`; None: they are the same."""
        for name, own in self.proof(nonce).items():
            if not hmac.compare_digest(own, str(proof.get(name))):
                return name
        return None


def likeness_of(root: Path, env: str, environ: Mapping[str, str]) -> Likeness:
    """Of the project in `root`, in environment `env`, as its files are now. `environ`: before Spark has added to it."""
    # By its path a project is known as the owner of tables (X3), and its warehouse found.
    named_as, root = os.path.abspath(root), Path(os.path.realpath(root))
    settings, definitions = hashlib.sha256(), hashlib.sha256()
    _add(
        settings,
        os.fsencode(named_as),
        os.fsencode(root),
        env.encode(),
        str(os.geteuid()).encode(),
        *_release(),
    )
    named = set(_read_by_libraries(environ))
    for path in sorted((root / "resources").glob("*.yaml")):
        named |= _add_file(settings, root, path)
    _add_values(settings, named, environ)
    named = set()
    kept = root / ".tidegate" / "definitions"
    files = [*_files(root / "assets"), *sorted(kept.glob("*.sql"))]
    files += sorted((kept / quote(env, safe="")).glob("*.sql"))
    for path in files:
        named |= _add_file(definitions, root, path)
    _add_values(definitions, named, environ)
    return Likeness(settings.digest(), definitions.digest())


def _proof(nonce: str, digest: bytes) -> str:
    return hmac.new(bytes.fromhex(nonce), digest, hashlib.sha256).hexdigest()


def _release() -> list[bytes]:
    """This release, and its files as they are installed: somebody may have changed one."""
    folder = Path(tidegate.__file__).parent
    found = [
        tidegate.__version__.encode(),
        sys.version.encode(),
        os.fsencode(sys.prefix),
        os.fsencode(folder),
    ]
    for path in _files(folder, ".py"):
        facts = path.stat()
        found.append(f"{path.name} {facts.st_size} {facts.st_mtime_ns}".encode())
    return found


def _files(folder: Path, suffix: str = "") -> list[Path]:
    """All files below a folder, in an order that depends on nothing but their names."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        found += [Path(place, name) for name in sorted(names) if name.endswith(suffix)]
    return found


def _add(digest: hashlib._Hash, *parts: bytes) -> None:
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)


def _add_file(digest: hashlib._Hash, root: Path, path: Path) -> set[str]:
    """Add a file, and the schemas that it names; the names of the variables in it."""
    content = _content(path)
    _add(digest, os.fsencode(path.relative_to(root)), content)
    for place in sorted(set(_SCHEMA.findall(content))):
        schema = root / os.fsdecode(place.replace(b"''", b"'"))
        # What it is compiled with stands beside it.
        beside = schema.parent.glob("*.proto") if schema.suffix == ".proto" else ()
        for one in sorted({schema, *beside}):
            _add(digest, os.fsencode(one), _content(one))
    return set(variables(content.decode("latin-1")))


def _add_values(digest: hashlib._Hash, names: Iterable[str], environ: Mapping[str, str]) -> None:
    for name in sorted(names):
        value = environ.get(name)
        _add(digest, name.encode(), b"unset" if value is None else b"=" + os.fsencode(value))


def _content(path: Path) -> bytes:
    try:
        facts = path.stat()
        if facts.st_size > _LARGE:
            return f"{facts.st_size} {facts.st_mtime_ns}".encode()
        return path.read_bytes()
    except OSError as error:
        return f"unreadable: {error.errno}".encode()


def _read_by_libraries(environ: Mapping[str, str]) -> Iterable[str]:
    return (name for name in environ if name.startswith(_READ_ANYWAY) or name in _READ_BY_NAME)
