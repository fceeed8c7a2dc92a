"""Jobs of Spark's core: a function of Python's in each of some tasks.

A query that does the same, `spark.range(n).mapInArrow(…).collect()`, is analysed, optimised, planned and described anew
each time, for rows that nobody needs: the numbers of its tasks. Of a small tick that was a tenth.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tidegate.jvm.calls import Calls, Promise
from tidegate.jvm.gathered import gatherer
from tidegate.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

#: What a task does: with its number, and what its partition holds, to what it gives back.
Work = Callable[[int, Iterator[bytes]], Iterator[Any]]

_PYTHON = "org.apache.spark.api.python"

#: What Spark SQL sets in the environment of its Python workers, and Spark's core does not. Workers of another
#: environment are another daemon's, which would import everything once more.
WORKERS_OF_SQL = {"SPARK_SIMPLIFIED_TRACEBACK": "1"}


def has_core(spark: SparkSession) -> bool:
    """Whether the session is one of a Spark in the driver's own JVM, and not of one that is asked over a network."""
    return getattr(spark, "_jsparkSession", None) is not None


def run_in_tasks(spark: SparkSession, work: Work, tasks: int) -> list[Any]:
    """What `work` gives in each of so many tasks, in their order. Few things, and small ones: the driver gets all."""
    return run_over(spark, work, _core_of(spark.sparkContext).without_rows(spark.sparkContext, tasks))


def run_over(spark: SparkSession, work: Work, rdd: Any) -> list[Any]:
    """As `run_in_tasks`, in a task for each partition of an RDD of the JVM, whose bytes it gets."""
    context = spark.sparkContext
    calls = Calls(context._jvm)
    job, by_our_own = _core_of(context).job(context, work, rdd, calls), gatherer(context)
    # Bounded: what `work` gives, which `run_in_tasks` says is little.
    found = calls.call(job, "collect") if by_our_own is None else calls.call(by_our_own, "collect", job)
    found, size = calls.run(found, calls.call(found, "size"))
    calls = Calls(context._jvm)
    return [
        pickle.loads(bytes(one)) for one in calls.run(*[calls.call(found, "get", n) for n in range(size)])
    ]


class _Core:
    """What is the same for all jobs of a SparkContext: objects of its JVM, asked for once."""

    def __init__(self, context: SparkContext) -> None:
        self._jvm = context._jvm
        hash_map = java_class(self._jvm, "java.util.HashMap")
        self._nothing = java_class(self._jvm, "java.util.ArrayList")()
        self._environment = hash_map()
        for key, value in (dict(context.environment) | WORKERS_OF_SQL).items():
            self._environment.put(key, value)
        self._function = java_class(self._jvm, f"{_PYTHON}.SimplePythonFunction")
        self._rdd = java_class(self._jvm, f"{_PYTHON}.PythonRDD")
        self._empty: dict[int, Any] = {}

    def job(self, context: SparkContext, work: Work, rdd: Any, calls: Calls) -> Promise:
        """What `work` gives, as an RDD of bytes in the JVM."""
        from pyspark.core.rdd import _prepare_for_python_RDD
        from pyspark.serializers import CPickleSerializer, NoOpSerializer

        command = (work, None, NoOpSerializer(), CPickleSerializer())
        pickled, broadcasts, _, includes = _prepare_for_python_RDD(context, command)
        function = calls.new(
            self._function,
            bytearray(pickled),
            self._environment,
            list(includes) or self._nothing,
            context.pythonExec,
            context.pythonVer,
            broadcasts or self._nothing,
            # No accumulators: each task that ends would call the driver's Python for them.
            None,
        )
        return calls.call(calls.new(self._rdd, rdd, function, False, False), "asJavaRDD")

    def without_rows(self, context: SparkContext, tasks: int) -> Any:
        """An RDD of so many partitions, in which nothing is."""
        if tasks not in self._empty:
            self._empty[tasks] = context.parallelize([], tasks)._jrdd.rdd()
        return self._empty[tasks]


def _core_of(context: SparkContext) -> _Core:
    found: _Core | None = getattr(context, "_tidegate_core", None)
    if found is None:
        found = context._tidegate_core = _Core(context)  # type: ignore[attr-defined]  # a mark of our own
    return found
