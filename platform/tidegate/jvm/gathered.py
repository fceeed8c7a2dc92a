"""What the tasks of a job give, gathered by a class of our own.

`RDD.collect` gives Spark closures of Scala's. For each job Spark reads the class files of `RDD` and of `SparkContext`
anew, to see what these closures hold and do not need, which is nothing: that was a quarter of the JVM's time for a
small job. An object that does the same, and is no closure, is taken as it is.

Tasks find its class where Spark's own are, so it is put there, which is for a Spark in one JVM alone: executors of a
cluster do not have it. It is compiled when it has become worth that.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.jvm.compiled import added, made_if_worth
from tidegate.jvm.java import class_of

if TYPE_CHECKING:
    from pyspark.core.context import SparkContext

#: How many jobs are worth the class: to compile it takes as long as it saves with half as many.
_WORTH = 50

#: Where a SparkContext keeps what gathers, and how many jobs there were before.
_GATHERER, _JOBS = "_tidegate_gatherer", "_tidegate_jobs"

_NAME = "tidegate.Gatherer"
_CLASS = """
package tidegate;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import scala.collection.Iterator;
import scala.reflect.ClassTag;

public class Gatherer implements scala.Function2, java.io.Serializable {
    public Object apply(Object context, Object rows) {
        ArrayList found = new ArrayList();
        for (Iterator all = (Iterator) rows; all.hasNext();) {
            found.add(all.next());
        }
        return found;
    }

    public List collect(JavaRDD job) {
        ClassTag anything = scala.reflect.ClassTag$.MODULE$.AnyRef();
        Object[] tasks = (Object[]) job.context().runJob(job.rdd(), this, anything);
        ArrayList found = new ArrayList();
        for (int i = 0; i < tasks.length; i++) {
            found.addAll((List) tasks[i]);
        }
        return found;
    }
}
"""


def gatherer(context: SparkContext) -> Any:
    """An object of Java's whose `collect` gives what that of an RDD gives. None where it is not worth it, or is not
    possible."""
    return made_if_worth(vars(context), _GATHERER, _JOBS, _WORTH, lambda: _made(context))


def _made(context: SparkContext) -> Any:
    # Whatever fails there, an RDD can gather by itself.
    with suppress(Exception):
        if context._jsc.sc().isLocal():
            beside = class_of(context._jvm, "org.apache.spark.SparkContext")
            return added(context._jvm, _NAME, _CLASS, beside).getDeclaredConstructors()[0].newInstance(None)
    return None
