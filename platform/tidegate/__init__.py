"""tidegate: RisingWave's watermark semantics on Apache Spark, orchestrated by Dagster.

Importing this package loads neither pyspark nor dagster nor pandas; `connect` loads Spark when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.errors import Location, TidegateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.engine.session import Session

__version__ = "0.1.0"
__all__ = ["Location", "TidegateError", "__version__", "connect"]


def connect(project: Any = None, env: str = "local", spark: SparkSession | None = None) -> Session:
    """Open a session on a project: `execute(sql)`, `table(name)`, `run()`, `close()`.

    `project`: folder of a tidegate project; None uses the working directory if it is one, else a temporary
    project that is removed by `close()`. `env`: which `resources/<env>.yaml`. `spark`: a Spark session that the
    caller already has (it keeps its own settings: tidegate works in a child session of it).
    Raises `TidegateError` for a bad project or a session without the Iceberg runtime.
    """
    from tidegate.engine.session import Session

    return Session.open(project=project, env=env, spark=spark)
