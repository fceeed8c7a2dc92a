"""Projects whose own processes have a Spark for tiny jobs, as the tests' own is (`tests.conftest.spark`).

With Spark's code generation and Java's second compiler run the sessions that are opened as `compiled`, and what users
type: README, tutorial, pages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.jvm.attempts import know_attempts
from tidegate.jvm.spark import SQL_SETTINGS
from tidegate.testing.runner import QUICK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def quick(root: Path, env: str = "local", **more: Any) -> None:
    """Write the environment of the project in `root`. `more`: of the same file."""
    folder = root / "resources"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{env}.yaml").write_text(json.dumps({"spark": {"conf": QUICK}} | more), encoding="utf-8")


def engine_session(spark: SparkSession) -> SparkSession:
    """A session of this Spark as the engine's own are (`tidegate.jvm.spark.child`), all but its catalog."""
    session = spark.newSession()
    for key, value in SQL_SETTINGS.items():
        session.conf.set(key, value)
    know_attempts(session)
    return session
