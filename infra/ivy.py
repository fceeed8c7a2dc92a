"""Jars from Maven through Spark's own resolver, so that a machine needs Python and Java, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

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
