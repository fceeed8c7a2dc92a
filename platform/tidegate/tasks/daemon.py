"""Spark's Python daemon (`spark.python.daemon.module`), which imports what tasks need before it forks: once for all
workers, not once in each. Local Spark only: executors on other machines may not have the package yet when theirs
starts (`_ship_package`).

For each task a worker calls `importlib.invalidate_caches()` (`pyspark.worker_util.setup_spark_files`), which reads the
directory of every archive anew that something was imported from: that was four fifths of the workers' time. The
archives that Spark puts on the path hold what is installed beside tidegate, so the daemon takes them off first.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

#: Bytes that a worker may keep behind a task, beyond what the daemon has: the next task may be of another group (X2).
MAY_KEEP = 256 << 20
_SPARKS_ARCHIVE = re.compile(r"pyspark\.zip|py4j-.*\.zip|.*\.jar")


def without_archives(path: list[str]) -> list[str]:
    """`path` without the archives of Spark, its jars included; as it is where a package of theirs is nowhere else."""
    kept = [entry for entry in path if not _SPARKS_ARCHIVE.fullmatch(Path(entry).name)]
    return kept if all(PathFinder.find_spec(package, kept) for package in ("pyspark", "py4j")) else path


def resident() -> int:
    """Bytes of memory that this process has; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def end_what_has_grown(at_first: int) -> None:
    """Let a worker that keeps more than `MAY_KEEP` behind a task end, and Spark take another one for the next: else the
    tasks that come after it find less memory, whoever they are of. `at_first`: bytes that workers begin with."""
    import pyarrow as pa
    from pyspark import worker
    from pyspark.serializers import SpecialLengths, write_int

    def keeps_too_much() -> bool:
        if resident() - at_first <= MAY_KEEP:
            return False
        pa.default_memory_pool().release_unused()
        return resident() - at_first > MAY_KEEP

    def write(value: int, stream: Any) -> None:
        # The last word of a task, by which Spark takes the worker for another one.
        if value == SpecialLengths.END_OF_STREAM and keeps_too_much():
            write_int(SpecialLengths.END_OF_DATA_SECTION, stream)
            sys.exit(-1)
        write_int(value, stream)

    vars(worker)["write_int"] = write


def main() -> None:
    """Serve until Spark closes standard input."""
    kept = without_archives(sys.path)
    taken_off = tuple(set(sys.path).difference(kept))
    sys.path[:] = kept
    # What has looked for its packages before this has left readers behind, and `org` of Spark's jar as a package: the
    # standard library's `copy` asks for Jython's.
    for name, module in list(sys.modules.items()):
        if any(place.startswith(taken_off) for place in getattr(module, "__path__", ())):
            del sys.modules[name]
    for place in list(sys.path_importer_cache):
        if place.startswith(taken_off):
            del sys.path_importer_cache[place]

    import pyarrow.compute
    import pyarrow.json
    import pyarrow.parquet  # noqa: F401
    import pyspark.sql.pandas.serializers  # noqa: F401
    from pyspark.daemon import manager

    import tidegate.tasks.decode.text.arrow_json
    import tidegate.tasks.gate
    import tidegate.tasks.kafka.reader
    import tidegate.tasks.panes
    import tidegate.tasks.parquet.parquet  # noqa: F401

    # After each task a worker has its garbage collector look at everything that it has: that was more than half of the
    # workers' time in small ticks. What is imported here stays, and is no garbage.
    gc.collect()
    gc.freeze()
    end_what_has_grown(resident())
    manager()


if __name__ == "__main__":
    main()
