"""The Java that Spark will run on: found the way Spark finds it, and checked before Spark is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import TidegateError

OLDEST, NEWEST_KNOWN = 17, 21
_INSTALL = (
    "install Java 17 (Debian/Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')


@dataclass(frozen=True)
class Java:
    """A usable Java. `warning` is set if Spark does not promise to work with this version."""

    path: str
    major: int
    version: str
    warning: str | None = None


def require_java(environ: Mapping[str, str] | None = None) -> Java:
    """The `java` that Spark will start: `$JAVA_HOME/bin/java`, else the one on PATH.

    Raises TG608, in one line with what to do, if there is none, it does not run, or it is older than 17.
    """
    path = find_java(environ)
    text = _version_text(path)
    match = _VERSION.search(text)
    if match is None:
        first = text.strip().splitlines()[0] if text.strip() else "no answer"
        raise TidegateError("TG608", f"{path} does not run: {first}", hint=_INSTALL)
    major, version = int(match.group(1)), match.group(0).split('"')[1]
    if major < OLDEST:
        raise TidegateError(
            "TG608",
            f"Java {version} at {path} is too old: Spark 4.1 needs 17 or newer",
            hint=f"{_INSTALL}, and set JAVA_HOME to it",
        )
    warning = None
    if major not in (OLDEST, NEWEST_KNOWN):
        warning = f"Spark 4.1 is tested with Java {OLDEST} and {NEWEST_KNOWN}, but this is {version}"
    return Java(path, major, version, warning)


def find_java(environ: Mapping[str, str] | None = None) -> str:
    """Path of the `java` that Spark will start, whatever it is. Raises TG608 if there is none."""
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    if home:
        path = shutil.which("java", path=os.path.join(home, "bin"))
        if path is None:
            raise TidegateError(
                "TG608",
                f"JAVA_HOME is {home}, but there is no bin/java in it",
                hint=f"correct or unset JAVA_HOME, or {_INSTALL}",
            )
    else:
        path = shutil.which("java", path=environ.get("PATH", ""))
        if path is None:
            raise TidegateError("TG608", "Spark needs Java, but there is no java on PATH", hint=_INSTALL)
    return path


def _version_text(path: str) -> str:
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start ({error})"
    return done.stderr + done.stdout
