"""Whether a jar is the one that tidegate was made with: sums of all that a session may load (`jars.sha256`)."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from tidegate.errors import TidegateError

#: As `sha256sum` writes and checks it; the names are Ivy's, `group_artifact-version.jar`.
SUMS = Path(__file__).with_name("jars.sha256")
#: What the manifest of infra/kafka/standin says of itself: it stands in for a jar that a mirror of Maven lacks.
STANDIN = "test-only stand-in, see infra/kafka/standin"


def read_sums(file: Path = SUMS) -> dict[str, str]:
    """{name of the jar: its SHA-256}."""
    return {name: digest for digest, name in (line.split() for line in file.read_text().splitlines())}


def is_standin(jar: Path) -> bool:
    """Whether this jar is the stand-in, and not the artifact whose name it has."""
    if not zipfile.is_zipfile(jar):
        return False
    with zipfile.ZipFile(jar) as archive:
        manifest = "META-INF/MANIFEST.MF"
        return manifest in archive.namelist() and STANDIN in archive.read(manifest).decode(errors="replace")


def ivy_name(package: str) -> str:
    """The name of the jar of `group:artifact:version` in Ivy's cache."""
    group, artifact, version = package.split(":")
    return f"{group}_{artifact}-{version}.jar"


def verify(jars: Mapping[str, Path], sums: Mapping[str, str] | None = None) -> list[str]:
    """Compare jars, {name as in the sums: file}, with their sums.

    The result says of each that has none what it is. Raises TG518 for the first that is another than it should be.
    """
    known = read_sums() if sums is None else sums
    notes = []
    for name, jar in jars.items():
        wanted, stat = known.get(name), jar.stat()
        if wanted is None and is_standin(jar):
            notes.append(f"{jar} is a stand-in for tests: Kafka without TLS, login or delegation tokens")
            continue
        found = _sha256(jar, stat.st_size, stat.st_mtime_ns)
        if wanted is None:
            notes.append(f"{jar} has no recorded checksum: its SHA-256 is {found}")
        elif found != wanted:
            raise TidegateError(
                "TG518",
                f"{jar} is not the jar that tidegate was built with: its SHA-256 is {found}, not {wanted}",
                hint="remove the file, find out who put it there, and fetch it again from Maven Central",
            )
    return notes


def verify_folder(files: Iterable[Path], sums: Mapping[str, str]) -> list[str]:
    """`verify` for jars that have their names of Ivy's cache."""
    return verify({file.name: file for file in sorted(files)}, sums)


@cache
def _sha256(jar: Path, size: int, changed: int) -> str:
    """Of a file with this size and time of change: sessions of one process read it once."""
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
