"""A keyed table as people write it by hand: MERGE into Iceberg, and the changes appended to a second table.

`python -m tests.benchmarks.engines.run_merge SPEC.json`. Nothing is judged late, and nothing expires.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from tests.benchmarks.engines.run_spark import session


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    spark = session(spec)
    for name, value in {
        "spark.sql.catalog.bench": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.bench.type": "hadoop",
        "spark.sql.catalog.bench.warehouse": f"{spec['out']}/warehouse",
    }.items():
        spark.conf.set(name, value)
    for number, files in enumerate(spec["batches"]):
        print(f"MARK begin-{number}", flush=True)
        change(spark, files, first=number == 0)
        print(f"MARK end-{number}", flush=True)


def change(spark: SparkSession, files: list[str], first: bool) -> None:
    """The last change of each key goes into the table; all of them into the copy."""
    rows = spark.read.parquet(*files)
    newest = Window.partitionBy("key").orderBy(F.desc("off"))
    last = rows.withColumn("n", F.row_number().over(newest)).where("n = 1").drop("n", "part", "off")
    if first:
        last.writeTo("bench.db.accounts").using("iceberg").create()
        rows.writeTo("bench.db.changes").using("iceberg").create()
        return
    last.createOrReplaceTempView("last")
    spark.sql(
        "MERGE INTO bench.db.accounts t USING last s ON t.key = s.key "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows.writeTo("bench.db.changes").append()


if __name__ == "__main__":
    main()
