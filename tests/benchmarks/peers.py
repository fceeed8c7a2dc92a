"""The peers, each in an environment of its own below a folder that git ignores, installed when first wanted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.ivy import SPARK_JARS, Unresolved, resolve
from tidegate.errors import TidegateError

FLINK_VERSION = "2.3.0"
FLINK_PACKAGES = (
    f"org.apache.flink:flink-sql-parquet:{FLINK_VERSION}",
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
    "commons-logging:commons-logging:1.2",
)
#: What these name as dependencies although they hold it, or Flink does.
_EXCLUDED = ("org.apache.flink:flink-core", "org.apache.kafka:kafka-clients", "com.fasterxml.jackson.core:*")
DUCKDB_VERSION = "2.0.0"


class Missing(Exception):
    """Why a peer is not to be had here."""


class Peers:
    """What is installed below `root`."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self.root, self._say = root.resolve(), say

    def duckdb(self) -> Path:
        """The Python that has DuckDB. Raises Missing."""
        return self._environment("duckdb", [f"duckdb=={DUCKDB_VERSION}"])

    def flink(self) -> tuple[Path, list[Path]]:
        """The Python that has Flink, and the jars of its connectors and formats. Raises Missing."""
        python = self._environment("flink", [f"apache-flink=={FLINK_VERSION}", "setuptools"])
        ivy = self.root / "flink-jars"
        done = ivy / "done"
        if not done.is_file() or done.read_text() != " ".join(FLINK_PACKAGES):
            self._say("fetching Flink's connectors")
            try:
                resolve(FLINK_PACKAGES, ivy, _EXCLUDED)
            except (Unresolved, TidegateError, OSError) as error:
                raise Missing(str(error)) from error
            done.write_text(" ".join(FLINK_PACKAGES))
        # Flink reads Parquet through Hadoop's classes, which Spark has.
        hadoop = [next(SPARK_JARS.glob(f"hadoop-client-{part}-*.jar")) for part in ("api", "runtime")]
        return python, [*sorted((ivy / "jars").glob("*.jar")), *hadoop]

    def _environment(self, name: str, packages: Sequence[str]) -> Path:
        folder = self.root / name
        done, python = folder / "done", folder / "bin" / "python"
        if done.is_file() and done.read_text() == " ".join(packages):
            return python
        self._say(f"installing {packages[0]} into {folder}")
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
        ):
            made = subprocess.run(command, capture_output=True, text=True, check=False)
            if made.returncode:
                raise Missing(
                    f"{packages[0]} can't be installed: {(made.stderr or made.stdout).strip()[-300:]}"
                )
        done.write_text(" ".join(packages))
        return python
