"""tidegate: RisingWave's watermark semantics on Apache Spark, orchestrated by Dagster.

This module is the public Python API, together with `tidegate.dagster` for Dagster projects. Every other module may
change from release to release.

```python
import tidegate

with tidegate.connect(project="shop") as session:
    report: tidegate.RunReport = session.run()
    late: tidegate.Result = session.execute('SELECT * FROM "orders$late"')
    for row in late.rows(10):
        print(row)
    session.table("orders_hourly").show()
```

Importing this package loads neither pyspark nor dagster nor pandas; `connect` loads Spark when it is called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate.errors import Location, TidegateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.plan.events import Event
    from tidegate.project import Project
    from tidegate.runtime.result import Result, RunReport
    from tidegate.session.session import Session
    from tidegate.tables.table import Cleaned

__version__ = "0.1.0"
__all__ = [
    "Cleaned",
    "Event",
    "Location",
    "Project",
    "Result",
    "RunReport",
    "Session",
    "TidegateError",
    "__version__",
    "connect",
]

#: Loaded when they are asked for: what `connect` takes and gives, and whom it tells of events.
_LOADED_LATER = {
    "Cleaned": "tidegate.tables.table",
    "Event": "tidegate.plan.events",
    "Project": "tidegate.project",
    "Result": "tidegate.runtime.result",
    "RunReport": "tidegate.runtime.result",
    "Session": "tidegate.session.session",
}


def __getattr__(name: str) -> Any:
    if name in _LOADED_LATER:
        return getattr(import_module(_LOADED_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def connect(project: Any = None, env: str = "local", spark: SparkSession | None = None) -> Session:
    """Open a session on a project: `execute(sql)`, `table(name)`, `run()`, `close()`.

    `project`: folder of a tidegate project; None uses the working directory if it is one, else a temporary
    project that is removed by `close()`. `env`: which `resources/<env>.yaml`. `spark`: a Spark session that the
    caller already has (it keeps its own settings: tidegate works in a child session of it).
    Raises `TidegateError` for a bad project or a session without the Iceberg runtime.
    """
    from tidegate.session.session import Session

    return Session.open(project=project, env=env, spark=spark)
