"""What Spark does not show: settings that hold secrets stay out of command lines, event logs, plans and the UI (X4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegate.jvm.java import java_class
from tidegate.project.variables import Expanded
from tidegate.sql.dialect.secrets import is_secret

_REDACTION = "spark.redaction.regex"
#: Names of what is masked. (Where a value matches, Spark masks it, too.)
_CONFIDENTIAL = "(?i)secret|passw|passphrase|token|key|jaas|credential|authorization|certificate"
#: Of each session: what readers and writers are given, and logins inside addresses, where a plan quotes one.
SESSION = {
    "spark.sql.redaction.options.regex": f"{_CONFIDENTIAL}|url",
    "spark.sql.redaction.string.regex": r"://[^/@\s]*:[^/@\s]+@|(?i:password)=[^&;,\s]+",
}
#: Read by Spark's launcher, or by the JVM itself: these have to stand on the command line.
_AT_LAUNCH = tuple(
    f"spark.{name}"
    for name in ("driver.", "jars", "files", "archives", "submit.", "kerberos.", "yarn.", "kubernetes.")
)
#: HTTP clients of the JVM: Spark's, that of Iceberg's catalogs, and that of its access to AWS.
_HEADERS = (
    "org.apache.http",
    "org.apache.iceberg.shaded.org.apache.hc.client5.http",
    "org.apache.hc.client5.http",
)


def split(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Those for the command line, and those that may hold what nobody should read: by their name, or since they come
    out of the environment. The first tell Spark to mask the second."""
    secret = {
        key: value
        for key, value in settings.items()
        if is_secret(key) or (isinstance(value, Expanded) and not key.startswith(_AT_LAUNCH))
    }
    names = [_CONFIDENTIAL, *map(re.escape, secret)]
    if _REDACTION in settings:
        names.append(f"(?:{settings[_REDACTION]})")
    plain = {key: value for key, value in settings.items() if key not in secret}
    return plain | {_REDACTION: "|".join(names)}, secret


def launch(settings: Mapping[str, str], secret: Mapping[str, str]) -> None:
    """Start Spark, if it does not run, with `settings` on the command line of the JVM, which all processes of the
    machine can read. `secret` goes through a socket, into the settings of the application: a session logs its own."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(list(settings.items())))
    SparkContext.getOrCreate(SparkConf().setAll([*settings.items(), *secret.items()]))
    _quiet(SparkContext._jvm)


def _quiet(jvm: Any) -> None:
    """Whatever `spark.log.level` is: these, at DEBUG, log each header that they send, and with it a catalog's token."""
    info = java_class(jvm, "org.apache.logging.log4j.Level").INFO
    manager = java_class(jvm, "org.apache.logging.log4j.LogManager")
    levels = java_class(jvm, "org.apache.logging.log4j.core.config.Configurator")
    for name in _HEADERS:
        if manager.getLogger(name).getLevel().intLevel() > info.intLevel():
            levels.setLevel(name, info)
