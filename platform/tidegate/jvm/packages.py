"""The jars that Spark needs beyond its own, where they are on this machine, and how Spark is told of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.jvm.class_archive import Purpose, java_options
from tidegate.jvm.jars import ivy_name
from tidegate.project.java import find_java
from tidegate.project.reading.variables import Expanded
from tidegate.project.storage import EXCLUDED_PACKAGES, S3A_PACKAGES, SQLITE_PACKAGE

#: The runtime that belongs to the pinned pyspark. One self-contained jar.
ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
#: Spark's Kafka source and sink, and all that they need beyond Spark's own jars. The client is newer than the one that
#: Spark asks for: that one's producer may put a message into another topic when deliveries time out (CVE-2026-35554).
KAFKA_PACKAGES = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.3",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
#: What every Spark has where it costs no download, so that a shell can create a Kafka source, too, and all of them can
#: start from one archive of classes.
USUAL_PACKAGES = (*KAFKA_PACKAGES, SQLITE_PACKAGE)
#: What the client would bring along, and is there already: in Spark, in newer versions.
KAFKA_EXCLUDED = (
    "at.yawk.lz4:lz4-java",
    "com.github.luben:zstd-jni",
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
)
_CLASS_PATH, _JAVA_OPTIONS = "spark.driver.extraClassPath", "spark.driver.defaultJavaOptions"
#: Between the entries of a setting; of others it is a comma.
_SEPARATORS = {_CLASS_PATH: os.pathsep, _JAVA_OPTIONS: " "}


def jar_folder() -> Path:
    """Where jars are looked for beside Ivy's cache: `$TIDEGATE_JARS`, else share/tidegate/jars of the environment.

    This is the installation for machines that reach no Maven repository. On one that does, resolve ICEBERG_PACKAGE and
    USUAL_PACKAGES (`make` does, or any Spark with `spark.jars.packages`), and copy the jars of ~/.ivy2.5.2/jars into
    this folder of the other machine. The names may be Ivy's (`group_artifact-version.jar`) or Maven's
    (`artifact-version.jar`). If all that a project needs is there or in Ivy's cache, Spark asks no repository.
    """
    given = os.environ.get("TIDEGATE_JARS")
    return Path(given) if given else Path(sys.prefix) / "share" / "tidegate" / "jars"


def ivy_jars(ivy: str | None = None) -> Path:
    """Where Spark 4.1 keeps the jars that it resolved. `ivy`: `spark.jars.ivy`, if set."""
    return (Path(ivy).expanduser() if ivy else Path.home() / ".ivy2.5.2") / "jars"


def cached_jars(packages: Sequence[str], ivy: str | None = None) -> list[str] | None:
    """The jars of Maven coordinates on this machine; None unless all are there. `ivy`: see `cached_jar`."""
    jars = [cached_jar(package, ivy) for package in packages]
    return [str(jar) for jar in jars if jar] if all(jars) else None


def cached_jar(package: str, ivy: str | None = None) -> Path | None:
    """The jar of one artifact (group:artifact:version), if it is on this machine; `ivy`: `spark.jars.ivy`, if set."""
    _, name, version = package.split(":")
    cache, folder, full = ivy_jars(ivy), jar_folder(), ivy_name(package)
    # What was resolved goes before what somebody put into the folder.
    places = (cache / full, folder / full, folder / f"{name}-{version}.jar")
    return next((jar for jar in places if jar.is_file()), None)


def jar_settings(
    packages: Sequence[str], given: Mapping[str, Any], local: bool, purpose: Purpose
) -> dict[str, str]:
    """Where Spark finds the jars of `packages`: on this machine (no resolution at start-up), else it resolves them.

    `given`: the environment's own settings. Its jars, packages and class path are added, not replaced by ours.
    `local`: tasks run in the driver's JVM. Then the jars are on its class path, where nothing copies them for the tasks
    and an archive of classes can have theirs, too; unless one has to be resolved: Spark gives such a jar to a class
    loader of its own, where classes on the class path (Iceberg's, for S3) do not find it.
    """
    ivy = given.get("spark.jars.ivy")
    found = {package: cached_jar(package, ivy) for package in packages}
    here = [jar for jar in found.values() if jar]
    missing = [package for package, jar in found.items() if not jar]
    lists: dict[str, Sequence[str | Path]] = {"spark.jars.packages": missing}
    if not set(S3A_PACKAGES).isdisjoint(missing):
        lists["spark.jars.excludes"] = EXCLUDED_PACKAGES
    lists[_CLASS_PATH if local and not missing else "spark.jars"] = here
    if local and not missing:
        theirs = [Path(part) for part in str(given.get(_CLASS_PATH, "")).split(os.pathsep)]
        jars = [*here, *(path for path in theirs if path.is_file()), *spark_jars()]
        lists[_JAVA_OPTIONS] = [java_options(find_java(), jars, purpose)]
    texts = {key: _joined(key, [*ours, given.get(key, "")]) for key, ours in lists.items()}
    return {key: text for key, text in texts.items() if text}


def _joined(key: str, entries: Sequence[Any]) -> str:
    """The value of a setting that is a list; it comes out of the environment if a part of it does."""
    text = _SEPARATORS.get(key, ",").join(str(entry) for entry in entries if entry)
    return Expanded(text) if any(isinstance(entry, Expanded) for entry in entries) else text


def spark_jars() -> list[Path]:
    """Spark's own, as its launcher puts them on the class path."""
    from pyspark.find_spark_home import _find_spark_home

    return sorted((Path(_find_spark_home()) / "jars").glob("*.jar"))
