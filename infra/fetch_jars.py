"""Resolve Spark's extra jars into Ivy's cache once, so that the first run does not pause for a download."""

from __future__ import annotations

import subprocess
import sys

from tidegate.engine.spark import ICEBERG_PACKAGE, cached_jars
from tidegate.project.java import require_java


def main() -> int:
    if cached_jars([ICEBERG_PACKAGE]) is not None:
        return 0
    require_java()
    print(f"Fetching {ICEBERG_PACKAGE} …", flush=True)
    code = (
        "from pyspark.sql import SparkSession\n"
        f"SparkSession.builder.master('local[1]').config('spark.jars.packages', {ICEBERG_PACKAGE!r})"
        ".config('spark.ui.enabled', 'false').config('spark.driver.bindAddress', '127.0.0.1')"
        ".config('spark.driver.host', '127.0.0.1').getOrCreate().stop()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        print(f"could not fetch {ICEBERG_PACKAGE}: see above", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
