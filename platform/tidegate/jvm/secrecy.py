"""What Spark does not show: settings that hold secrets stay out of command lines, event logs, plans and the UI (X4)."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.confidential import is_secret
from tidegate.jvm.java import java_class
from tidegate.project.disk import temporary_space
from tidegate.project.reading.variables import Expanded

_REDACTION = "spark.redaction.regex"
#: Names of what is masked. (Where a value matches, Spark masks it, too.)
_CONFIDENTIAL = "(?i)secret|passw|passphrase|token|key|jaas|credential|authorization|certificate"
#: Of each session: what readers and writers are given, and logins inside addresses, where a plan quotes one.
SESSION = {
    "spark.sql.redaction.options.regex": f"{_CONFIDENTIAL}|url",
    "spark.sql.redaction.string.regex": r"://[^/@\s]*:[^/@\s]+@|(?i:password)=[^&;,\s]+",
}
#: Read by Spark's launcher, or by the JVM itself, before the application has settings.
_AT_LAUNCH = tuple(
    f"spark.{name}"
    for name in ("driver.", "jars", "files", "archives", "submit.", "kerberos.", "yarn.", "kubernetes.")
)
#: Options of the driver's JVM: its launcher puts them on the command line, wherever it has read them.
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_PROPERTY = re.compile(r"-D([^\s='\"]+)=")
#: The environment variable by which PySpark gives arguments to Spark's launcher.
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
#: Loggers of the JVM that tell secrets at DEBUG: HTTP clients (Spark's, that of Iceberg's catalogs, and that of its
#: access to AWS) each header that they send, and with it a catalog's token; the others a database's address, with its
#: login.
_TALKATIVE = (
    "org.apache.http",
    "org.apache.iceberg.shaded.org.apache.hc.client5.http",
    "org.apache.hc.client5.http",
    "org.apache.iceberg.jdbc",
    "org.postgresql",
)


@dataclass(frozen=True)
class LaunchSettings:
    """Those of a Spark that is to start. `shown`: for the command line of the JVM, which all processes of the machine
    can read; they tell Spark to mask the others. `launching`: what came out of the environment, and Spark's launcher
    has to know. `secret`: what it need not know, and nobody should read."""

    shown: Mapping[str, str]
    launching: Mapping[str, str]
    secret: Mapping[str, str]


def split(settings: Mapping[str, str]) -> LaunchSettings:
    """Which of the settings may hold a secret: by their name, or since they come out of the environment."""
    launching = {
        key: value
        for key, value in settings.items()
        if isinstance(value, Expanded) and key.startswith(_AT_LAUNCH) and not is_secret(key)
    }
    secret = {
        key: value
        for key, value in settings.items()
        if is_secret(key) or (isinstance(value, Expanded) and key not in launching)
    }
    # The JVM's own properties are shown beside Spark's.
    properties = [name for value in launching.values() for name in _PROPERTY.findall(value)]
    names = [_CONFIDENTIAL, *map(re.escape, [*secret, *launching, *properties])]
    if _REDACTION in settings:
        names.append(f"(?:{settings[_REDACTION]})")
    shown = {key: value for key, value in settings.items() if key not in secret and key not in launching}
    return LaunchSettings(shown | {_REDACTION: "|".join(names)}, launching, secret)


def launch(settings: LaunchSettings) -> None:
    """Start Spark, if it does not run. What its launcher reads is in files of this user's, which are there as long as
    it starts; secrets go through a socket, into the settings of the application: a session logs its own. Raises TG623
    where there is no room for the files."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is None:
        with _files(settings.launching):
            conf = SparkConf(loadDefaults=False).setAll(list(settings.shown.items()))
            SparkContext._ensure_initialized(conf=conf)
    SparkContext.getOrCreate(SparkConf().setAll([*settings.shown.items(), *settings.secret.items()]))
    _quiet(SparkContext._jvm)


@contextmanager
def _files(launching: Mapping[str, str]) -> Iterator[None]:
    """While the block runs, Spark's launcher finds these settings in a file, and Java its options in another one."""
    if not launching:
        yield
        return
    before = os.environ.get(_ARGUMENTS)
    with tempfile.TemporaryDirectory(prefix="tidegate-", dir=temporary_space()) as folder:
        lines = list[str]()
        for key, value in launching.items():
            if key in _JAVA_OPTIONS:
                options = Path(folder, key)
                options.write_text("".join(map(_argument, shlex.split(value))), "utf-8")
                value = f"@{options}"
            lines.append(f"{key}={_property(value)}\n")
        file = Path(folder, "spark.properties")
        file.write_text("".join(lines), "utf-8")
        known = f"--load-spark-defaults --properties-file {shlex.quote(str(file))}"
        os.environ[_ARGUMENTS] = f"{known} {before or 'pyspark-shell'}"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = before


def blacken_logins(log: Path) -> None:
    """Write over the logins inside addresses in a file that another process goes on writing to: where Spark looks for
    jars, it says by which address, with its password."""
    with log.open("r+b") as file:
        for found in re.finditer(rb"://([^/@\s]*:[^/@\s]+)@", file.read()):
            file.seek(found.start(1))
            file.write(b"*" * len(found[1]))


def _argument(text: str) -> str:
    """A line of a file of arguments that `java` reads."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"\n'


def _property(text: str) -> str:
    """A value as it stands in a file of Java's properties."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped.startswith((" ", "\t")) else escaped


def _quiet(jvm: Any) -> None:
    """Whatever `spark.log.level` is."""
    info = java_class(jvm, "org.apache.logging.log4j.Level").INFO
    manager = java_class(jvm, "org.apache.logging.log4j.LogManager")
    levels = java_class(jvm, "org.apache.logging.log4j.core.config.Configurator")
    for name in _TALKATIVE:
        if manager.getLogger(name).getLevel().intLevel() > info.intLevel():
            levels.setLevel(name, info)
