"""Class data sharing: a JVM that has run once leaves an archive of its loaded classes, and later ones start from it.

Of a short run's CPU a fifth went into reading and verifying the same 25,000 classes again. The JVM writes the archive
when it ends, checks by itself whether one fits (its own build, every jar's time and size), and does without where it
does not: nothing depends on it. Local Spark only: executors on other machines have JVMs of their own.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.project.disk import forget_unused, private_folder, user_cache

#: A JVM takes some seconds to write one, beside others that start meanwhile.
_MAKING_SECONDS = 120
_VARIABLE = "TIDEGATE_CLASS_ARCHIVES"
#: Behind the name of a folder: archives are taken from there, and none is made.
_ONLY_READ = ":ro"
#: What the JVM has to say about archives is nothing that anybody can do something about.
_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def archive_folder() -> Path | None:
    """Where archives are: `$TIDEGATE_CLASS_ARCHIVES` ("off": nowhere), else tidegate/jvm in the user's cache."""
    given = os.environ.get(_VARIABLE)
    if given is not None and given.lower() in ("off", ""):
        return None
    return Path(given.removesuffix(_ONLY_READ)) if given else user_cache("jvm")


def _is_only_read() -> bool:
    return os.environ.get(_VARIABLE, "").endswith(_ONLY_READ)


@dataclass(frozen=True)
class Purpose:
    """What a JVM is started for: an archive has the classes of the `work` that it was made at, so that other work has
    one of its own. `lasting`: it runs for long and has to end at once when it is told to: it makes no archive."""

    work: str = ""
    lasting: bool = False


#: Where nothing more is known.
ANY_PURPOSE = Purpose()


def java_options(java: str, jars: Sequence[Path], purpose: Purpose) -> str:
    """What tells a JVM to start from the archive of these jars, or to make it when it ends; "" where neither can be.

    `java`: path of the executable; `jars`: what will be on its class path, in that order.
    """
    folder = archive_folder()
    if folder is None:
        return ""
    archive = folder / f"{_identity(java, jars, purpose.work)}.jsa"
    if any(letter.isspace() for letter in str(archive)):
        return ""  # options are one text, split at blanks
    if _is_whole(archive):
        with suppress(OSError):
            os.utime(archive)
        return f"{_QUIET} -XX:SharedArchiveFile={archive}"
    if purpose.lasting or _is_only_read():
        return ""
    try:
        if os.environ.get(_VARIABLE):
            # What is named may be there for several users.
            folder.mkdir(parents=True, exist_ok=True)
        else:
            private_folder(folder)
    except OSError:
        return ""
    if not os.access(folder, os.W_OK) or _is_being_made(archive):
        return ""
    forget_unused(folder, "*.jsa")
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}"


def _identity(java: str, jars: Sequence[Path], work: str) -> str:
    """Other for another Java, for other jars or the same ones installed anew, and for other work."""
    facts = [work]
    for file in (Path(os.path.realpath(java)), *jars):
        found = file.stat()
        facts.append(f"{file} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _is_whole(archive: Path) -> bool:
    """Whether the JVM that made it was not killed meanwhile: the header is what it writes last."""
    try:
        with archive.open("rb") as file:
            return any(file.read(4))
    except OSError:
        return False


def _is_being_made(archive: Path) -> bool:
    with suppress(OSError):
        return time.time() - archive.stat().st_mtime < _MAKING_SECONDS
    return False
