"""What Spark says when a job fails, as an error that a data team can act on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import NO_MEMORY, Location, TidegateError
from tidegate.masking import masked
from tidegate.project.disk import trouble

#: What Spark says of a worker that has ended in the middle of a task.
_GONE = ("Python worker exited unexpectedly", *NO_MEMORY)
_NAMED_FILE = re.compile(r"reading file (?:file:/+)?(\S+?)\.\s")


def refused(what: str, error: BaseException, location: Location | None = None) -> TidegateError:
    """TG507 for a query that Spark does not accept; `what` names it. TG514 if it was not the query: Spark is gone."""
    return spark_gone(what) or TidegateError(
        "TG507", f"Spark refuses {what}: {spark_message(error)}", location=location
    )


def spark_gone(what: str) -> TidegateError | None:
    """TG514 if there is no JVM any more: a killed one makes any call fail, in ways that look like an answer."""
    from pyspark import SparkContext
    from pyspark.sql.utils import is_remote

    if is_remote():
        return None  # what answers is another process, or none: there is no JVM to ask
    try:
        gateway = SparkContext._gateway
        assert gateway is not None  # else it is gone as well
        gateway.jvm.System.nanoTime()
    except Exception:
        return TidegateError("TG514", f"Spark stopped in the middle of {what}", hint="run again")
    return None


def failed(what: str, error: BaseException, location: Location | None = None) -> TidegateError:
    """TG513 for a job that broke off; nothing of its batch is committed."""
    if (known := trouble(error, location)) is not None:
        return known
    text = spark_message(error)
    named = _NAMED_FILE.search(text + " ")
    todo = "run again; with --debug, everything that Spark reports is shown"
    if named:
        todo = f"compare the declared columns with those of {named.group(1).rpartition('/')[2]}"
    hint = f"none of the rows of this batch were stored; {todo}"
    return TidegateError("TG513", f"{what} failed: {text}", hint=hint, location=location)


@contextmanager
def failing_as(what: str, location: Location | None = None) -> Iterator[None]:
    """While the block runs, what Spark says of a job that broke off is TG513."""
    try:
        yield
    except Exception as error:
        if not is_from_spark(error):
            raise
        raise failed(what, error, location) from error


def failed_later(what: str, error: BaseException, location: Location | None = None) -> TidegateError:
    """TG513 for a job that broke off behind the commit of its batch."""
    if (known := trouble(error, location)) is not None:
        return known
    return TidegateError(
        "TG513",
        f"{what} is stored, but the step after it failed: {spark_message(error)}",
        hint="run again: the next run continues after this batch",
        location=location,
    )


def too_little_memory(what: str, smallest: str, location: Location | None) -> TidegateError:
    """TG513 for a batch whose workers die, though no row is to blame and it is as small as it can be."""
    return TidegateError(
        "TG513",
        f"{what} failed: its Python workers die, and no single row was found that kills a worker. "
        f"The batch can't be made smaller: one task at a time reads {smallest}, in small pieces",
        hint="nothing of this batch was kept. Give Spark's Python workers more memory, and run again: something else "
        "may have taken the machine's; if spark.executor.pyspark.memory is set, an executor's tasks share it, and on a "
        "cluster spark.executor.memoryOverhead is for all of an executor's workers",
        location=location,
    )


def worker_died(error: BaseException) -> bool:
    """Whether a job has failed because a process of its Python workers is gone: over a row, or for want of memory."""
    java = getattr(error, "java_exception", None)
    text = f"{error} {java.getMessage() if java is not None else ''}"
    return is_from_spark(error) and any(sign in text for sign in _GONE)


def one_line(error: BaseException) -> str:
    """What an error says, for an event or a log: without place, hint or stack trace."""
    if isinstance(error, TidegateError):
        return error.message
    text = spark_message(error) if is_from_spark(error) else masked(str(error).partition("\n")[0])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_from_spark(error: BaseException) -> bool:
    """Whether the exception came out of Spark or the JVM."""
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def spark_message(error: BaseException) -> str:
    """The one line that matters of a PySpark or Py4J error."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(error)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    # A failed task's message starts with bookkeeping; the cause is behind the exception's name.
    cause = next(
        (line for line in lines if "Exception: " in line or "Error: " in line), lines[0] if lines else "?"
    )
    if "aborted due to stage failure" in cause:
        cause = re.sub(r"^.*?(?:Exception|Error): ", "", cause)
    return masked(cause)
