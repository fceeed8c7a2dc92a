"""Jars from Maven through Spark's own resolver, so that a machine needs Python and Java, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidegate.project.java import require_java

_PYSPARK = find_spec("pyspark")  # where it is; importing it takes a second
assert _PYSPARK is not None
assert _PYSPARK.origin is not None

#: Spark's own jars: its resolver leaves out of every answer what is here already (the Scala library, for example).
SPARK_JARS = Path(_PYSPARK.origin).resolve().parent / "jars"


class Unresolved(Exception):
    """Artifacts that no repository gave; `.output` is what Ivy said."""

    def __init__(self, packages: Sequence[str], output: str) -> None:
        self.output = output
        told = [line.strip() for line in output.splitlines() if "not found" in line or "unresolved" in line]
        super().__init__(
            f"could not fetch {', '.join(packages)}:\n" + "\n".join(told[-8:] or output.splitlines()[-8:])
        )

    def names(self, package: str) -> bool:
        """Whether this very package (group:artifact:version) is what could not be had."""
        group, name, version = package.split(":")
        return f"unresolved dependency: {group}#{name};{version}" in self.output


def resolve(packages: Sequence[str], ivy: Path | None = None, exclude: Sequence[str] = ()) -> None:
    """Fetch Maven coordinates and what they depend on into `ivy`/jars, by default Spark's own cache.

    `exclude`: `group:artifact` to leave out. Raises Unresolved, or TG608 if there is no Java. Repositories and proxies
    are those that spark-submit would use; nothing is started but its resolver, which then runs an empty script.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "nothing.py"
        script.touch()
        command = [str(SPARK_JARS.parent / "bin" / "spark-submit"), "--master", "local[1]"]
        command += ["--packages", ",".join(packages)]
        if exclude:
            command += ["--exclude-packages", ",".join(exclude)]
        if ivy is not None:
            command += ["--conf", f"spark.jars.ivy={ivy}"]
        environ = os.environ | {
            "SPARK_HOME": str(SPARK_JARS.parent),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        done = subprocess.run(
            [*command, str(script)], env=environ, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise Unresolved(packages, done.stdout + done.stderr)


def fetch(artifacts: Sequence[str], ivy: Path) -> None:
    """Fetch these artifacts (group:artifact:version or group:artifact:version:classifier), and nothing that they depend
    on, into `ivy`/jars. Spark's resolver knows no classifiers, so Ivy itself is asked; of the same repository.

    Raises Unresolved, or TG608 if there is no Java.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings, module = Path(folder) / "settings.xml", Path(folder) / "ivy.xml"
        settings.write_text(_settings(ivy), "utf-8")
        module.write_text(_module(artifacts), "utf-8")
        command = [require_java().path, "-cp", str(next(SPARK_JARS.glob("ivy-*.jar"))), "org.apache.ivy.Main"]
        command += ["-settings", str(settings), "-ivy", str(module)]
        command += ["-retrieve", f"{ivy}/jars/[organization]_[artifact]-[revision](-[classifier]).[ext]"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unresolved(artifacts, done.stdout + done.stderr)


def _settings(ivy: Path) -> str:
    """Without the poms: nothing in them is of use. The variable is the one by which Spark, too, finds a mirror."""
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        f'<ivysettings><settings defaultResolver="maven"/><caches defaultCacheDir={quoteattr(f"{ivy}/cache")}/>'
        f'<resolvers><ibiblio name="maven" m2compatible="true" usepoms="false"{root}/></resolvers></ivysettings>'
    )


def _module(artifacts: Sequence[str]) -> str:
    wanted = defaultdict[tuple[str, str, str], list[str]](list)
    for artifact in artifacts:
        group, name, version, *classifier = artifact.split(":")
        wanted[group, name, version] += classifier or [""]
    lines = list[str]()
    for (group, name, version), classifiers in wanted.items():
        place = f"org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)}"
        lines.append(f'<dependency {place} conf="default->default">')
        for classifier in classifiers:
            kind = f" m:classifier={quoteattr(classifier)}" if classifier else ""
            lines.append(f'<artifact name={quoteattr(name)} type="jar" ext="jar"{kind}/>')
        lines.append("</dependency>")
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidegate" module="fetched"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )
