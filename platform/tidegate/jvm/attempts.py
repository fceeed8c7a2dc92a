"""C7 in Spark's sessions: `tidegate_attempt(x)` in SQL, see sql/dialect/attempts.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.jvm.java import java_class
from tidegate.sql.dialect.attempts import ATTEMPT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOM = "org.apache.spark.sql.catalyst.expressions"


def know_attempts(spark: SparkSession) -> None:
    """Let the session's SQL ask by `ATTEMPT`: Spark's own expression for it, which no function of its gives any type.

    A function of SQL is made of the list of its arguments, and that expression of one: `Coalesce` of a list of one is
    that one.
    """

    def makes(name: str) -> Any:
        return getattr(java_class(spark._jvm, f"{_ROOM}.{name}$"), "MODULE$")

    registry = spark._jsparkSession.sessionState().functionRegistry()
    registry.createOrReplaceTempFunction(ATTEMPT, makes("TryEval").compose(makes("Coalesce")), "built-in")
